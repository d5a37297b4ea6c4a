"""Makes text of one form, so that equal content has equal chunks."""

import re
from typing import Final

VERSION: Final = "cleaning/2"

# Control characters but tab and newline; lone surrogates; the byte order mark; noncharacters.
_UNWANTED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)
# Colours and other orders to a terminal (ECMA-48): logs are full of them.
_TERMINAL: Final = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_TRAILING: Final = re.compile(r"[ \t]+$", re.MULTILINE)
_LONG_BLANK: Final = re.compile(r"[ \t]{65,}")
_MANY_LINES: Final = re.compile(r"\n{4,}")


def clean(text: str) -> str:
    """The text with one kind of line end, without characters that mean nothing.

    Runs of blanks are cut to 64 and empty lines to two: neither says anything, and both can be
    made long enough to hurt.
    """
    text = _TERMINAL.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _UNWANTED.sub("", text)
    text = _LONG_BLANK.sub(" " * 64, text)
    text = _TRAILING.sub("", text)
    return _MANY_LINES.sub("\n\n\n", text).strip("\n")


def clean_line(text: str, longest: int) -> str:
    """The text as one line of at most that many characters, for titles and names."""
    return " ".join(clean(text[: 4 * longest]).split())[:longest].rstrip()
