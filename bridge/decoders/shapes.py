"""Reading foreign JSON without trusting its shape. An explicit null is the same as absent."""

from datetime import UTC, datetime


def mapping(value: object) -> dict[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def number(value: object) -> int | None:
    """The value as a whole number, also if it came as digits, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
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
