"""The command line: what it prints, how it ends, and what it says when it can't."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console.client import ApiClient
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
from contracts.documents import Located, PackAddress
from contracts.errors import (
    ConfigurationError,
    NotReachable,
    RollbackRefused,
    SluiceError,
    StoreUnavailable,
    UnknownSource,
)
from contracts.events import EventTrace
from contracts.provenance import DocumentRun, Result, SourceProgress, StageCount, StageTrace
from contracts.runs import (
    DocumentOutcome,
    DocumentStatus,
    EarlierAttempt,
    OutcomeStatus,
    Place,
    RunRecord,
    RunState,
    Stage,
)
from contracts.search import SearchAnswer, SearchHit, SearchQuestion
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer
from sluice.cli import desk as desk_module
from sluice.cli.main import run_command
from sluice.settings import Settings
from sluice.state import StateFolder

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SLUICE = Path(sys.executable).with_name("sluice")


class ScriptedDesk:
    """A desk with one source of two documents, that remembers what it was asked."""

    def __init__(self) -> None:
        self.added: list[SourceConfig] = []
        self.commands: list[Command] = []
        self.questions: list[SearchQuestion] = []
        self.verdicts: list[tuple[int | None, Judgement]] = []
        self.wanted: list[tuple[str, DocumentKeys]] = []
        self.states = [RunState.PROMOTED]
        self.looks_before_a_run = 0
        self.pages: list[tuple[int | None, int]] = []

    async def sources(self) -> list[SourceView]:
        return [view()]

    async def add(self, config: SourceConfig, actor: str) -> AddedSource:
        self.added.append(config)
        return AddedSource(source=view(), crawling=False)

    async def show(self, source_id: str) -> SourceView:
        if source_id != "docs":
            raise UnknownSource(f"no source is named {source_id}: `sluice source list`")
        return view()

    async def command(self, source_id: str, command: Command) -> CommandResult:
        self.commands.append(command)
        if command.verb == "pause":
            raise NotReachable("start the stack with `sluice up`")
        if command.to_seq == 99:
            raise RollbackRefused("99 is not retained")
        return CommandResult(ok=True, message="done", seq=3)

    async def runs(self, source_id: str, limit: int = 50) -> list[RunRecord]:
        if self.looks_before_a_run:
            self.looks_before_a_run -= 1
            return []
        return [await self.run(source_id, 4)]

    async def run(self, source_id: str, seq: int) -> RunRecord:
        return RunRecord(
            source_id=source_id,
            seq=seq,
            run_id=f"docs.{seq}",
            generation=1,
            base_seq=seq - 1,
            state=self.states.pop(0) if len(self.states) > 1 else self.states[0],
            cause="crawl",
            started_at=NOON,
        )

    async def decide(self, source_id: str, seq: int | None, verdict: Judgement) -> CommandResult:
        self.verdicts.append((seq, verdict))
        return CommandResult(ok=True, message="run 4 is live", seq=4)

    async def retry(self, source_id: str, request: DocumentKeys) -> int:
        self.wanted.append(("retry", request))
        return len(request.keys)

    async def acknowledge(self, source_id: str, request: DocumentKeys) -> int:
        self.wanted.append(("acknowledge", request))
        return len(request.keys)

    async def outcomes(self, source_id: str, seq: int) -> list[DocumentOutcome]:
        return [
            DocumentOutcome(
                doc_key="b\n.pdf",
                stage=Stage.PARSE,
                status=OutcomeStatus.FAILED,
                error="CorruptDocument",
                message="it is damaged",
            )
        ]

    async def documents(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        return [
            DocumentStatus(
                doc_key="a.md", live_from_seq=1, chunks=2, place=Place.GATE, since=NOON, why="waits"
            ),
            DocumentStatus(doc_key="b.pdf", error="CorruptDocument", message="it is damaged"),
        ]

    async def document(self, source_id: str, doc_key: str) -> DocumentView:
        outcomes = await self.outcomes(source_id, 4)
        return DocumentView(
            source_id=source_id,
            doc_key=doc_key,
            outcomes=tuple(outcomes),
            latest=document_run(4),
            made=document_run(3),
        )

    async def history(
        self, source_id: str, doc_key: str, limit: int = 20, after: int | None = None
    ) -> list[DocumentRun]:
        self.pages.append((after, limit))
        return [document_run(seq) for seq in (4, 3)][:limit]

    async def progress(self, source_id: str) -> SourceProgress:
        stages = (StageCount(stage=Stage.PARSE, done=2, failed=1, retryable=1),)
        return SourceProgress(
            source_id=source_id,
            run=await self.run(source_id, 5),
            stages=stages,
            waiting=3,
            waiting_since=NOON,
        )

    async def search(self, question: SearchQuestion) -> SearchAnswer:
        self.questions.append(question)
        located = Located(
            chunk_id="c",
            source_id="docs",
            doc_key="a.md",
            run_id="docs.1",
            from_seq=1,
            version_seq=4,
            text_hash="h",
            prefix_length=0,
            address=PackAddress(pack="p", offset=0, length=1),
            page_start=2,
            page_end=3,
        )
        return SearchAnswer(
            hits=(SearchHit(score=0.5, text="the sluice opens", chunk=located),), pinned={"docs": 4}
        )

    async def parked(self) -> list[ParkedMessage]:
        return [
            ParkedMessage(id="1", reason="no decoder", original="{"),
            ParkedMessage(id="2", reason="no key", original="{}"),
        ]

    async def status(self) -> StackStatus:
        return StackStatus(running=True)


def document_run(seq: int) -> DocumentRun:
    """An ingestion that needed two attempts at its vectors."""
    first = EarlierAttempt(attempt=1, error="EmbeddingUnavailable", message="busy", started_at=NOON)
    return DocumentRun(
        source_id="docs",
        doc_key="b.pdf",
        seq=seq,
        run_id=f"docs.{seq}",
        cause="change",
        state=RunState.PROMOTED,
        started_at=NOON,
        result=Result.INGESTED,
        served=seq == 4,
        events=(
            EventTrace(
                origin="s3",
                name="ObjectCreated:Put",
                occurred_at=NOON,
                taken_at=NOON,
                message_id="m-1",
            ),
        ),
        parser="text/3",
        parsed_before=True,
        chunker="chunking/2",
        embedder="space/1",
        content_hash="0123456789abcdef0123",
        size=7,
        chunks=3,
        chunks_added=1,
        chunks_kept=2,
        chunks_removed=4,
        vectors_bought=1,
        vectors_reused=0,
        stages=(
            StageTrace(
                stage=Stage.EMBED,
                status=OutcomeStatus.DONE,
                attempts=2,
                started_at=NOON,
                ended_at=NOON,
                earlier=(first,),
            ),
        ),
    )


def view() -> SourceView:
    return SourceView(
        config=SourceConfig(source_id="docs", kind="folder", container="/data", prefix="in/"),
        revision=1,
        created_at=NOON,
        pointer=LivePointer(source_id="docs", seq=4),
        documents=1,
        chunks=2,
    )


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ScriptedDesk:
    scripted = ScriptedDesk()

    @asynccontextmanager
    async def open_desk(_settings: object) -> AsyncIterator[ScriptedDesk]:
        yield scripted

    monkeypatch.setattr(desk_module, "open_desk", open_desk)
    monkeypatch.chdir(tmp_path)
    return scripted


def program(
    *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed program in a folder."""
    environment = {name: value for name, value in os.environ.items() if "SLUICE" not in name}
    return subprocess.run(
        [SLUICE, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**environment, **variables},
    )


