"""S3's own notifications: `Records` with form-encoded keys (versions 2.x)."""

from typing import Final
from urllib.parse import unquote_plus

from bridge.decoders.shapes import mapping, moment, number, text
from contracts.events import Action, ChangeEvent, Decoded, Operation
from contracts.keys import is_folder_object, is_marker

ORIGIN: Final = "s3"
SOURCE: Final = "aws:s3"
MAJOR_VERSION: Final = 2

# By the part before the colon, or the whole name. What isn't here changes no content: tagging,
# access lists, retention, annotations, replication.
_OPERATIONS: Final = {
    "ObjectCreated": Operation.CREATED,
    "ObjectRemoved": Operation.DELETED,
    "LifecycleExpiration": Operation.DELETED,
    "ObjectRestore": Operation.RESTORED,
    "LifecycleTransition": Operation.TRANSITIONED,
    "IntelligentTiering": Operation.TRANSITIONED,
    "ReducedRedundancyLostObject": Operation.DELETED,
}
_SPECIAL: Final = {
    "ObjectRemoved:DeleteMarkerCreated": Operation.DELETE_MARKER,
    "LifecycleExpiration:DeleteMarkerCreated": Operation.DELETE_MARKER,
}
_UNCHANGED: Final = frozenset({"ObjectRestore:Post"})  # asked for, not there yet


class _Undecodable(Exception):
    """One record that can't be understood parks its whole message."""


def decode(document: dict[str, object]) -> Decoded | None:
    """The events of a notification, any number of them."""
    records = document.get("Records")
    if not isinstance(records, list):
        return None
    try:
        found = [_event(mapping(record)) for record in records]
    except _Undecodable as error:
        return Decoded(action=Action.PARK, reason=str(error))
    events = tuple(event for event in found if event is not None)
    if not events:
        reason = "no records" if not records else "nothing that changes a document"
        return Decoded(action=Action.DROP, reason=reason)
    return Decoded(action=Action.DELIVER, events=events)


def _event(record: dict[str, object]) -> ChangeEvent | None:
    """One record; None for one that changes no document."""
    if record.get("eventSource") != SOURCE:
        raise _Undecodable(f"a record of {record.get('eventSource')!r}, not of {SOURCE}")
    _check_version(record.get("eventVersion"))
    name = (text(record.get("eventName")) or "").removeprefix("s3:")
    details = mapping(record.get("s3"))
    item = mapping(details.get("object"))
    bucket = text(mapping(details.get("bucket")).get("name"))
    encoded = text(item.get("key"))
    if not name or not bucket or not encoded:
        raise _Undecodable("a record without event name, bucket or key")
    operation = _SPECIAL.get(name) or _OPERATIONS.get(name.split(":", maxsplit=1)[0])
    key, size = _decoded_key(encoded), number(item.get("size"))
    if operation is None or name in _UNCHANGED:
        return None
    if is_marker(key) or is_folder_object(key, size):
        return None
    transition = mapping(mapping(record.get("lifecycleEventData")).get("transitionEventData"))
    return ChangeEvent(
        origin=ORIGIN,
        op=operation,
        bucket=bucket,
        key=key,
        event_name=name,
        version_id=text(item.get("versionId")),
        etag=text(item.get("eTag")),
        size=size,
        sequencer=text(item.get("sequencer")),
        storage_class=text(transition.get("destinationStorageClass")),
        occurred_at=moment(record.get("eventTime")),
    )


def _check_version(version: object) -> None:
    """The major version must be ours; a greater minor one only adds members (2.10 > 2.9)."""
    major, _, minor = (text(version) or "").partition(".")
    if number(major) != MAJOR_VERSION or number(minor) is None:
        raise _Undecodable(f"event version {version!r}, and {MAJOR_VERSION}.x is understood")


def _decoded_key(encoded: str) -> str:
    """Form-decoded exactly once; a broken percent sequence stays as it is
    (vectordotdev/vector#7437, minio/minio#7665)."""
    try:
        return unquote_plus(encoded, errors="strict")
    except UnicodeDecodeError as error:
        raise _Undecodable(f"the key {encoded!r} is not UTF-8") from error
