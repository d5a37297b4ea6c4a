"""How long a stage waits before it tries again what failed."""

import pytest

from workflows.stages import retry_delay


@pytest.mark.parametrize(
    ("attempt", "asked", "seconds"),
    [(1, None, 2), (3, None, 8), (9, None, 60), (1, 0.5, 2), (1, 30.0, 30), (1, 600.0, 600)],
)
def test_a_server_gets_the_time_that_it_asks_for(
    attempt: int, asked: float | None, seconds: float
) -> None:
    """Our own waits double up to a bound; a longer one that was asked for holds as it is."""
    assert retry_delay(attempt, asked).total_seconds() == seconds
