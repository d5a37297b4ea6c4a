"""The interval rule in SQL, and stored times."""

from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Table, and_

from contracts.visibility import View


def of_source(table: Table, view: View) -> ColumnElement[bool]:
    """Rows of the view's source in its generation."""
    return and_(table.c.source_id == view.source_id, table.c.generation == view.generation)


def visible(table: Table, view: View) -> ColumnElement[bool]:
    """Rows of the source whose interval contains the view's sequence."""
    return and_(of_source(table, view), table.c.from_seq <= view.seq, table.c.to_seq > view.seq)


def visible_row(table: Table, view: View) -> ColumnElement[bool]:
    """The same for rows that are found by another column. The sum hides the end from SQLite, which
    without statistics prefers an index on it, and walks every open row of the source."""
    starts = table.c.from_seq <= view.seq
    return and_(of_source(table, view), starts, (table.c.to_seq + 0) > view.seq)


def moment(seconds: float | None) -> datetime | None:
    """A stored time as a datetime in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
