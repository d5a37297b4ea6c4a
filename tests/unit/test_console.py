"""The API and its client, on ports in memory: what goes in at one end comes out at the other."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
from structlog.testing import capture_logs

from console.api import create_app
from console.client import ApiClient
from console.desk import Desk
from console.local_desk import LocalDesk, _just_before
from console.problems import Problem, error_class
from console.services import Services
from console.views import DocumentKeys, ParkedMessage
from contracts.activities import Command, CommandResult
from contracts.documents import DocumentVersion
from contracts.errors import (
    AccessRefused,
    ConfigurationError,
    NotReachable,
    RollbackRefused,
    SluiceError,
    SourceUnavailable,
    UnknownDocument,
    UnknownKind,
    UnknownRun,
    UnknownSource,
)
from contracts.events import ChangeSignal, EventTrace
from contracts.ids import OPEN_SEQ
from contracts.provenance import DocumentRun, Result, SourceProgress
from contracts.runs import (
    AuditEntry,
    DocumentOutcome,
    DocumentStatus,
    KnownFailure,
    OutcomeStatus,
    RunRecord,
    RunState,
    Stage,
)
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig, SourceRecord
from contracts.visibility import LivePointer, View

KEY = "a key"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class Books:
    """As much of a catalog as the desk reads: one promoted run of two documents."""

    def __init__(self) -> None:
        self.records: dict[str, SourceRecord] = {}
        self.actors: list[str] = []
        self.pending_keys = self
        self.live = 1

    async def put_source(self, config: SourceConfig, actor: str) -> SourceRecord:
        self.actors.append(actor)
        known = self.records.get(config.source_id)
        record = SourceRecord(
            config=config, revision=known.revision + 1 if known else 1, created_at=NOON
        )
        self.records[config.source_id] = record
        return record

    async def source(self, source_id: str) -> SourceRecord:
        if source_id not in self.records:
            raise UnknownSource(f"no source {source_id}")
        return self.records[source_id]

    async def sources(self) -> list[SourceRecord]:
        return [self.records[name] for name in sorted(self.records)]

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        return {name: LivePointer(source_id=name, seq=self.live) for name in source_ids}

    async def counts(self, view: View) -> tuple[int, int]:
        return 1, 3

    async def pending(self, source_id: str) -> int:
        return 2

    async def runs(
        self, source_id: str, limit: int = 50, before: int | None = None
    ) -> list[RunRecord]:
        return [run_record(source_id)][:limit] if before is None else []

    async def run(self, source_id: str, seq: int) -> RunRecord | None:
        return run_record(source_id) if seq == 1 else None

    async def outcomes(
        self,
        source_id: str,
        seq: int,
        stage: Stage | None = None,
        doc_keys: Collection[str] = (),
        *,
        after: str = "",
        documents: int | None = None,
    ) -> list[DocumentOutcome]:
        return [outcome() for key in doc_keys or ["b"] if key == "b" and key > after]

    async def history(
        self, source_id: str, doc_key: str, before: int | None = None, limit: int = 20
    ) -> list[DocumentRun]:
        made = [document_run(source_id, seq) for seq in (2, 1) if doc_key in {"a", "gone"}]
        return [run for run in made if before is None or run.seq < before][:limit]

    async def progress(self, source_id: str) -> SourceProgress:
        return SourceProgress(source_id=source_id, run=run_record(source_id), waiting=3)

    async def known_failures(
        self, source_id: str, doc_keys: Collection[str]
    ) -> dict[str, KnownFailure]:
        return {}

    async def retry(self, source_id: str, doc_keys: Collection[str]) -> None:
        pass

    async def append(self, entry: AuditEntry) -> None:
        pass

    async def statuses(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        lines = (DocumentStatus(doc_key="a"), DocumentStatus(doc_key="b", last_seq=1))
        return [line for line in lines if line.doc_key > after][:limit]

    async def versions(self, view: View, doc_keys: Collection[str]) -> dict[str, DocumentVersion]:
        return {
            key: DocumentVersion(
                doc_key=key,
                from_seq=1,
                to_seq=OPEN_SEQ,
                source_version="v",
                content_hash="c",
                fingerprint="f",
            )
            for key in doc_keys
            if key == "a"
        }


class Place:
    """A source kind whose containers are readable, but for `refused`."""

    def validate(self, config: SourceConfig) -> SourceConfig:
        if config.container == "nowhere":
            raise ConfigurationError("nowhere is no place")
        return config

    def open(self, config: SourceConfig) -> "Place":
        self.container = config.container
        return self

    async def check(self) -> None:
        if self.container == "refused":
            raise AccessRefused("the bucket refuses us: see its policy")
        if self.container == "hangs":
            await asyncio.Event().wait()
        if self.container == "silent":
            raise SourceUnavailable("the bucket does not answer")

    async def close(self) -> None:
        pass


class Coordinators:
    """What was asked of Temporal."""

    def __init__(self, answer: CommandResult | None = None) -> None:
        self.answer = answer or CommandResult(ok=True, message="done")
        self.signals: list[tuple[str, ChangeSignal]] = []
        self.commands: list[tuple[str, Command]] = []

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        self.signals.append((source_id, signal))

    async def command(self, source_id: str, command: Command) -> CommandResult:
        self.commands.append((source_id, command))
        return self.answer

    async def collected(self, source_id: str) -> int:
        return 5


class Echo:
    """A search that answers with what it was asked."""

    async def ask(self, question: SearchQuestion) -> SearchAnswer:
        return SearchAnswer(pinned=dict.fromkeys(question.sources, question.at or 1))


def run_record(source_id: str) -> RunRecord:
    return RunRecord(
        source_id=source_id,
        seq=1,
        run_id=f"{source_id}.1",
        generation=1,
        base_seq=0,
        state=RunState.PROMOTED,
        cause="crawl",
        started_at=NOON,
    )


def document_run(source_id: str, seq: int) -> DocumentRun:
    return DocumentRun(
        source_id=source_id,
        doc_key="a",
        seq=seq,
        run_id=f"{source_id}.{seq}",
        cause="change",
        state=RunState.PROMOTED,
        started_at=NOON,
        result=Result.INGESTED,
        events=(EventTrace(origin="s3", name="ObjectCreated:Put", taken_at=NOON),),
    )


def outcome() -> DocumentOutcome:
    return DocumentOutcome(
        doc_key="b", stage=Stage.PARSE, status=OutcomeStatus.FAILED, error="CorruptDocument"
    )


def config(container: str = "here", source_id: str = "docs") -> SourceConfig:
    return SourceConfig(source_id=source_id, kind="place", container=container)


def kind(name: str) -> Place:
    if name != "place":
        raise UnknownKind(f"no kind {name}")
    return Place()


async def parked(after: str = "", limit: int | None = None) -> list[ParkedMessage]:
    messages = [ParkedMessage(id=str(n), reason="no decoder", original="{") for n in range(1, 4)]
    return [message for message in messages if message.place > after][:limit]


def services(coordinators: Coordinators | None = None, books: Books | None = None) -> Services:
    return Services(
        catalog=books or Books(),  # type: ignore[arg-type]  # only what the desk reads
        search=Echo(),
        kind=kind,  # type: ignore[arg-type]  # it is its own source
        key=KEY,
        orchestrator=coordinators,  # type: ignore[arg-type]  # only what the desk asks
        parked=parked,
        bridge_status=lambda: {"taken": 7},
        versions={"sluice": "0"},
    )


@asynccontextmanager
async def client(given: Services, key: str = KEY) -> AsyncIterator[ApiClient]:
    transport = httpx.ASGITransport(create_app(given), raise_app_exceptions=False)
    async with ApiClient("http://stack", key, transport) as opened:
        yield opened


@asynccontextmanager
async def desk(how: str, given: Services) -> AsyncIterator[Desk]:
    if how == "direct":
        yield LocalDesk(given)
        return
    async with client(given) as opened:
        yield opened


both_ways = pytest.mark.parametrize("how", ["direct", "over HTTP"])


@both_ways
async def test_an_added_source_is_stored_and_crawled(how: str) -> None:
    """Adding checks the place, keeps the source under its actor's name and asks for a crawl."""
    coordinators, books = Coordinators(), Books()
    async with desk(how, services(coordinators, books)) as opened:
        added = await opened.add(config(), "ann")
    assert added.crawling
    assert added.source.config == config()
    assert books.actors == ["ann"]
    assert coordinators.signals == [("docs", ChangeSignal(crawl=True))]