READS: Sequence[tuple[str, ...]] = (
    ("source", "list"),
    ("source", "show", "docs"),
    ("run", "list", "docs"),
    ("run", "show", "docs"),
    ("run", "show", "docs", "4"),
    ("document", "list", "docs"),
    ("document", "show", "docs", "b.pdf"),
    ("document", "history", "docs", "b.pdf"),
    ("source", "list", "--tenant", "default"),
    ("search", "sluice", "--source", "docs"),
    ("event", "parked"),
    ("rollback", "docs", "--to", "3"),
    ("source", "crawl", "docs"),
    ("source", "resume", "docs"),
    ("source", "remove", "docs"),
)


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_every_answer_has_a_form_for_people_and_one_for_programs(
    arguments: tuple[str, ...], desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command ends with 0 and prints text, or with --json one document or one line a record."""
    assert run_command(arguments) == 0
    text = capsys.readouterr()
    assert text.out.strip()
    assert text.err == ""
    assert run_command([*arguments, "--json"]) == 0
    printed = capsys.readouterr().out
    try:
        json.loads(printed)
    except json.JSONDecodeError:
        assert all(json.loads(line) for line in printed.splitlines())


def test_a_source_is_added_as_it_was_described(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option of `source add` arrives in the configuration."""
    status = run_command(
        (
            *("source", "add", "docs", "--kind", "s3", "--bucket", "b", "--prefix", "in/"),
            *("--endpoint-url", "http://127.0.0.1:9000", "--region", "eu-central-1"),
            *("--queue-url", "http://127.0.0.1:9000/q", "--gate", "manual", "--quiet-period", "1"),
            *("--max-delay", "5", "--include", "*.md", "--exclude", "*.tmp", "--exclude", "x"),
            *("--tenant", "acme"),
        )
    )
    assert status == 0
    assert "it is crawled when `sluice up` runs" in capsys.readouterr().out
    config = desk.added[0]
    assert (config.kind, config.container, config.prefix) == ("s3", "b", "in/")
    assert config.options == {
        "endpoint_url": "http://127.0.0.1:9000",
        "region": "eu-central-1",
        "queue_url": "http://127.0.0.1:9000/q",
    }
    assert (config.gate.value, config.quiet_period, config.max_delay) == ("manual", 1.0, 5.0)
    assert (config.include, config.exclude, config.tenant) == (("*.md",), ("*.tmp", "x"), "acme")


def test_a_known_source_changes_in_what_is_given(desk: ScriptedDesk) -> None:
    """Everything else stays as it was, options of its kind too."""
    assert run_command(("source", "add", "docs", "--max-delay", "9", "--no-watch")) == 0
    before = view().config
    options = {**before.options, "watch": "no"}
    assert desk.added == [before.model_copy(update={"max_delay": 9.0, "options": options})]


@pytest.mark.parametrize(("verb", "approve"), [("approve", True), ("reject", False)])
def test_a_verdict_arrives_whole(desk: ScriptedDesk, verb: str, approve: bool) -> None:
    """Run, digest, reason and who decided reach the desk."""
    assert run_command(("run", verb, "docs", "4", "--digest", "d", "--reason", "seen")) == 0
    assert run_command(("run", verb, "docs")) == 0
    [(seq, named), (newest, plain)] = desk.verdicts
    assert (seq, newest) == (4, None)
    assert (named.approve, named.manifest_digest, named.reason) == (approve, "d", "seen")
    assert (plain.approve, plain.manifest_digest) == (approve, None)
    assert named.actor


@pytest.mark.parametrize("verb", ["retry", "acknowledge"])
def test_documents_are_named_by_key(desk: ScriptedDesk, verb: str) -> None:
    """Several at once, with a reason."""
    assert run_command(("document", verb, "docs", "a.md", "b.md", "--reason", "why")) == 0
    [(asked, request)] = desk.wanted
    assert (asked, request.keys, request.reason) == (verb, ("a.md", "b.md"), "why")


@pytest.mark.parametrize(
    ("end", "status"), [(RunState.PROMOTED, 0), (RunState.NO_CHANGE, 0), (RunState.REJECTED, 1)]
)
def test_a_run_is_watched_to_its_end(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str], end: RunState, status: int
) -> None:
    """Each state is told once, and the exit status says whether readers have it."""
    desk.states = [RunState.WORKING, RunState.WORKING, RunState.WAITING, end]
    assert run_command(("run", "watch", "docs")) == status
    told = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["run 4 working", "run 4 waiting", f"run 4 {end.value}"]


