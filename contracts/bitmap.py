"""Sets of small numbers as hex text: how a stage says which entries of a batch it means."""

from collections.abc import Iterable


def encode(numbers: Iterable[int]) -> str | None:
    """The numbers as a bitmap in hex, bit n for number n; None for no number."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return f"{bits:x}" if bits else None


def decode(bitmap: str) -> list[int]:
    """The numbers of a bitmap, ascending."""
    bits = int(bitmap, 16)
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def count(bitmap: str | None) -> int:
    """How many numbers a bitmap has."""
    return int(bitmap, 16).bit_count() if bitmap else 0