@both_ways
@pytest.mark.parametrize(
    ("container", "error"),
    [
        ("refused", AccessRefused),
        ("silent", SourceUnavailable),
        ("nowhere", ConfigurationError),
    ],
)
async def test_an_unreadable_place_is_not_stored(
    how: str, container: str, error: type[SluiceError]
) -> None:
    """The error of the check reaches the caller as it was, and nothing is kept."""
    books = Books()
    async with desk(how, services(Coordinators(), books)) as opened:
        with pytest.raises(error) as caught:
            await opened.add(config(container), "ann")
    assert type(caught.value) is error
    assert books.records == {}


@both_ways
async def test_a_source_does_not_move(how: str) -> None:
    """New settings replace old ones; another place under the same name is refused."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        again = await opened.add(config().model_copy(update={"max_delay": 5.0}), "ann")
        assert again.source.revision == 2
        with pytest.raises(ConfigurationError, match="take another name"):
            await opened.add(config("elsewhere"), "ann")


@both_ways
async def test_a_source_that_has_nothing_yet_may_be_corrected(how: str) -> None:
    """Before its first promotion a wrong place is replaced, with or without a stack."""
    books = Books()
    books.live = 0
    async with desk(how, services(None, books)) as opened:
        await opened.add(config("typo"), "ann")
        await opened.add(config("here"), "ann")
    assert books.records["docs"].config.container == "here"


@both_ways
@pytest.mark.parametrize("flag", ["paused", "pinned"])
async def test_what_a_held_source_collects_is_counted(how: str, flag: str) -> None:
    """While no run may start the keys are with the coordinator."""
    books = Books()
    async with desk(how, services(Coordinators(), books)) as opened:
        await opened.add(config(), "ann")
        assert (await opened.show("docs")).pending == 2
        books.records["docs"] = books.records["docs"].model_copy(update={flag: True})
        assert (await opened.show("docs")).pending == 7


@both_ways
async def test_a_place_that_hangs_is_given_up(how: str) -> None:
    """Whoever adds it isn't kept for ever, and nothing is stored."""
    books = Books()
    given = replace(services(Coordinators(), books), check_bound=0.01)
    async with desk(how, given) as opened:
        with pytest.raises(SourceUnavailable, match=r"hangs didn't answer within 0.01 s"):
            await opened.add(config("hangs"), "ann")
    assert books.records == {}


