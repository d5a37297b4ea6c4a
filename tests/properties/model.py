"""What should be, in the plainest words: which sequence shows which texts of which document."""

from dataclasses import dataclass, field

Contents = dict[str, tuple[str, ...]]  # document key: texts of its chunks, in order


class InvariantBroken(AssertionError):
    """One of I1 to I5 doesn't hold.

    Args:
        name: which one.
        what: what was seen.
    """

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


@dataclass
class Model:
    """Sequences that were promoted and not withdrawn, and what each shows."""

    retain: int  # versions that are kept beside the live one
    shown: dict[int, Contents] = field(default_factory=lambda: {0: {}})
    oldest: int = 0
    live: int = 0

    def promote(self, seq: int, contents: Contents) -> None:
        """The sequence is live, and earlier ones may become too old."""
        self.shown[seq] = contents
        self.live = seq
        earlier = sorted((n for n in self.shown if 0 < n < seq), reverse=True)
        if len(earlier) >= self.retain:
            self.oldest = max(self.oldest, earlier[self.retain - 1])

    def roll_back(self, seq: int) -> None:
        """Those above are gone for good."""
        self.shown = {n: shown for n, shown in self.shown.items() if n <= seq}
        self.live = seq

    @property
    def retained(self) -> list[int]:
        """What can be asked: the live sequence and those that are kept."""
        return [n for n in sorted(self.shown) if n and self.oldest <= n <= self.live]

    @property
    def targets(self) -> list[int]:
        """What can be rolled back to."""
        return [n for n in self.retained if n < self.live]


def lines(contents: Contents) -> list[tuple[str, str]]:
    """Every chunk as document and text, sorted."""
    return sorted((key, text) for key, texts in contents.items() for text in texts)
