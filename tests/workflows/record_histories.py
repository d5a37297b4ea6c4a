"""Records histories of every workflow into `tests/histories/`, for the replay test.

    python tests/workflows/record_histories.py RELEASE

Run it with the code of a release, never with a change that the replay is to judge.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from world import World, small_world

from activities.ports import Limits
from contracts.errors import EmbeddingUnavailable
from contracts.runs import RunState
from sluice.local import TemporalServer
from sluice.orchestrator import connect
from sluice.state import StateFolder
from workflows import stages

HISTORIES = Path(__file__).parents[1] / "histories"


async def save(world: World, release: str, name: str, workflow_id: str) -> None:
    history = await world.client.get_workflow_handle(workflow_id).fetch_history()
    (HISTORIES / f"{release}-{name}.json").write_text(history.to_json())


async def record(release: str) -> None:
    stages.FIRST_RETRY = 0.01
    documents = {f"{n}.md": f"# Report {n}\n\nIt tells of item{n}.\n".encode() for n in range(12)}
    with tempfile.TemporaryDirectory() as folder:
        state = StateFolder(Path(folder))
        state.prepare()
        async with TemporalServer(state) as server:
            client = await connect(server.address, "default")
            for whole in (False, True):
                kind = "one-process" if whole else "queues"
                limits = Limits(batch_documents=4)
                async with small_world(
                    client, state.scratch, dict(documents), limits=limits, whole=whole
                ) as world:
                    await tell(world, release, kind)


async def tell(world: World, release: str, kind: str) -> None:
    """A first crawl, a change, a failure that heals, a rollback, a resume, a removal."""
    source = f"source/{world.source_id}"
    await world.crawl()
    first = await world.ended(0, RunState.PROMOTED)
    await world.quiet()
    world.documents["0.md"] = b"# Report 0\n\nIt tells of a davit.\n"
    await world.changed("0.md")
    second = await world.ended(first.seq, RunState.PROMOTED)
    world.embedder.error = EmbeddingUnavailable("down")
    world.documents["1.md"] = b"# Report 1\n\nIt tells of a buoy.\n"
    await world.changed("1.md")
    third = await world.ended(second.seq, RunState.FAILED)
    world.embedder.error = None
    fourth = await world.ended(third.seq, RunState.PROMOTED)
    await world.quiet()
    await world.command("rollback")
    await world.command("resume")
    await world.ended(fourth.seq, RunState.PROMOTED)
    await world.quiet()
    await world.command("remove")
    await save(world, release, f"{kind}-coordinator", source)
    for run, name in ((first, "first"), (second, "change"), (third, "failure")):
        await save(world, release, f"{kind}-run-{name}", f"{source}/run/{run.seq}")
    await save(world, release, f"{kind}-batch", f"{source}/run/{first.seq}/batch/0")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