async def test_without_a_stack_a_source_is_stored_and_waits() -> None:
    """Adding needs no Temporal; a command does, and says how to get it."""
    opened = LocalDesk(services())
    added = await opened.add(config(), "ann")
    assert not added.crawling
    with pytest.raises(NotReachable, match="start the stack with `sluice up`"):
        await opened.command("docs", Command(verb="pause"))


@both_ways
async def test_a_source_shows_what_readers_see(how: str) -> None:
    """Pointer, figures, pending keys and the last run are in one answer."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        view = await opened.show("docs")
        assert await opened.sources() == [view]
    assert (view.pointer.seq, view.documents, view.chunks, view.pending) == (1, 1, 3, 2)
    assert view.last_run == run_record("docs")


@both_ways
async def test_a_command_reaches_the_coordinator(how: str) -> None:
    """A command arrives with all its arguments, and its answer comes back."""
    coordinators = Coordinators()
    command = Command(verb="rollback", actor="ann", reason="bad", to_seq=3)
    async with desk(how, services(coordinators)) as opened:
        await opened.add(config(), "ann")
        assert await opened.command("docs", command) == coordinators.answer
    assert coordinators.commands == [("docs", command)]


@both_ways
async def test_a_refused_command_is_raised_as_its_class(how: str) -> None:
    """A refusal by the coordinator is an error of the tree at the caller's side."""
    refusal = CommandResult(ok=False, message="not retained", error="RollbackRefused")
    async with desk(how, services(Coordinators(refusal))) as opened:
        await opened.add(config(), "ann")
        with pytest.raises(RollbackRefused, match="not retained"):
            await opened.command("docs", Command(verb="rollback"))


