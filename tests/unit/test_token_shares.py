"""Tokens that a request was charged for, by text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from contracts.documents import Bought

NO_VECTORS = np.zeros((0, 1), dtype=np.float32)


@given(sizes=st.lists(st.integers(0, 10_000), min_size=1), charged=st.integers(1, 10**6))
def test_shares_are_the_whole_in_proportion(sizes: list[int], charged: int) -> None:
    """None is lost or made up, and each text's is within one of its proportion."""
    counted = {str(place): size for place, size in enumerate(sizes)}
    shares = Bought(NO_VECTORS, charged).shared(counted)
    whole = sum(counted.values())
    assert shares.keys() == counted.keys()
    if whole:
        assert sum(shares.values()) == charged
        assert all(abs(shares[n] - charged * counted[n] / whole) <= 1 for n in counted)


def test_who_is_told_nothing_counts() -> None:
    """Our count stands where the endpoint doesn't say."""
    assert Bought(NO_VECTORS).shared({"a": 3, "b": 0}) == {"a": 3, "b": 0}
