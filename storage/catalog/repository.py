"""The catalog as a whole: every port of it over one database."""

from datetime import timedelta
from pathlib import Path

from storage.catalog.audit import Audit
from storage.catalog.database import Database
from storage.catalog.documents import Documents
from storage.catalog.failures import Failures
from storage.catalog.history import History
from storage.catalog.migrations import migrate
from storage.catalog.outcomes import Outcomes
from storage.catalog.pending import Pending
from storage.catalog.pointers import Pointers
from storage.catalog.readers import Readers
from storage.catalog.retirement import Retirement
from storage.catalog.runs import Runs
from storage.catalog.sources import Sources
from storage.catalog.staging import Staging
from storage.catalog.statuses import Statuses
from storage.catalog.vectors import Vectors

READER_GRACE = timedelta(seconds=10)  # longer than any query
LATE_WRITER = timedelta(minutes=10)  # longer than any write of a fenced run
RETRY_BACKOFF = 30.0  # seconds
LONGEST_BACKOFF = 3_600.0  # seconds


class SqlCatalog(
    Sources,
    Pointers,
    Runs,
    Documents,
    Staging,
    Retirement,
    Failures,
    Outcomes,
    Statuses,
    History,
    Readers,
    Vectors,
    Audit,
):
    """The adapter of `contracts.ports.Catalog`."""

    def __init__(
        self,
        database: Database,
        *,
        reader_grace: timedelta = READER_GRACE,
        late_writer: timedelta = LATE_WRITER,
        retry_backoff: float = RETRY_BACKOFF,
        longest_backoff: float = LONGEST_BACKOFF,
    ) -> None:
        Pointers.__init__(self, database, reader_grace)
        Staging.__init__(self, database, late_writer)
        Retirement.__init__(self, database, reader_grace)
        self._database = database
        self._pending_keys = Pending(database, retry_backoff, longest_backoff)

    @property
    def pending_keys(self) -> Pending:
        """The pending keys."""
        return self._pending_keys

    async def close(self) -> None:
        """Let go of connections."""
        await self._database.close()


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite+aiosqlite:///{path}"


async def open_catalog(
    url: str,
    *,
    reader_grace: timedelta = READER_GRACE,
    late_writer: timedelta = LATE_WRITER,
    retry_backoff: float = RETRY_BACKOFF,
    longest_backoff: float = LONGEST_BACKOFF,
) -> SqlCatalog:
    """Open the database, bring it to the newest schema, and answer the catalog on it."""
    database = Database(url)
    try:
        await migrate(database)
    except BaseException:
        await database.close()
        raise
    return SqlCatalog(
        database,
        reader_grace=reader_grace,
        late_writer=late_writer,
        retry_backoff=retry_backoff,
        longest_backoff=longest_backoff,
    )
