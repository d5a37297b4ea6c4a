"""Token counts: those of the published encoding, and what would hurt the encoder."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents import tokens


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ],
)
def test_counts_are_those_of_the_published_encoding(text: str, count: int) -> None:
    """The pinned figures are of the encoding's own documentation (openai-cookbook)."""
    assert tokens.count(text) == count


def test_marks_of_models_are_plain_text() -> None:
    """A document can't smuggle in a special token."""
    assert tokens.count("<|endoftext|>") > 1


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=8))
def test_counting_together_is_counting_alone(texts: list[str]) -> None:
    """`count_each` answers what `count` does, in order."""
    assert tokens.count_each(texts) == [tokens.count(text) for text in texts]


@pytest.mark.parametrize(
    "text", [" " * 3_000_000, "a" + " " * 1_500_000 + "b"], ids=["blanks", "within"]
)
def test_a_million_blanks_do_not_end_the_process(text: str) -> None:
    """The encoder panics on them in one piece; counted in slices they are only many."""
    assert 0 < tokens.count(text) < len(text)


def test_slices_count_at_least_what_the_whole_has() -> None:
    """Beyond one slice the count is an upper bound, and a close one."""
    text = "some words of a sentence. " * 4_000
    whole = len(tokens._encoding().encode_ordinary(text))
    slices = len(text) // tokens.SLICE + 1
    assert whole <= tokens.count(text) <= whole + 4 * slices


def test_a_damaged_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ranks would make other cuts without a word."""
    monkeypatch.setattr(tokens, "SHA256", "0" * 64)
    with pytest.raises(RuntimeError, match="install Sluice again"):
        tokens._encoding.__wrapped__()