def test_a_source_s_first_run_is_waited_for(desk: ScriptedDesk) -> None:
    """Whoever has just added a source sees its crawl, not an error."""
    desk.looks_before_a_run = 2
    assert run_command(("run", "watch", "docs")) == 0


@pytest.mark.parametrize("full", [StoreUnavailable("the disk is full"), ConfigurationError("no")])
async def test_a_running_stack_is_asked_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: SluiceError
) -> None:
    """A full disk keeps nobody from looking; without a stack its sentence is said."""
    settings = Settings(state=tmp_path / "state")
    state = StateFolder(settings.state)
    state.prepare()

    def refuse(self: StateFolder) -> None:
        raise full

    with state.announced("http://127.0.0.1:9"):
        monkeypatch.setattr(StateFolder, "prepare", refuse)
        async with desk_module.open_desk(settings) as asked:
            assert isinstance(asked, ApiClient)
    with pytest.raises(type(full)):
        async with desk_module.open_desk(settings):
            pytest.fail("nobody is there")


def test_a_relative_root_is_made_absolute(desk: ScriptedDesk, tmp_path: Path) -> None:
    """A folder source means the same from wherever it is asked about."""
    assert run_command(("source", "add", "docs", "--root", "in")) == 0
    assert desk.added[0].container == str(tmp_path / "in")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("source", "show", "nope"), 2, "no source is named nope"),
        (("source", "pause", "docs"), 3, "start the stack"),
        (("rollback", "docs", "--to", "99"), 1, "99 is not retained"),
        (("source", "add", "Bad Name", "--root", "x"), 2, "no name for a source"),
        (("source", "add", "notes"), 2, "give --root"),
        (("source", "add", "notes", "--kind", "s3"), 2, "give --bucket"),
        (("source", "add", "docs", "--root", "x", "--gate", "maybe"), 2, "maybe"),
        (("source", "frobnicate"), 2, "frobnicate"),
        (("frobnicate",), 2, "frobnicate"),
        ((), 2, "--help"),
        (("search", "q"), 2, "--source"),
        (("search", "q", "-s", "a", "-s", "b", "--at", "1"), 2, "exactly one"),
        (("run", "show", "docs", "0"), 2, "greater than or equal to 1"),
        (("run", "approve", "docs", "--reason", "x" * 1_001), 2, "reason is wrong"),
        (("document", "retry", "docs", *("k" * 1_001)), 2, "keys is wrong"),
    ],
)
def test_errors_are_one_sentence_and_a_status(
    arguments: tuple[str, ...],
    status: int,
    sentence: str,
    desk: ScriptedDesk,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """1 is failed work, 2 wrong use, 3 not reachable; stderr has one line, stdout nothing."""
    assert run_command(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
    assert run_command([*arguments, "--json"]) == status
    error = json.loads(capsys.readouterr().err)
    assert set(error) == {"error", "message"}
    assert sentence in error["message"]


def test_an_unforeseen_error_has_no_traceback_unless_asked(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours is one sentence too; SLUICE_DEBUG=1 shows the rest."""

    async def broken() -> list[SourceView]:
        raise ZeroDivisionError("so it goes")

    monkeypatch.setattr(desk, "sources", broken)
    assert run_command(("source", "list")) == 1
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("SLUICE_DEBUG", "1")
    assert run_command(("source", "list")) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupting_ends_with_130(desk: ScriptedDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is no error and no traceback."""

    async def interrupted() -> list[SourceView]:
        raise KeyboardInterrupt

    monkeypatch.setattr(desk, "sources", interrupted)
    assert run_command(("source", "list")) == 130


def test_failed_documents_are_listed_alone(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """--failed leaves out what is well."""
    assert run_command(("document", "list", "docs", "--failed", "--json")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["doc_key"] for line in lines] == ["b.pdf"]


def test_parked_messages_are_chosen_by_reason(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """--reason leaves out the others."""
    assert run_command(("event", "parked", "--reason", "no key", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "2"


def test_a_strange_key_breaks_no_table(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line feed in a key is shown, not obeyed."""
    assert run_command(("run", "show", "docs")) == 0
    assert "b\\n.pdf" in capsys.readouterr().out


def test_search_says_where_and_at_which_sequence(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hit has document and pages; the answer has the sequence that it was read at."""
    assert run_command(("search", "q", "-s", "docs", "--at", "4", "-k", "7")) == 0
    text = capsys.readouterr().out
    assert "docs: a.md, pages 2 to 3" in text
    assert "read: docs at 4" in text
    assert (desk.questions[0].at, desk.questions[0].limit) == (4, 7)


def test_a_hit_leads_to_what_made_it(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run of the chunk, that of the document version, and the command that tells more."""
    assert run_command(("search", "q", "-s", "docs")) == 0
    text = capsys.readouterr().out
    assert "chunk c of run 1, kept by run 4: `sluice document history docs a.md`" in text
    assert run_command(("search", "q", "-s", "docs", "--json")) == 0
    [hit] = json.loads(capsys.readouterr().out)["hits"]
    ids = {"source_id", "doc_key", "chunk_id", "run_id", "from_seq", "version_seq"}
    assert ids | {"source_version"} <= hit["chunk"].keys()


def test_a_history_tells_what_made_a_document(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Event, components, chunks, vectors and each attempt; where the next page begins."""
    wanted = ("document", "history", "docs", "b.pdf", "--before", "9", "--limit", "2")
    assert run_command(wanted) == 0
    text = capsys.readouterr().out
    assert desk.pages == [(9, 2)]
    for told in (
        "run 4: ingested, served now",
        "run 3: ingested, promoted",
        "s3 ObjectCreated:Put at ",
        "message m-1",
        "text/3 (had parsed this content before)",
        "0123456789abcdef, 7 bytes",
        "3: 1 added, 2 kept, 4 removed",
        "1 bought, 0 known already",
        "EmbeddingUnavailable: busy",
        "earlier ones: `--before 3`",
    ):
        assert told in text


def test_documents_and_sources_say_where_they_are(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document its place, a source its open run by stage and what waits."""
    assert run_command(("document", "list", "docs")) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("a.md")]
    assert line.split()[1] == "gate"
    assert "waits" in line
    assert run_command(("source", "show", "docs")) == 0
    text = capsys.readouterr().out
    assert "2 done, 0 unchanged, 1 failed (1 may be tried again)" in text
    assert "keys waiting" in text
    assert run_command(("run", "show", "docs")) == 0
    stage, outcomes = capsys.readouterr().out.split("\n\n")[1:]
    assert stage.splitlines()[1].split()[:5] == ["parse", "1", "0", "0", "1"]
    assert "CorruptDocument" in outcomes


def test_sources_are_chosen_by_tenant(
    desk: ScriptedDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    """--tenant leaves out those of others."""
    assert run_command(("source", "list", "--tenant", "default", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["config"]["tenant"] == "default"
    assert run_command(("source", "list", "--tenant", "other")) == 0
    assert capsys.readouterr().out == "no source belongs to other\n"


def test_help_is_quick(tmp_path: Path) -> None:
    """Asking for help loads no engine, no client and no model."""
    names = "temporalio", "pydantic", "sqlalchemy", "numpy", "fastapi", "wordllama", "httpx"
    code = (
        "import sys; from sluice.cli.main import run_command; status = run_command(['--help']);"
        f"loaded = ', '.join(name for name in {names!r} if name in sys.modules);"
        "sys.exit(status or loaded or 0)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert answer.stderr == b""
    assert answer.returncode == 0
    assert b"source" in answer.stdout


def test_wrong_settings_end_with_2(tmp_path: Path) -> None:
    """A wrong setting is one sentence on stderr."""
    answer = program("source", "list", folder=tmp_path, SLUICE_WINDOW="many")
    assert answer.returncode == 2
    assert answer.stdout == b""
    assert b"SLUICE_WINDOW" in answer.stderr
    assert answer.stderr.count(b"\n") == 1


def test_a_reader_that_leaves_ends_the_command_quietly(tmp_path: Path) -> None:
    """`sluice … | head` is no error message: the status is that of SIGPIPE."""
    for number in range(300):
        (tmp_path / f"{number}.md").write_text("# One\n\n" + "many words " * 50)
    with subprocess.Popen(
        [SLUICE, "parse", ".", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_an_event_is_decoded_from_file_and_input(tmp_path: Path) -> None:
    """One JSON document for what is delivered, dropped or parked; 2 for what can't be read."""
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "b"}, "object": {"key": "a+b.md"}},
    }
    (tmp_path / "message").write_text(json.dumps({"Records": [record]}))
    from_file = program("event", "decode", "message", folder=tmp_path)
    delivered = json.loads(from_file.stdout)
    assert (from_file.returncode, delivered["action"]) == (0, "deliver")
    assert delivered["events"][0]["key"] == "a b.md"
    parked = program("event", "decode", folder=tmp_path, stdin=b"\xff no JSON")
    assert (parked.returncode, json.loads(parked.stdout)["action"]) == (0, "park")
    missing = program("event", "decode", "nothing", folder=tmp_path)
    assert (missing.returncode, missing.stdout) == (2, b"")


def test_parsing_reports_each_file_and_fails_with_one(tmp_path: Path) -> None:
    """A line of JSON a file; a file that fails makes the status 1 and keeps the others."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# Sluices\n\nA sluice is a water channel.\n")
    (tmp_path / "in" / "b.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    answer = program("parse", "in", "--json", folder=tmp_path)
    assert answer.returncode == 1
    good, bad = (json.loads(line) for line in answer.stdout.splitlines())
    assert (good["file"], good["outcome"], good["error"]) == ("in/a.md", "ok", None)
    assert "water channel" in good["chunks"][0]["body"]
    assert (bad["outcome"], bad["retryable"]) == ("failed", False)
    assert bad["error"] is not None
    assert program("parse", "in/a.md", folder=tmp_path).returncode == 0
    assert program("parse", "nothing", folder=tmp_path).returncode == 2


def test_the_doctor_names_each_component(tmp_path: Path) -> None:
    """Every component has a line, and what is missing has a remedy."""
    answer = program("doctor", "--json", folder=tmp_path)
    findings = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.returncode == any(each["required"] and not each["ok"] for each in findings)
    assert {each["component"] for each in findings} == {
        "python",
        "keyword index",
        "temporal",
        "vector index",
        "parser",
        "embedder",
        "token vocabulary",
        "text recognition",
        "state folder",
        "databases",
        "running stack",
    }
    assert all(each["ok"] or each["remedy"] for each in findings)


def test_the_document_of_the_api_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON, with or without --json, and without a stack."""
    monkeypatch.chdir(tmp_path)
    assert run_command(("openapi",)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["openapi"].startswith("3.1")
    assert "/sources" in document["paths"]
    assert list(tmp_path.iterdir()) == []


def test_without_a_stack_the_state_is_opened_directly(tmp_path: Path) -> None:
    """A source is added and shown without Temporal; what needs it ends with 3 and says so."""
    (tmp_path / "in").mkdir()
    added = program("source", "add", "notes", "--root", "in", folder=tmp_path)
    assert (added.returncode, added.stderr) == (0, b"")
    shown = program("source", "show", "notes", "--json", folder=tmp_path)
    assert json.loads(shown.stdout)["config"]["container"] == str(tmp_path / "in")
    crawl = program("source", "crawl", "notes", folder=tmp_path)
    assert crawl.returncode == 3
    assert b"start the stack with `sluice up`" in crawl.stderr
    assert program("source", "show", "other", folder=tmp_path).returncode == 2
