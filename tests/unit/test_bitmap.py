"""Bitmaps of places in a batch."""

from hypothesis import given
from hypothesis import strategies as st

from contracts import bitmap


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_a_bitmap_says_what_it_was_made_of(numbers: set[int]) -> None:
    """Encoding and decoding gives the same numbers; no number gives None."""
    encoded = bitmap.encode(numbers)
    assert bitmap.count(encoded) == len(numbers)
    if encoded is None:
        assert not numbers
        return
    assert bitmap.decode(encoded) == sorted(numbers)
