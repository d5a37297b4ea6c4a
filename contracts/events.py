"""Change events: where to look, never what is there."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from contracts.ids import DocKey
from contracts.wire import WireModel

EVENTS_PER_KEY: Final = 3  # newest events that a dirty key remembers
LONGEST_NAME: Final = 80  # characters of a foreign name in a trace


class Operation(StrEnum):
    """What a producer says has happened. A hint: the plan looks at the source."""

    CREATED = "created"
    DELETED = "deleted"
    DELETE_MARKER = "delete_marker"
    RESTORED = "restored"
    TRANSITIONED = "transitioned"


class Action(StrEnum):
    """What the bridge does with a message."""

    DELIVER = "deliver"
    DROP = "drop"
    PARK = "park"


class ChangeEvent(WireModel):
    """A hint that document K of a container may have changed.

    `origin` is the kind of source that the container belongs to (`s3`, `folder`);
    `bucket` names the container (bucket, or root folder); `key` is decoded.
    """

    origin: str
    op: Operation
    bucket: str
    key: str
    event_name: str = ""
    version_id: str | None = None
    etag: str | None = None
    size: int | None = None  # bytes
    sequencer: str | None = None
    storage_class: str | None = None
    occurred_at: datetime | None = None


class Decoded(WireModel):
    """What the bridge understands of one message."""

    action: Action
    events: tuple[ChangeEvent, ...] = ()
    reason: str | None = None


class EventTrace(WireModel):
    """What is kept of a change event: enough to find it again where it came from."""

    origin: str  # kind of source, or `person`
    name: str  # the producer's, for example `ObjectCreated:Put`
    occurred_at: datetime | None = None  # as the producer says
    taken_at: datetime | None = None  # by the bridge
    message_id: str | None = None  # of the queue

    @classmethod
    def of(
        cls, event: ChangeEvent, taken_at: datetime, message_id: str | None = None
    ) -> "EventTrace":
        """The trace of an event, foreign texts cut to a bound."""
        return cls(
            origin=event.origin[:LONGEST_NAME],
            name=(event.event_name or event.op.value)[:LONGEST_NAME],
            occurred_at=event.occurred_at,
            taken_at=taken_at,
            message_id=message_id[:LONGEST_NAME] if message_id else None,
        )

    def repeats(self, other: "EventTrace") -> bool:
        """Whether it tells nothing but that the same was said again at another time."""
        return self.model_copy(update={"taken_at": other.taken_at}) == other


class DirtyKey(WireModel):
    """A document that may have changed, as a signal carries it."""

    key: DocKey
    hinted_at: float | None = None  # seconds since the epoch, when the bridge took the event
    recheck: bool = False  # True: this is the second look at a hint that showed no change
    events: tuple[EventTrace, ...] = ()  # that named it, newest last; `EVENTS_PER_KEY` at most

    def after(self, earlier: "DirtyKey | None") -> "DirtyKey":
        """This key, with the events of an earlier mention of it."""
        if earlier is None or not earlier.events:
            return self
        known = tuple(
            event
            for event in earlier.events
            if not any(event.repeats(mine) for mine in self.events)
        )
        return self.model_copy(update={"events": (*known, *self.events)[-EVENTS_PER_KEY:]})


class ChangeSignal(WireModel):
    """The signal `changed` of a coordinator.

    Up to 4 KB of keys inline, or `segments`: object-store keys of JSON lists of
    `DirtyKey`. `crawl` says "every key is dirty".
    """

    keys: tuple[DirtyKey, ...] = ()
    segments: tuple[str, ...] = ()
    crawl: bool = False
    events: int = Field(default=0, ge=0)  # change events that this signal stands for
