"""Reading foreign JSON without trusting its shape. An explicit null is the same as absent."""

from datetime import UTC, datetime
from typing import Final

LARGEST: Final = 2**63 - 1  # what stores and readers of JSON keep; sizes are far below


def mapping(value: object) -> dict[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """The value if it is a text, else None. Half of a surrogate pair makes it none: no store can
    name it, and it can't be written down."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def number(value: object) -> int | None:
    """The value as a whole number up to `LARGEST`, also if it came as digits, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) <= LARGEST else None
    # Python refuses to read thousands of digits with an error.
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) < len(str(LARGEST))
    ):
        return int(value)
    return None


def moment(value: object) -> datetime | None:
    """An RFC 3339 time, else None: a hint that nobody relies on."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
