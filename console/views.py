"""What the desk answers where no model of the vocabulary is the answer already."""

from datetime import datetime

from pydantic import Field

from contracts.documents import DocumentVersion
from contracts.ids import DocKey
from contracts.runs import DocumentOutcome, DocumentStatus, RunRecord
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer
from contracts.wire import WireModel

Figure = str | int | float | bool | None


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
    """A document: what is served of it, and how each stage of its last run went."""

    source_id: str
    doc_key: DocKey
    status: DocumentStatus | None = None
    live: DocumentVersion | None = None  # None: nothing of it is served
    outcomes: tuple[DocumentOutcome, ...] = ()  # of the last run that had one


class Judgement(WireModel):
    """A person's decision on the run that waits."""

    approve: bool
    actor: str = "api"
    reason: str = ""
    manifest_digest: str | None = None  # None: of the run as it is shown now


class DocumentKeys(WireModel):
    """Documents that a person wants something of."""

    keys: tuple[DocKey, ...] = Field(min_length=1, max_length=1_000)
    actor: str = "api"
    reason: str = ""


class ParkedMessage(WireModel):
    """A message that no decoder understands."""

    id: str
    reason: str
    parked_at: datetime | None = None
    original: str = ""  # as text, undecodable bytes replaced
    attributes: dict[str, str] = Field(default_factory=dict)


class StackStatus(WireModel):
    """What runs, in which versions. `bridge` has the figures of the bridge, by name."""

    running: bool  # a stack, with workers
    versions: dict[str, str] = Field(default_factory=dict)
    bridge: dict[str, Figure] = Field(default_factory=dict)
    sources: int = 0
