"""S3's events through EventBridge: one object, members in kebab case, keys raw."""

from typing import Final

from bridge.decoders.shapes import mapping, moment, number, text
from contracts.events import Action, ChangeEvent, Decoded, Operation
from contracts.keys import is_folder_object, is_marker

ORIGIN: Final = "s3"
SOURCE: Final = "aws.s3"
MARKER: Final = "Delete Marker Created"  # deletion-type

_OPERATIONS: Final = {
    "Object Created": Operation.CREATED,
    "Object Deleted": Operation.DELETED,
    "Object Restore Completed": Operation.RESTORED,
    "Object Restore Expired": Operation.TRANSITIONED,
    "Object Storage Class Changed": Operation.TRANSITIONED,
    "Object Access Tier Changed": Operation.TRANSITIONED,
}


def decode(document: dict[str, object]) -> Decoded | None:
    """The event, if the object is EventBridge's."""
    kind = text(document.get("detail-type"))
    if kind is None or "detail" not in document:
        return None
    if document.get("source") != SOURCE:
        return Decoded(
            action=Action.PARK, reason=f"an event of {document.get('source')!r}, not of {SOURCE}"
        )
    detail = mapping(document["detail"])
    item = mapping(detail.get("object"))
    bucket, key = text(mapping(detail.get("bucket")).get("name")), text(item.get("key"))
    if not bucket or not key:
        return Decoded(action=Action.PARK, reason=f"an event {kind!r} without bucket or key")
    operation = _OPERATIONS.get(kind)
    if operation is None:
        return Decoded(action=Action.DROP, reason=f"{kind!r} changes no document")
    size = number(item.get("size"))
    if is_marker(key) or is_folder_object(key, size):
        return Decoded(action=Action.DROP, reason=f"{key!r} is no document")
    if detail.get("deletion-type") == MARKER:
        operation = Operation.DELETE_MARKER
    event = ChangeEvent(
        origin=ORIGIN,
        op=operation,
        bucket=bucket,
        key=key,
        event_name=kind,
        version_id=text(item.get("version-id")),
        # One stand-in writes it as the native form does (getmoto/moto).
        etag=text(item.get("etag")) or text(item.get("eTag")),
        size=size,
        sequencer=text(item.get("sequencer")),
        storage_class=text(detail.get("destination-storage-class")),
        occurred_at=moment(document.get("time")),
    )
    return Decoded(action=Action.DELIVER, events=(event,))
