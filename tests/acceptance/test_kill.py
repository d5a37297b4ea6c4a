"""kill -9 of the whole stack in each phase: started again, it comes to the same result."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from program import Up, until, up

from console.client import ApiClient
from contracts.search import SearchQuestion
from contracts.sources import SourceConfig

SOURCE = "docs"

# The line of the log that says a phase has begun.
PHASES = {
    "signal": ("event", None),
    "plan": ("activity started", "plan_run"),
    "parse": ("activity started", "parse_batch"),
    "embed": ("activity started", "embed_batch"),
    "index": ("activity started", "index_batch"),
    "gate": ("activity started", "check_run"),
    "flip": ("activity started", "promote_run"),
}


def write_first(root: Path) -> None:
    for n in range(8):
        (root / f"{n}.md").write_text(
            f"# Report {n}\n\nReport {n} tells of anchor{n}.\n\n## More\n\nAlso of buoy{n}.\n"
        )


def write_second(root: Path) -> None:
    """Two changes, one addition, one deletion."""
    more = "## More\n\nAlso of buoy0.\n"
    (root / "0.md").write_text(f"# Report 0\n\nReport 0 tells of davit0.\n\n{more}")
    (root / "1.md").write_text("# Report 1\n\nReport 1 tells of davit1.\n")
    (root / "8.md").write_text("# Report 8\n\nReport 8 tells of anchor8.\n")
    (root / "7.md").unlink()


async def contents(client: ApiClient) -> dict[str, list[str]]:
    """What is served: the bodies of every chunk, by document."""
    question = SearchQuestion(text="report tells also of more", sources=(SOURCE,), limit=100)
    answer = await client.search(question)
    found: dict[str, list[str]] = {}
    for hit in answer.hits:
        found.setdefault(hit.chunk.doc_key, []).append(hit.text)
    served = {d.doc_key for d in await client.documents(SOURCE) if d.live_version is not None}
    assert served == set(found)
    return {key: sorted(texts) for key, texts in found.items()}


def expected(root: Path) -> dict[str, list[str]]:
    """The chunks of each file: these reports are cut at headings."""
    result = {}
    for path in root.iterdir():
        parts = path.read_text().strip().split("\n\n## ")
        result[path.name] = sorted([parts[0], *(f"## {part}" for part in parts[1:])])
    return result


async def settled(client: ApiClient, after: int) -> bool:
    view = await client.show(SOURCE)
    idle = view.pointer.open_seq is None and view.pending == 0
    return idle and view.pointer.seq > after


async def add_source(client: ApiClient, root: Path) -> int:
    config = SourceConfig(
        source_id=SOURCE, kind="folder", container=str(root), quiet_period=0.5, max_delay=5
    )
    await client.add(config, "test")
    await until(lambda: settled(client, 0))
    return (await client.show(SOURCE)).pointer.seq


def kill_at(stack: Up, phase: str, killed: asyncio.Event) -> None:
    event, activity = PHASES[phase]

    def watch(record: dict[str, Any]) -> None:
        begun = record.get("event") == event and record.get("activity") == activity
        if begun and not killed.is_set():
            killed.set()
            stack.kill()

    stack.watchers.append(watch)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_killed_stack_goes_on_where_it_was(
    tmp_path: Path, phase: str, record_property: Any
) -> None:
    """After kill -9 in a phase and a new start, exactly the files' contents are served."""
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    write_first(root)
    killed = asyncio.Event()
    async with up(state) as stack, stack.client() as client:
        before = await add_source(client, root)
        assert await contents(client) == expected(root)
        kill_at(stack, phase, killed)
        write_second(root)
        await asyncio.wait_for(killed.wait(), 60)
        await stack.process.wait()
    begun = [line["activity"] for line in stack.lines if line.get("event") == "activity started"]
    record_property("phase", phase)
    record_property("last activity begun", begun[-1])
    if PHASES[phase][1] is not None:
        assert begun[-1] == PHASES[phase][1]
    async with up(state) as stack, stack.client() as client:
        await until(lambda: settled(client, before))
        assert await contents(client) == expected(root)
        for word in ("anchor0", "anchor1", "anchor7", "buoy7", "buoy1"):
            answer = await client.search(SearchQuestion(text=word, sources=(SOURCE,), limit=30))
            assert not any(word in hit.text for hit in answer.hits)
