"""What commands print: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    Record = BaseModel | Mapping[str, object]

GAP = "  "


def document(record: "Record") -> None:
    """One JSON document."""
    _write(_encode(record, indent=2))


def lines(records: Iterable["Record"]) -> None:
    """One line of JSON a record."""
    for record in records:
        _write(_encode(record, indent=None))


def say(sentence: str = "") -> None:
    """A line for a person."""
    _write(sentence)


def flush() -> None:
    """Let a reader see what was said, while the command goes on."""
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Rows under their heads: drawn on a terminal, aligned plain text elsewhere.

    Args:
        columns: the heads.
        rows: cells; None is shown as nothing.
        empty: what is said when there is no row.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        _write(empty)
    elif sys.stdout.isatty():
        _draw(columns, cells)
    else:
        _align(columns, cells)


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line."""
    known = [(name, cell(value)) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        _write(f"{name.ljust(width)}{GAP}{value}")


def _draw(columns: Sequence[str], cells: list[list[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - slow, and only for terminals
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(*columns, box=SIMPLE_HEAD)
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    Console().print(drawn)


def _align(columns: Sequence[str], cells: list[list[str]]) -> None:
    rows = [list(columns), *cells]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        _write(GAP.join(padded).rstrip())


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    # A key may hold anything: a line feed would break the row, an escape the terminal.
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))


def _encode(record: "Record", *, indent: int | None) -> str:
    plain = record if isinstance(record, Mapping) else record.model_dump(mode="json")
    return json.dumps(plain, ensure_ascii=False, indent=indent, default=str)


def _write(text: str) -> None:
    # A lone surrogate (an undecodable file name) must not end the command.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
