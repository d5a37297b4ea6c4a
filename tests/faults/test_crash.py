"""Kill -9 of the whole stack while it buys vectors."""

from argparse import Namespace

from benchmarks import crash


async def test_no_more_is_bought_twice_than_was_in_flight() -> None:
    """What was durable when the process died isn't bought again, and what was lost once only."""
    figures = await crash.run(Namespace(docs=200))
    assert int(figures["repeated_embeddings"]) <= int(figures["in_flight"])
    assert int(figures["bought"]) + int(figures["repeated_embeddings"]) <= 1.5 * int(
        figures["bought"]
    )
