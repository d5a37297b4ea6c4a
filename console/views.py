"""What the desk answers where no model of the vocabulary is the answer already."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from contracts.activities import Command
from contracts.documents import DocumentVersion
from contracts.ids import OPEN_SEQ, DocKey
from contracts.provenance import DocumentRun
from contracts.runs import DocumentOutcome, DocumentStatus, RunRecord
from contracts.search import SearchQuestion
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer
from contracts.wire import WireModel

Figure = str | int | float | bool | None
ActorName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
ReasonText = Annotated[str, StringConstraints(max_length=1_000)]


class SourceView(WireModel):
    """A source: its configuration, what readers see of it, and how far it is behind."""

    config: SourceConfig
    revision: int
    created_at: datetime
    paused: bool = False
    pinned: bool = False
    pointer: LivePointer
    documents: int = 0  # visible
    chunks: int = 0  # visible
    pending: int = 0  # changed keys that no promotion has settled
    last_run: RunRecord | None = None


class AddedSource(WireModel):
    """A source that was stored. `crawling` False: its first run waits for a stack."""

    source: SourceView
    crawling: bool


class DocumentView(WireModel):
    """A document: what is served of it, what made that, and how each stage of its last run went."""

    source_id: str
    doc_key: DocKey
    status: DocumentStatus | None = None
    live: DocumentVersion | None = None  # None: nothing of it is served
    outcomes: tuple[DocumentOutcome, ...] = ()  # of the last run that had one
    made: DocumentRun | None = None  # the run that made what is served
    latest: DocumentRun | None = None  # the newest run that touched it


class Judgement(WireModel):
    """A person's decision on the run that waits."""

    approve: bool
    actor: ActorName = "api"
    reason: ReasonText = ""
    manifest_digest: str | None = None  # None: of the run as it is shown now


class DocumentKeys(WireModel):
    """Documents that a person wants something of."""

    keys: tuple[DocKey, ...] = Field(min_length=1, max_length=1_000)
    actor: ActorName = "api"
    reason: ReasonText = ""


class Order(Command):
    """A command as the API takes it: nothing that its receiver wouldn't understand."""

    verb: Literal["crawl", "pause", "resume", "rollback", "empty", "remove"]
    actor: ActorName = "api"
    reason: ReasonText = ""
    to_seq: int | None = Field(default=None, ge=1, le=OPEN_SEQ)

    def command(self) -> Command:
        """The command itself."""
        return Command.model_validate(self.model_dump())


class Question(SearchQuestion):
    """A question as the API takes it: with words, to at least one source."""

    text: str = Field(pattern=r"\S", max_length=10_000)
    sources: tuple[str, ...] = Field(min_length=1, max_length=100)
    at: int | None = Field(default=None, ge=0, le=OPEN_SEQ)


class Count(WireModel):
    """How many documents something was done with."""

    documents: int


class Health(WireModel):
    """The API answers; nothing is said of what is behind it."""

    status: Literal["ok"] = "ok"


class ParkedMessage(WireModel):
    """A message that no decoder understands."""

    id: str
    reason: str
    parked_at: datetime | None = None
    original: str = ""  # as text, undecodable bytes replaced
    attributes: dict[str, str] = Field(default_factory=dict)

    @property
    def place(self) -> str:
        """Its key in the order of the listing: `<day>/<id>`."""
        return f"{self.parked_at:%Y-%m-%d}/{self.id}" if self.parked_at else self.id


class StackStatus(WireModel):
    """What runs, in which versions. `bridge` has the figures of the bridge, by name."""

    running: bool  # a stack, with workers
    versions: dict[str, str] = Field(default_factory=dict)
    bridge: dict[str, Figure] = Field(default_factory=dict)
    sources: int = 0
