"""The chunker: structure-aware and content-defined, so that an edit moves no cut but its own.

Cuts come before headings, where all state starts anew, and behind atoms that their own hash
chooses once a chunk has `LEAST` tokens. A chunk that nothing has cut ends at `MOST` tokens.
Greedy packing would shift every later cut; here two texts that differ in one place fall back
into step at the next chosen atom.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contracts.documents import Chunk
from documents import tokens
from documents.blocks import Atom, Block, Kind, atoms, blocks

VERSION: Final = "chunking/2"

LEAST: Final = 100  # tokens, before an atom's hash may cut
MOST: Final = 512  # tokens of prefix and body
MOST_PREFIX: Final = 64  # tokens of the heading path
MOST_TABLE_HEADER: Final = 128  # tokens; a longer one isn't repeated
LONGEST_TABLE_HEADER: Final = 4_096  # characters; a longer one isn't even counted
# Tokens from one chosen atom to the next, on average: atoms are chosen in proportion to their
# size, so that words don't cut a text into smaller chunks than sentences do.
BETWEEN_CUTS: Final = 160
BETWEEN_BLOCK_CUTS: Final = 60  # where the atom ends a block, a better place


@dataclass(frozen=True)
class Page:
    """Where a page starts in the text."""

    number: int  # from 1
    start: int  # characters


@dataclass
class _Open:
    """The chunk that grows."""

    prefix: str
    prefix_tokens: int
    path: tuple[str, ...]
    atoms: list[Atom] = field(default_factory=list)
    tokens: int = 0  # of the atoms
    headings_only: bool = True


class _Outline:
    """The headings above the present place."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> None:
        """Go into a section."""
        self._headings = [heading for heading in self._headings if heading[0] < level]
        self._headings.append((level, title))

    def path(self, above: int = 7) -> tuple[str, ...]:
        """Titles from the outermost in; only those of a smaller level than `above`."""
        return tuple(title for level, title in self._headings if level < above)


def chunks(text: str, pages: Sequence[Page] = (), *, marked: bool = True) -> list[Chunk]:
    """Cut a cleaned text; `marked` says whether its hashes and bars are headings and tables.

    Bodies are exact slices, in order, that don't overlap and leave out blanks only; prefix and
    body together have at most `MOST` tokens.
    """
    fitting = (part for grown in _grow(text, marked=marked) for part in _fitting(text, grown))
    found = (_chunk(text, pages, part) for part in fitting)
    return [chunk for chunk in found if chunk.body]


def _grow(text: str, *, marked: bool) -> Iterator[_Open]:
    outline = _Outline()
    growing: _Open | None = None
    for block in blocks(text, marked=marked):
        if block.kind is Kind.HEADING:
            if growing is not None and not growing.headings_only:
                yield growing
                growing = None
            # A chunk that starts with a heading has it in its body, not in its prefix.
            above = outline.path(block.level)
            outline.enter(block.level, block.title)
            growing = growing or _started(above, "")
            growing.path = outline.path()
        for atom in atoms(text, block):
            if growing is not None and _is_full(growing, atom):
                yield growing
                growing = None
            growing = growing or _started(outline.path(), _header_for(block, atom))
            growing.atoms.append(atom)
            growing.tokens += atom.tokens
            growing.headings_only = growing.headings_only and block.kind is Kind.HEADING
            if not growing.headings_only and growing.tokens >= LEAST and _chosen(text, atom):
                yield growing
                growing = None
    if growing is not None:
        yield growing


def _started(path: tuple[str, ...], header: str) -> _Open:
    prefix = _heading_prefix(path) + header
    return _Open(prefix, tokens.count(prefix) if prefix else 0, path)


def _heading_prefix(path: tuple[str, ...]) -> str:
    """The path as a line; the outermost titles go first where it is too long."""
    for start in range(len(path)):
        line = " > ".join(path[start:]) + "\n\n"
        if tokens.count(line) <= MOST_PREFIX:
            return line
    return ""


def _header_for(block: Block, atom: Atom) -> str:
    """The header of a table that goes on in another chunk."""
    if not block.header or atom.start < block.start + len(block.header):
        return ""
    if len(block.header) > LONGEST_TABLE_HEADER:
        return ""
    return block.header if tokens.count(block.header) <= MOST_TABLE_HEADER else ""


def _fitting(text: str, grown: _Open) -> Iterator[_Open]:
    """The chunk, or halves of it: a text may have a few tokens more than its parts."""
    start, end = grown.atoms[0].start, grown.atoms[-1].end
    if len(grown.atoms) == 1 or tokens.count(grown.prefix + text[start:end]) <= MOST:
        yield grown
        return
    middle = len(grown.atoms) // 2
    for atoms_ in (grown.atoms[:middle], grown.atoms[middle:]):
        yield from _fitting(text, replace(grown, atoms=atoms_))


def _is_full(growing: _Open, atom: Atom) -> bool:
    return growing.prefix_tokens + growing.tokens + atom.tokens > MOST


def _chosen(text: str, atom: Atom) -> bool:
    """Whether the atom's own text says that a cut follows it."""
    content = text[atom.start : atom.end].strip().encode()
    digest = hashlib.blake2b(content, digest_size=8).digest()
    distance = BETWEEN_BLOCK_CUTS if atom.last else BETWEEN_CUTS
    odds = max(distance // max(atom.tokens, 1), 1)
    return int.from_bytes(digest, "big") % odds == 0


def _chunk(text: str, pages: Sequence[Page], grown: _Open) -> Chunk:
    start, end = grown.atoms[0].start, grown.atoms[-1].end
    body = text[start:end]
    start += len(body) - len(body.lstrip("\n"))
    body = body.strip("\n").rstrip()
    return Chunk(
        prefix=grown.prefix,
        body=body,
        tokens=tokens.count(grown.prefix + body),
        char_start=start,
        char_end=start + len(body),
        page_start=_page_at(pages, start),
        page_end=_page_at(pages, start + len(body) - 1),
        heading_path=grown.path,
    )


def _page_at(pages: Sequence[Page], offset: int) -> int | None:
    if not pages:
        return None
    place = bisect_right(pages, offset, key=lambda page: page.start) - 1
    return pages[max(place, 0)].number
