"""Splits cleaned text into blocks (headings, paragraphs, tables, code) and these into atoms."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from documents import tokens

LARGE_ATOM: Final = 100  # tokens; a larger one is split further
# A longer line is text that starts with a hash. Each chunk below carries the headings above it.
LONGEST_HEADING: Final = 300  # characters
# Of a text without any blank. Each may take four tokens, and a prefix must fit beside them.
CHARACTERS_AT_ONCE: Final = 64

_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(?=\S)")
_FENCE: Final = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+$")
_WORD: Final = re.compile(r"\S+\s*")
_RULE: Final = re.compile(r"[ \t:|-]+")


class Kind(Enum):
    """What a block is."""

    HEADING = auto()
    PARAGRAPH = auto()
    TABLE = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Block:
    """A block and the blank lines behind it: `text[start:end]`. Blocks tile the text."""

    kind: Kind
    start: int
    end: int
    level: int = 0  # of headings, 1 to 6
    title: str = ""  # of headings
    header: str = ""  # of tables: header row and rule


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest thing that a cut goes around: a sentence, a row, a line."""

    start: int
    end: int
    tokens: int
    last: bool  # of its block


def blocks(text: str, *, marked: bool = True) -> Iterator[Block]:
    """The blocks of a text, in order.

    In a text that isn't marked up (code, a log) a hash is a comment and a bar an operator:
    each stretch without a blank line is a block of lines.
    """
    lines = [(match.start(), match.end()) for match in _LINE.finditer(text)]
    place = 0
    while place < len(lines):
        ends = _block_end if marked else _stretch_end
        stop, kind = ends(text, lines, place)
        # Blank lines belong to the block before them.
        while stop < len(lines) and not text[slice(*lines[stop])].strip():
            stop += 1
        yield _block(text, lines, place, stop, kind)
        place = stop


def _block_end(text: str, lines: list[tuple[int, int]], place: int) -> tuple[int, Kind]:
    """Where the block that starts at a line ends, and what it is."""
    first = _line(text, lines[place])
    if _heading(first):
        return place + 1, Kind.HEADING
    if fence := _FENCE.match(first):
        return _fence_end(text, lines, place, fence.group(1)), Kind.CODE
    kind = Kind.TABLE if first.lstrip().startswith("|") else Kind.PARAGRAPH
    stop = place + 1
    while stop < len(lines) and _continues(_line(text, lines[stop]), kind):
        stop += 1
    return stop, kind


def _stretch_end(text: str, lines: list[tuple[int, int]], place: int) -> tuple[int, Kind]:
    """Where the lines up to the next blank one end."""
    stop = place + 1
    while stop < len(lines) and text[slice(*lines[stop])].strip():
        stop += 1
    return stop, Kind.CODE


def _line(text: str, span: tuple[int, int]) -> str:
    return text[span[0] : span[1]].rstrip("\n")


def _heading(line: str) -> tuple[int, str] | None:
    """Level and title, if the line is an ATX heading (CommonMark 0.31, section 4.2)."""
    if len(line) > LONGEST_HEADING or not (match := _HEADING.match(line)):
        return None
    title = line[match.end() :].rstrip()
    bare = title.rstrip("#")
    # Hashes close a heading only behind a blank: the C# of a title stays.
    if bare.endswith((" ", "\t")):
        title = bare.rstrip()
    return len(match.group(1)), title


def _is_rule(line: str) -> bool:
    return "-" in line and "|" in line[1:] and _RULE.fullmatch(line) is not None


def _continues(line: str, kind: Kind) -> bool:
    if not line.strip() or _heading(line) or _FENCE.match(line):
        return False
    return line.lstrip().startswith("|") is (kind is Kind.TABLE)


def _fence_end(text: str, lines: list[tuple[int, int]], place: int, fence: str) -> int:
    for stop in range(place + 1, len(lines)):
        if _line(text, lines[stop]).strip().startswith(fence):
            return stop + 1
    return len(lines)


def _block(text: str, lines: list[tuple[int, int]], first: int, stop: int, kind: Kind) -> Block:
    start, end = lines[first][0], lines[stop - 1][1]
    if kind is Kind.HEADING and (heading := _heading(_line(text, lines[first]))):
        return Block(kind, start, end, level=heading[0], title=heading[1])
    if kind is Kind.TABLE and stop - first > 1 and _is_rule(_line(text, lines[first + 1])):
        return Block(kind, start, end, header=text[start : lines[first + 1][1]])
    return Block(kind, start, end)


def atoms(text: str, block: Block) -> list[Atom]:
    """The atoms of a block, which tile it."""
    if block.kind is Kind.PARAGRAPH:
        spans = _split(text, block.start, block.end, _sentence_ends)
    elif block.kind is Kind.HEADING:
        spans = [(block.start, block.end)]
    else:
        spans = _split(text, block.start, block.end, _line_ends)
    sized = _sized(text, spans)
    for finer in (_line_ends, _word_ends, _character_ends):
        sized = _refined(text, sized, finer)
    return [
        Atom(start, end, size, last=number == len(sized) - 1)
        for number, (start, end, size) in enumerate(sized)
    ]


def _sized(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    if any(end - start > tokens.SLICE for start, end in spans):
        return [(start, end, tokens.count(text[start:end])) for start, end in spans]
    counts = tokens.count_each([text[start:end] for start, end in spans])
    return [(start, end, size) for (start, end), size in zip(spans, counts, strict=True)]


def _refined(
    text: str, sized: list[tuple[int, int, int]], ends: "_Ends"
) -> list[tuple[int, int, int]]:
    """Split what is too large; leave the rest as it is."""
    result: list[tuple[int, int, int]] = []
    for start, end, size in sized:
        if size <= LARGE_ATOM:
            result.append((start, end, size))
        else:
            result.extend(_sized(text, _split(text, start, end, ends)))
    return result


class _Ends:
    """A way to find the ends of parts; a plain function's type is too long to repeat."""

    def __init__(self, pattern: re.Pattern[str] | None) -> None:
        self._pattern = pattern

    def __call__(self, text: str, start: int, end: int) -> Iterator[int]:
        if self._pattern is None:
            yield from range(start + CHARACTERS_AT_ONCE, end, CHARACTERS_AT_ONCE)
            return
        for match in self._pattern.finditer(text, start, end):
            yield match.end()


_sentence_ends = _Ends(_SENTENCE)
_line_ends = _Ends(_LINE)
_word_ends = _Ends(_WORD)
_character_ends = _Ends(None)


def _split(text: str, start: int, end: int, ends: _Ends) -> list[tuple[int, int]]:
    """Cut a span at ends; the parts tile it."""
    spans = []
    for cut in ends(text, start, end):
        if start < cut < end:
            spans.append((start, cut))
            start = cut
    spans.append((start, end))
    return spans
