"""Cleaning: one form for equal text, and nothing in it that hurts."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.cleaning import clean, clean_line

odd = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(["\r\n", "\r", "\x00", "\ufeff", "\x1b[31m", "\x1b", "\x85", "\u2028"]),
        st.builds(
            lambda blank, n: blank * n, st.sampled_from([" ", "\t", "\n"]), st.integers(1, 90)
        ),
        st.characters(categories=["Cs", "Cc"]),
    ),
    max_size=30,
).map("".join)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(odd)
def test_clean_text_is_a_fixed_point(text: str) -> None:
    """Offsets are of the cleaned text, so cleaning it again must move nothing."""
    once = clean(text)
    assert clean(once) == once


@settings(derandomize=True, max_examples=300, deadline=None)
@given(odd)
def test_clean_text_has_nothing_that_hurts(text: str) -> None:
    """It is UTF-8, has no controls, no long blanks, no blanks before a line's end."""
    cleaned = clean(text)
    cleaned.encode()
    assert not set(cleaned) & {chr(code) for code in range(32) if chr(code) not in "\t\n"}
    assert " " * 65 not in cleaned
    assert "\n" * 4 not in cleaned
    assert all(line == line.rstrip(" \t") for line in cleaned.split("\n"))


@pytest.mark.parametrize("end", ["\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_line_ends_are_one_kind(end: str) -> None:
    """The same lines are the same text, whoever wrote them."""
    assert clean(f"one{end}two") == "one\ntwo"


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("\ufeffstart", "start"),
        ("a\x00b", "ab"),
        ("a\ud800b", "ab"),
        ("\x1b[1;32mgreen\x1b[0m", "green"),
        ("\x1b]0;title\x07text", "text"),
        ("a   \nb\t\n", "a\nb"),
        ("a\n\n\n\n\n\nb", "a\n\n\nb"),
        ("\n\n  indented", "  indented"),
        ("a\tb", "a\tb"),
        ("👩\u200d👩\u200d👧 é ﬁ", "👩\u200d👩\u200d👧 é ﬁ"),
    ],
)
def test_only_what_means_nothing_goes(dirty: str, cleaned: str) -> None:
    """Tabs, indentation, joiners and ligatures are the author's."""
    assert clean(dirty) == cleaned


@pytest.mark.parametrize(
    "part", [" ", "\t", "\n", "\r\n", "\x1b", "\x1b[", "\x1b]", "\x00", " \n", " a"]
)
def test_cleaning_takes_time_in_proportion(part: str) -> None:
    """No repetition makes it quadratic."""
    started = time.process_time()
    clean(part * (2_000_000 // len(part)))
    assert time.process_time() - started < 5


@settings(derandomize=True, max_examples=200, deadline=None)
@given(odd, st.integers(1, 40))
def test_a_clean_line_is_one_line_within_its_bound(text: str, longest: int) -> None:
    """Titles and names have no breaks, no blanks around them, and a length."""
    line = clean_line(text, longest)
    assert len(line) <= longest
    assert line == " ".join(line.split())
