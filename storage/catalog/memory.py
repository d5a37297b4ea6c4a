"""The catalog in memory: the same statements over a private SQLite database that is never a file.

A second implementation would judge differently sooner or later, and what tests need of a memory
adapter (nothing to set up, nothing left behind) this one has too.
"""

from datetime import timedelta

from storage.catalog.repository import LATE_WRITER, READER_GRACE, SqlCatalog, open_catalog

URL = "sqlite+aiosqlite://"


async def open_memory_catalog(
    *, reader_grace: timedelta = READER_GRACE, late_writer: timedelta = LATE_WRITER
) -> SqlCatalog:
    """An empty catalog of its own."""
    return await open_catalog(URL, reader_grace=reader_grace, late_writer=late_writer)