@both_ways
async def test_what_is_unknown_is_said_by_class(how: str) -> None:
    """Unknown sources, runs and documents have an error each."""
    async with desk(how, services(Coordinators())) as opened:
        with pytest.raises(UnknownSource):
            await opened.show("docs")
        with pytest.raises(UnknownSource):
            await opened.search(SearchQuestion(text="x", sources=("docs",)))
        await opened.add(config(), "ann")
        with pytest.raises(UnknownRun):
            await opened.outcomes("docs", 9)
        with pytest.raises(UnknownDocument):
            await opened.document("docs", "z")


@both_ways
async def test_documents_are_paged_and_shown(how: str) -> None:
    """A page starts after a key; a document has its served version and its outcomes."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        page = await opened.documents("docs", after="a", limit=1)
        served, failed = await opened.document("docs", "a"), await opened.document("docs", "b")
        assert await opened.runs("docs") == [run_record("docs")]
        assert await opened.run("docs", 1) == run_record("docs")
        assert await opened.outcomes("docs", 1) == [outcome()]
    assert [line.doc_key for line in page] == ["b"]
    assert served.live is not None
    assert served.outcomes == ()
    assert failed.live is None
    assert failed.outcomes == (outcome(),)


@both_ways
async def test_a_document_leads_to_the_runs_that_made_it(how: str) -> None:
    """The run of what is served and the newest one; all of them page by page."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        shown = await opened.document("docs", "a")
        assert (shown.made, shown.latest) == (document_run("docs", 1), document_run("docs", 2))
        assert await opened.history("docs", "a", limit=1) == [document_run("docs", 2)]
        assert await opened.history("docs", "a", after=2) == [document_run("docs", 1)]
        assert await opened.history("docs", "b") == []
        gone = await opened.document("docs", "gone")
        assert (gone.live, gone.made) == (None, None)
        assert gone.latest is not None
        with pytest.raises(UnknownDocument):
            await opened.history("docs", "z")
        with pytest.raises(UnknownSource):
            await opened.history("none", "a")


@both_ways
async def test_a_source_tells_what_it_is_doing(how: str) -> None:
    """The open run and what waits for the next one."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        progress = await opened.progress("docs")
        with pytest.raises(UnknownSource):
            await opened.progress("none")
    assert (progress.run, progress.waiting) == (run_record("docs"), 3)


@both_ways
async def test_a_retry_names_the_person_s_wish(how: str) -> None:
    """The run that it leads to is told who named the key, as it is of a bucket's event."""
    coordinators = Coordinators()
    async with desk(how, services(coordinators)) as opened:
        await opened.add(config(), "ann")
        await opened.retry("docs", DocumentKeys(keys=("b",)))
    _, signal = coordinators.signals[-1]
    [key] = signal.keys
    assert [(event.origin, event.name) for event in key.events] == [("person", "retry")]


@both_ways
async def test_search_status_and_parked_messages(how: str) -> None:
    """The remaining questions pass through unchanged."""
    async with desk(how, services(Coordinators())) as opened:
        await opened.add(config(), "ann")
        answer = await opened.search(SearchQuestion(text="x", sources=("docs",), at=4))
        status = await opened.status()
        assert await opened.parked() == await parked()
    assert answer.pinned == {"docs": 4}
    assert (status.running, status.bridge, status.sources) == (True, {"taken": 7}, 1)


