"""`sluice demo`: the main job, told and checked step by step, on the documents shipped for it."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.client import ApiClient
from contracts.activities import Command
from contracts.errors import ConfigurationError
from contracts.runs import DocumentStatus, RunRecord, RunState
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig
from documents.parsers import recognition
from sluice.demo_cloud import BUCKET, Cloud, local_cloud
from sluice.demo_story import (
    CORPUS,
    Change,
    DemoFailed,
    Manifest,
    Question,
    Reading,
    check_absent,
    check_answer,
    check_outcomes,
    check_promoted,
    check_readings,
    documents,
)
from sluice.settings import Settings
from sluice.stack import running_stack
from sluice.telemetry import configure

SOURCE: Final = "handbook"
FOLDER: Final = Path(".demo")
MARK: Final = "made-by-sluice-demo"  # a folder without it is somebody's
RUN_BOUND: Final = 120.0  # seconds for one run
POLL: Final = 0.1  # seconds
READER_GRACE: Final = 2.0  # seconds; the stack's default would make the demo wait
HITS: Final = 5

Say = Callable[[str], None]


async def run_demo(say: Say, folder: Path = FOLDER, corpus: Path = CORPUS) -> None:
    """Tell the story.

    Args:
        say: prints a line.
        folder: made anew; holds the state of the demo's stack, and stays.
        corpus: documents and manifest.

    Raises:
        DemoFailed: something that is shown isn't so.
    """
    configure("error", human=False)
    _make_anew(folder)
    manifest = Manifest.load(corpus)
    started = time.monotonic()
    settings = Settings(state=folder / "state", reader_grace_seconds=READER_GRACE)
    say("Starting a local S3 and SQS endpoint, Temporal, and Sluice …")
    async with local_cloud(folder / "cloud.log") as cloud, running_stack(settings) as stack:
        address = stack.access.address or ""
        say(f"  S3 and SQS  {cloud.endpoint}")
        say(f"  Temporal    {stack.temporal.address}")
        say(f"  Sluice API  {address}")
        async with ApiClient(address, stack.access.key) as desk:
            recognizes = recognition.find(settings.recognition_languages).data is not None
            story = _Story(say, desk, cloud, manifest, corpus, recognizes)
            try:
                await story.tell()
            except TimeoutError as error:
                raise DemoFailed(
                    f"a step did not end within {RUN_BOUND:.0f} s: {folder}/state/temporal.log and "
                    "`sluice run list` say more"
                ) from error
    say(f"\nAll of it was so, in {time.monotonic() - started:.0f} s.")
    say("Try it with a folder of your own:")
    say("  .venv/bin/sluice up                 # in one terminal")
    say("  .venv/bin/sluice source add notes --kind folder --root DIR")
    say('  .venv/bin/sluice search "…" --source notes')
    say(f"Look at what the demo left: SLUICE_STATE={folder / 'state'} .venv/bin/sluice up, then")
    say(f"  SLUICE_STATE={folder / 'state'} .venv/bin/sluice run list {SOURCE}")


def _make_anew(folder: Path) -> None:
    if folder.exists() and not (folder / MARK).exists():
        raise ConfigurationError(f"{folder} is not the demo's: move it away")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


@dataclass
class _Story:
    """The steps, in their order."""

    say: Say
    desk: ApiClient
    cloud: Cloud
    manifest: Manifest
    corpus: Path
    recognizes: bool  # text in pictures

    async def tell(self) -> None:
        """One step after another; the first that isn't so ends it."""
        await self._add_source()
        await self._drop_documents()
        await self._ask_questions()
        await self._change_a_sentence()
        await self._roll_back()
        await self._delete_a_document()

    async def _add_source(self) -> None:
        self._title("A source: the bucket, and the queue that it notifies")
        config = SourceConfig(
            source_id=SOURCE,
            kind="s3",
            container=BUCKET,
            options={"endpoint_url": self.cloud.endpoint, "queue_url": self.cloud.queue_url},
        )
        await self.desk.add(config, "demo")
        self.say(f"  source {SOURCE!r} added: quiet period {config.quiet_period:g} s, gate auto")
        await self._ended_run(after=0)

    async def _drop_documents(self) -> None:
        files = documents(self.corpus)
        self._title(f"{len(files)} documents of ten kinds are dropped into the bucket")
        before = await self._newest()
        for key, path in files.items():
            await self.cloud.put(key, path.read_bytes())
        run = await self._ended_run(before, {RunState.PROMOTED})
        check_promoted(run)
        statuses = await self._settled_statuses(files)
        for status in statuses:
            chunks = "1 chunk" if status.chunks == 1 else f"{status.chunks} chunks"
            served = f"served, {chunks}" if status.live_version else "not served"
            problem = f"  {status.error}" if status.error else ""
            self.say(f"    {status.doc_key:<34} {served}{problem}")
        check_outcomes(self.manifest, list(files), statuses, ocr=self.recognizes)
        broken = sum(status.live_version is None for status in statuses)
        self.say(f"  {len(statuses) - broken} served, {broken} failed alone, each with its reason")

    async def _settled_statuses(self, files: dict[str, Path]) -> list[DocumentStatus]:
        async with asyncio.timeout(RUN_BOUND):
            while True:
                statuses = await self.desk.documents(SOURCE)
                if {status.doc_key for status in statuses} >= set(files):
                    return statuses
                await asyncio.sleep(POLL)

    async def _ask_questions(self) -> None:
        self._title("Three questions")
        for question in self.manifest.questions:
            hit = check_answer(question, await self._ask(question.question))
            place = f"page {hit.chunk.page_start}"
            if hit.chunk.page_start is None:
                place = f"characters {hit.chunk.char_start} to {hit.chunk.char_end}"
            self.say(f"  {question.question}")
            self.say(f"    … {_around(hit.text, question.phrase)} …")
            self.say(f"    {hit.chunk.uri}, {place}, score {hit.score:.2f}")

    async def _change_a_sentence(self) -> None:
        change = self.manifest.change
        self._title(f"One sentence of {change.document} changes")
        await self._expect(change, change.before)
        before = await self._live()
        text = documents(self.corpus)[change.document].read_text("utf-8")
        async with self._reader(change) as readings:
            newest = await self._newest()
            await self.cloud.put(
                change.document, text.replace(change.find, change.replace).encode()
            )
            run = await self._ended_run(newest, {RunState.PROMOTED})
            await self._until(lambda: bool(readings) and readings[-1].seq == run.seq)
        check_promoted(run, embedded=1)
        check_readings(change, readings, before, run.seq)
        self.say(
            f"  run {run.seq}: {run.counts.chunks_opened} chunk opened, "
            f"{run.counts.chunks_closed} closed, {run.counts.embedded} embedded"
        )
        self.say(
            f"  a reader asked {len(readings)} times meanwhile: {change.before!r} up to the "
            f"flip, {change.after!r} from it on, never both"
        )

    async def _roll_back(self) -> None:
        change = self.manifest.change
        self._title("Rollback, and forward again")
        result = await self.desk.command(SOURCE, Command(verb="rollback", actor="demo"))
        await self._expect(change, change.before)
        self.say(f"  {result.message}")
        self.say(f"  the answer is {change.before!r} again")
        newest = await self._newest()
        await self.desk.command(SOURCE, Command(verb="resume", actor="demo"))
        run = await self._ended_run(newest, {RunState.PROMOTED})
        check_promoted(run, embedded=0)
        await self._expect(change, change.after)
        self.say(f"  resumed: run {run.seq} brought {change.after!r} back and embedded nothing")

    async def _delete_a_document(self) -> None:
        deletion = self.manifest.deletion
        self._title(f"{deletion.document} is deleted")
        check_answer(deletion, await self._ask(deletion.question))
        newest = await self._newest()
        await self.cloud.delete(deletion.document)
        check_promoted(await self._ended_run(newest, {RunState.PROMOTED}))
        check_absent(deletion, await self._ask(deletion.question))
        self.say("  it was found before, and is gone from both indexes")

    # --- what the steps are made of ------------------------------------------------------------

    def _title(self, text: str) -> None:
        self.say(f"\n{text}")

    async def _ask(self, question: str) -> SearchAnswer:
        return await self.desk.search(SearchQuestion(text=question, sources=(SOURCE,), limit=HITS))

    async def _expect(self, change: Change, phrase: str) -> None:
        question = Question(question=change.question, document=change.document, phrase=phrase)
        check_answer(question, await self._ask(change.question))

    async def _live(self) -> int:
        return (await self.desk.show(SOURCE)).pointer.seq

    async def _newest(self) -> int:
        runs = await self.desk.runs(SOURCE, limit=1)
        return runs[0].seq if runs else 0

    async def _ended_run(
        self, after: int, states: frozenset[RunState] | set[RunState] = frozenset(RunState)
    ) -> RunRecord:
        """The first later run that ended in one of the states; one that failed ends the demo."""
        shown = ""
        async with asyncio.timeout(RUN_BOUND):
            while True:
                for run in reversed(await self.desk.runs(SOURCE, limit=20)):
                    if run.seq <= after:
                        continue
                    if run.state in {RunState.FAILED, RunState.REJECTED, RunState.CANCELLED}:
                        raise DemoFailed(f"run {run.seq} ended as {run.state}: {run.reason}")
                    if run.state.final and run.state in states:
                        return run
                    line = f"  run {run.seq}: {run.state.value}"
                    if line != shown and not run.state.final:
                        self.say(line)
                        shown = line
                await asyncio.sleep(POLL)

    @asynccontextmanager
    async def _reader(self, change: Change) -> AsyncIterator[list[Reading]]:
        """Asks again and again while the body runs."""
        readings: list[Reading] = []

        async def read() -> None:
            while True:
                answer = await self._ask(change.question)
                texts = tuple(
                    hit.text for hit in answer.hits if hit.chunk.doc_key == change.document
                )
                readings.append(Reading(answer.pinned[SOURCE], texts))

        task = asyncio.create_task(read())
        try:
            await self._until(lambda: bool(readings))
            yield readings
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(RUN_BOUND):
            while not condition():
                await asyncio.sleep(POLL)


def _around(text: str, phrase: str) -> str:
    """The phrase with some words on both sides, on one line."""
    flat = " ".join(text.split())
    place = max(flat.find(phrase), 0)
    return flat[max(place - 60, 0) : place + len(phrase) + 40].strip()
