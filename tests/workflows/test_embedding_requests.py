"""What is paid for: kept request by request, and not asked for again."""

from pathlib import Path

from temporalio.client import Client

from contracts.errors import EmbeddingRefused, EmbeddingUnavailable
from contracts.runs import RunState
from tests.workflows.world import small_world
from workflows.stages import STAGE_ATTEMPTS


def documents(count: int) -> dict[str, bytes]:
    return {f"{n}.txt": f"The text number{n} tells of thing{n}.\n".encode() for n in range(count)}


async def test_what_was_bought_before_a_failure_is_not_bought_again(
    client: Client, tmp_path: Path
) -> None:
    """Six of ten vectors are bought, then nobody answers any more, and nobody is asked again in
    that attempt; when the endpoint is back four are bought."""
    async with small_world(client, tmp_path, documents(10)) as world:
        world.embedder.at_once = 2
        world.embedder.error = EmbeddingUnavailable("the endpoint asks us to wait", 0.05)
        world.embedder.error_from = 6
        await world.crawl()
        first = await world.ended(0, RunState.PROMOTED, RunState.FAILED, RunState.REJECTED)
        assert world.embedder.bought == 6
        assert world.embedder.asked == 3 + STAGE_ATTEMPTS
        assert (first.counts.embedded, first.counts.failed) == (6, 4)
        world.embedder.error = None
        await world.ended(first.seq, RunState.PROMOTED)
        assert world.embedder.bought == 10
        assert any("thing9" in text for text in await world.texts("thing9"))


async def test_a_refused_text_fails_alone(client: Client, tmp_path: Path) -> None:
    """A refusal of a request is narrowed down to the text that causes it."""
    async with small_world(client, tmp_path, documents(6)) as world:
        world.embedder.error = EmbeddingRefused("this one is too long")
        world.embedder.refused = "number3 "
        await world.crawl()
        run = await world.ended(0, RunState.PROMOTED)
        assert (run.counts.changed, run.counts.failed, run.counts.embedded) == (5, 1, 5)
        assert run.counts.embedded_tokens > 5


async def test_requests_go_side_by_side_within_their_bound(client: Client, tmp_path: Path) -> None:
    """As many as the limits allow, and every text once."""
    async with small_world(client, tmp_path, documents(9)) as world:
        world.embedder.at_once = 1
        await world.crawl()
        run = await world.ended(0, RunState.PROMOTED)
        assert (run.counts.embedded, world.embedder.asked) == (9, 9)


async def test_a_run_shows_the_tokens_that_it_was_charged_for(
    client: Client, tmp_path: Path
) -> None:
    """To the last one, however a request's are shared among its documents."""
    async with small_world(client, tmp_path, documents(10)) as world:
        world.embedder.at_once = 4
        world.embedder.charged = 101
        await world.crawl()
        run = await world.ended(0, RunState.PROMOTED)
        assert (run.counts.embedded, run.counts.embedded_tokens) == (10, 3 * 101)