async def test_without_the_key_only_health_answers() -> None:
    """A stranger learns that something lives here, and nothing else."""
    async with client(services(), key="a guess") as opened:
        with pytest.raises(ConfigurationError, match="key"):
            await opened.sources()
    transport = httpx.ASGITransport(create_app(services()))
    async with httpx.AsyncClient(transport=transport, base_url="http://stack") as http:
        assert (await http.get("/healthz")).json()["status"] == "ok"
        refused = await http.get("/sources")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.headers["content-type"] == "application/problem+json"


async def test_an_api_without_a_key_is_not_made() -> None:
    """An empty key would let everybody in."""
    given = services()
    with pytest.raises(ConfigurationError, match="needs a key"):
        create_app(Services(catalog=given.catalog, search=given.search, kind=given.kind))


async def test_errors_are_problem_details() -> None:
    """Wrong bodies, wrong paths and unforeseen failures are problems with a sentence each."""

    class Broken(Echo):
        async def ask(self, question: SearchQuestion) -> SearchAnswer:
            raise ZeroDivisionError

    given = services(Coordinators())
    broken = Services(
        catalog=given.catalog,
        search=Broken(),
        kind=kind,
        key=KEY,  # type: ignore[arg-type]  # as above
    )
    await LocalDesk(broken).add(config(), "ann")
    transport = httpx.ASGITransport(create_app(broken), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://stack", headers=headers
    ) as http:
        wrong = await http.post("/sources", json={"source_id": "NO", "kind": "place"})
        lost = await http.get("/nothing")
        with capture_logs():
            failed = await http.post("/search", json={"text": "x", "sources": ["docs"]})
        deleted = await http.delete("/sources/docs")
    assert (wrong.status_code, wrong.json()["error"]) == (422, "ConfigurationError")
    assert wrong.json()["detail"].startswith("source_id is wrong")
    assert (lost.status_code, lost.json()["exit_status"]) == (404, 2)
    assert (failed.status_code, failed.json()["error"]) == (500, "SluiceError")
    assert (deleted.status_code, deleted.json()["error"]) == (503, "NotReachable")


async def test_nobody_answering_says_how_to_start() -> None:
    """A refused connection is one sentence with the way out."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    async with ApiClient("http://127.0.0.1:1", KEY, httpx.MockTransport(refuse)) as opened:
        with pytest.raises(NotReachable, match="start it with `sluice up`"):
            await opened.status()


async def test_a_foreign_server_is_no_mystery() -> None:
    """An answer that is no problem document is quoted."""
    transport = httpx.MockTransport(lambda _: httpx.Response(502, text="<h1>Bad gateway</h1>"))
    async with ApiClient("http://stack", KEY, transport) as opened:
        with pytest.raises(SluiceError, match="answered 502 and said '<h1>Bad gateway"):
            await opened.status()


def test_every_error_survives_the_wire() -> None:
    """Each class of the tree comes back as itself with its sentence."""

    def tree(root: type[SluiceError]) -> list[type[SluiceError]]:
        return [root, *(each for child in root.__subclasses__() for each in tree(child))]

    for each in tree(SluiceError):
        problem = Problem.of(each("why"))
        back = Problem.read(problem.model_dump_json().encode(), problem.status).exception()
        assert (type(back).__name__, str(back)) == (each.__name__, "why")
    assert error_class("NoSuchClass") is SluiceError


@pytest.mark.parametrize("key", ["a", "a/b c", "\ue000", "x\x00", "日本", "\U00010000"])
def test_just_before_sorts_below_its_key(key: str) -> None:
    """The text is below the key by UTF-8 bytes, and the key's own predecessors are below it."""
    before = _just_before(key)
    assert before.encode() < key.encode()
    assert key[:-1].encode() <= before.encode()
