"""What a parser gets and gives."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Content:
    """A content in a file, with what its source says of it."""

    path: Path
    name: str  # the document's key
    media_type: str | None = None

    @property
    def suffix(self) -> str:
        """The ending of the name, lower case, with its dot."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def plain_media_type(self) -> str:
        """The media type without its parameters, lower case; empty where there is none."""
        return (self.media_type or "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Parsed:
    """Text of one content. `pages` are the texts of its pages; one without numbers has one."""

    pages: tuple[str, ...]
    media_type: str
    parser: str  # name and version
    title: str | None = None
    numbered: bool = False  # whether the pages are pages of a document
    marked: bool = True  # whether headings and tables are to be looked for
    warnings: tuple[str, ...] = ()
