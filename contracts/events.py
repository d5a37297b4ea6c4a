"""Change events: where to look, never what is there."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contracts.ids import DocKey
from contracts.wire import WireModel


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


class DirtyKey(WireModel):
    """A document that may have changed, as a signal carries it."""

    key: DocKey
    hinted_at: float | None = None  # seconds since the epoch, when the bridge took the event
    recheck: bool = False  # True: this is the second look at a hint that showed no change


class ChangeSignal(WireModel):
    """The signal `changed` of a coordinator.

    Up to 4 KB of keys inline, or `segments`: object-store keys of JSON lists of
    `DirtyKey`. `crawl` says "every key is dirty".
    """

    keys: tuple[DirtyKey, ...] = ()
    segments: tuple[str, ...] = ()
    crawl: bool = False
    events: int = Field(default=0, ge=0)  # change events that this signal stands for
