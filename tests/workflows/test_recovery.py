"""Search stores that have lost chunks, and the packs that they are filled from."""

from pathlib import Path

import pytest
from temporalio.client import Client

from activities.recovery import behind, recover_stores
from contracts.runs import RunState
from tests.workflows.world import World, small_world


def documents() -> dict[str, bytes]:
    return {
        "a.md": b"# Alpha\n\nThe alpha paragraph tells of anchors.\n",
        "b.md": b"# Beta\n\nThe beta paragraph tells of bollards.\n",
        "c.txt": b"The gamma text tells of gangways.\n",
    }


async def changed_once(world: World) -> tuple[int, int]:
    """A first run, then one that changes one document and deletes another; their sequences."""
    await world.crawl()
    first = await world.ended(0, RunState.PROMOTED)
    world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
    del world.documents["c.txt"]
    await world.changed("b.md", "c.txt")
    second = await world.ended(first.seq, RunState.PROMOTED)
    await world.quiet()
    return first.seq, second.seq


async def lose(world: World, *leg: int) -> None:
    """Everything that any run has written is gone from the stores."""
    for number in leg:
        for seq in range(1, await world.newest() + 1):
            await world.stores[number].purge(world.view(seq))


@pytest.mark.parametrize("legs", [(0,), (1,), (0, 1)])
async def test_a_lost_store_is_filled_again(
    legs: tuple[int, ...], client: Client, tmp_path: Path
) -> None:
    """With what is live and what is retained, each chunk with its interval; and once only."""
    async with small_world(client, tmp_path, documents(), grace=60.0) as world:
        seqs = await changed_once(world)
        bought = world.embedder.bought
        await lose(world, *legs)
        assert len(await behind(world.ports, world.view(seqs[1]))) == len(legs)
        for _ in range(2):
            await recover_stores(world.ports)
            for seq in seqs:
                assert await behind(world.ports, world.view(seq)) == []
        assert world.embedder.bought == bought
        assert any("buoys" in text for text in await world.texts("buoys"))
        assert not any("gangways" in text for text in await world.texts("gangways"))


async def test_a_run_on_a_store_that_lost_chunks_repairs_it(client: Client, tmp_path: Path) -> None:
    """The gate sees that more is missing than this run wrote, and has it written again."""
    async with small_world(client, tmp_path, documents()) as world:
        _, live = await changed_once(world)
        await lose(world, 1)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        run = await world.ended(live)
        assert run.state is RunState.PROMOTED, run.reason
        assert await behind(world.ports, world.view(run.seq)) == []


async def test_a_chunk_whose_pack_is_lost_is_missed_not_hidden(
    client: Client, tmp_path: Path
) -> None:
    """The others are found, and the answer says that it isn't whole."""
    async with small_world(client, tmp_path, documents()) as world:
        _, live = await changed_once(world)
        packs = [
            info.key async for info in world.ports.objects.list(f"packs/{world.source_id}/{live}/")
        ]
        await world.ports.objects.delete(packs)
        await lose(world, 0)
        await recover_stores(world.ports)
        answer = await world.ask("anchors and buoys")
        assert answer.incomplete
        assert [hit.chunk.doc_key for hit in answer.hits] == ["a.md"]
