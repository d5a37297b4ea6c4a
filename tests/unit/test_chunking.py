"""The chunker: exact slices, bounds, structure, and stability under edits."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents import tokens
from documents.chunking import MOST, Page, chunks
from documents.cleaning import clean

SEED = 20_261_201
WORDS = [f"word{n}" for n in range(400)]


def sentence(randomness: random.Random) -> str:
    words = randomness.choices(WORDS, k=randomness.randint(4, 20))
    return " ".join(words).capitalize() + "."


def markdown(sections: int) -> str:
    randomness = random.Random(SEED)
    parts = ["# Title"]
    for number in range(sections):
        parts.append(f"## Section {number}")
        for _ in range(randomness.randint(1, 4)):
            parts.append(" ".join(sentence(randomness) for _ in range(randomness.randint(1, 8))))
    return clean("\n\n".join(parts))


def log(lines: int) -> str:
    randomness = random.Random(SEED)
    return "\n".join(f"12:00:{n % 60:02} INFO {sentence(randomness)}" for n in range(lines))


def table(rows: int) -> str:
    randomness = random.Random(SEED)
    head = "| id | name | value |\n| --- | --- | --- |\n"
    return head + "\n".join(
        f"| {n} | {randomness.choice(WORDS)} | {randomness.random()} |" for n in range(rows)
    )


def wall(words: int) -> str:
    randomness = random.Random(SEED)
    return " ".join(randomness.choices(WORDS, k=words))


line = st.one_of(
    st.text(max_size=60),
    st.just(""),
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###"]), st.text(max_size=20)),
    st.builds("| {} | {} |".format, st.text(max_size=8), st.text(max_size=8)),
    st.sampled_from(["```", "~~~", "---", "| --- | --- |"]),
    st.builds(lambda word, n: word * n, st.text(min_size=1, max_size=5), st.integers(1, 900)),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(line, max_size=30).map("\n".join).map(clean))
def test_chunks_are_exact_slices_in_order_within_the_bound(text: str) -> None:
    """Bodies are slices that don't overlap, cover all but blanks, and fit with their prefix."""
    end = 0
    for chunk in chunks(text):
        assert text[chunk.char_start : chunk.char_end] == chunk.body
        assert chunk.char_start >= end
        assert not text[end : chunk.char_start].strip()
        assert chunk.body.strip()
        assert tokens.count(chunk.embedded_text) == chunk.tokens <= MOST
        end = chunk.char_end
    assert not text[end:].strip()


@pytest.mark.parametrize(
    "text",
    [markdown(300), log(5_000), table(3_000), wall(40_000)],
    ids=["markdown", "log", "table", "wall"],
)
def test_an_edit_in_the_middle_leaves_the_other_chunks_alone(text: str) -> None:
    """At least 98 % of the embedded texts are the same after some words were put in."""
    place = text.index(" ", len(text) // 2)
    edited = text[:place] + " some words that are new" + text[place:]
    before = [chunk.embedded_text for chunk in chunks(text)]
    after = {chunk.embedded_text for chunk in chunks(edited)}
    kept = sum(embedded in after for embedded in before)
    assert kept / len(before) >= 0.98, f"{kept} of {len(before)}"


def test_cuts_come_before_headings() -> None:
    """Each section starts a chunk, and knows the headings above it."""
    found = chunks("# Book\n\nIntro.\n\n## One\n\nFirst.\n\n## Two\n\nSecond.")
    assert [chunk.body for chunk in found] == [
        "# Book\n\nIntro.",
        "## One\n\nFirst.",
        "## Two\n\nSecond.",
    ]
    assert found[2].prefix == "Book\n\n"
    assert found[2].heading_path == ("Book", "Two")


def test_a_heading_is_never_left_alone_at_the_end() -> None:
    """Headings that follow each other stay with the text below them."""
    found = chunks("# Book\n\n## One\n\n### Deep\n\nText.")
    assert [chunk.body for chunk in found] == ["# Book\n\n## One\n\n### Deep\n\nText."]


part = st.one_of(
    st.builds("{} Heading {}".format, st.sampled_from(["#", "##", "###"]), st.integers(0, 9)),
    st.builds(lambda n: " ".join(["Some words of a sentence."] * n), st.integers(1, 120)),
    st.builds(
        lambda n: "\n".join(["| a | b |", "|---|---|", *["| 1 | 2 |"] * n]), st.integers(1, 90)
    ),
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(part, min_size=1, max_size=25).map("\n\n".join))
def test_no_chunk_ends_with_a_heading_but_the_last(text: str) -> None:
    """A heading is in the chunk of what it stands above, and each other chunk knows its path."""
    found = chunks(text)
    for chunk in found[:-1]:
        assert not chunk.body.splitlines()[-1].startswith("#"), chunk.body
    for chunk in found:
        above = [line for line in text[: chunk.char_end].splitlines() if line.startswith("#")]
        assert bool(chunk.heading_path) is bool(above)
        if above:
            assert above[-1].lstrip("# ") == chunk.heading_path[-1]


def test_a_long_table_repeats_its_header_in_the_prefix() -> None:
    """A continuation has the header in its embedded text and not in its body."""
    found = chunks(table(200))
    assert len(found) > 1
    for chunk in found[1:]:
        assert chunk.prefix.startswith("| id | name | value |\n| --- |")
        assert not chunk.body.startswith("| id")


def test_a_code_block_is_not_cut_at_its_comments() -> None:
    """A line that looks like a heading inside a fence is code."""
    found = chunks("# T\n\n```sh\n# not a heading\nls\n```\n\nAfter.")
    assert len(found) == 1


def test_pages_are_found_by_offset() -> None:
    """A chunk names the pages that its first and last characters are on."""
    text = "First page.\n\nSecond page."
    [chunk] = chunks(text, [Page(1, 0), Page(2, 13)])
    assert (chunk.page_start, chunk.page_end) == (1, 2)


def test_every_chunk_is_on_the_pages_that_it_stands_on() -> None:
    """Over many pages, empty ones among them, none is off by one."""
    texts = ["" if n % 7 == 3 else f"# Page {n}\n\n" + "Words. " * 60 for n in range(40)]
    pages, offset = [], 0
    for number, text in enumerate(texts, 1):
        pages.append(Page(number, offset))
        offset += len(text) + 2
    whole = "\n\n".join(texts)
    for chunk in chunks(whole, pages):
        first = max(page.number for page in pages if page.start <= chunk.char_start)
        last = max(page.number for page in pages if page.start <= chunk.char_end - 1)
        assert (chunk.page_start, chunk.page_end) == (first, last)
        assert f"Page {first - 1}" in (*chunk.heading_path, chunk.body)


@pytest.mark.parametrize("text", ["x" * 2_000_000, "ab " * 700_000], ids=["one word", "words"])
def test_a_line_of_two_megabytes_is_cut(text: str) -> None:
    """Text without any structure is cut too, within the bound."""
    found = chunks(text)
    assert len(found) > 100
    assert max(chunk.tokens for chunk in found) <= MOST


def test_a_text_with_more_tokens_than_its_parts_is_cut_again() -> None:
    """Counting parts is no bound of the whole: tokens don't only merge across a cut."""
    found = chunks("type" * 600)
    assert max(chunk.tokens for chunk in found) <= MOST
