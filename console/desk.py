"""The desk: every operation that a person has, whoever carries it out."""

from typing import Protocol

from console.views import (
    AddedSource,
    DocumentKeys,
    DocumentView,
    Judgement,
    ParkedMessage,
    SourceView,
    StackStatus,
)
from contracts.activities import Command, CommandResult
from contracts.provenance import DocumentRun, SourceProgress
from contracts.runs import DocumentOutcome, DocumentStatus, RunRecord
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig


class Desk(Protocol):
    """The operations. All raise the error tree: `UnknownSource`, `NotReachable` and others.

    Listings have a stable order: what comes `after` a key of it, at most `limit` (None: all).
    """

    async def sources(self, after: str = "", limit: int | None = None) -> list[SourceView]:
        """Sources, by id."""

    async def add(self, config: SourceConfig, actor: str) -> AddedSource:
        """Check that the source can be read, store it, and ask for a crawl.

        A known source gets the new settings; another place needs another name.
        """

    async def show(self, source_id: str) -> SourceView:
        """One source."""

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Have a command obeyed; a refusal is raised as the class that it names."""

    async def runs(
        self, source_id: str, limit: int = 50, after: int | None = None
    ) -> list[RunRecord]:
        """The newest runs, newest first; those that come after a sequence are below it."""

    async def run(self, source_id: str, seq: int) -> RunRecord:
        """One run; `UnknownRun` if there is none."""

    async def decide(self, source_id: str, seq: int | None, verdict: Judgement) -> CommandResult:
        """Approve or reject the run that waits; a refusal is raised."""

    async def outcomes(
        self, source_id: str, seq: int, after: str = "", limit: int | None = None
    ) -> list[DocumentOutcome]:
        """How each document left each stage of a run, by key and stage; the limit is of
        documents."""

    async def documents(
        self, source_id: str, after: str = "", limit: int | None = None
    ) -> list[DocumentStatus]:
        """Documents that are served, failed, on their way or waiting, ascending by key."""

    async def document(self, source_id: str, doc_key: str) -> DocumentView:
        """One document; `UnknownDocument` if nothing is known of it."""

    async def history(
        self, source_id: str, doc_key: str, limit: int = 20, after: int | None = None
    ) -> list[DocumentRun]:
        """The newest runs that touched a document, newest first; those that come after a sequence
        are below it. `UnknownDocument` if nothing is known of it."""

    async def progress(self, source_id: str) -> SourceProgress:
        """What a source is doing now, and what waits."""

    async def retry(self, source_id: str, request: DocumentKeys) -> int:
        """Have documents tried again as they are; answers how many. `UnknownDocument` for one that
        nothing is known of."""

    async def acknowledge(self, source_id: str, request: DocumentKeys) -> int:
        """Accept that documents fail as they are; answers how many. `UnknownDocument` for one that
        doesn't fail for good."""

    async def search(self, question: SearchQuestion) -> SearchAnswer:
        """The best chunks of the sources."""

    async def parked(self, after: str = "", limit: int | None = None) -> list[ParkedMessage]:
        """Messages that no decoder understands, by `ParkedMessage.place`."""

    async def status(self) -> StackStatus:
        """What runs."""
