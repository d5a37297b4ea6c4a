"""What `sluice event decode` is given: a raw body, or the `input` of a recorded case."""

import json

from bridge.decoders import decode, park
from bridge.decoders.shapes import mapping, number, text
from contracts.events import Action, ChangeEvent, Decoded, Operation
from contracts.keys import is_folder_object, is_marker


def decode_input(content: bytes) -> Decoded:
    """Decode a message's body; an object with `kind` says how it came."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return decode(content)
    if not isinstance(document, dict) or "kind" not in document:
        return decode(content)
    if document["kind"] == "sqs_message":
        raw = text(document.get("body_raw"))
        return decode(raw if raw is not None else json.dumps(document.get("body")))
    if document["kind"] == "list_objects_entry":
        return decode_listing_entry(document)
    return park(f"messages of kind {document['kind']!r} are not understood")


def decode_listing_entry(document: dict[str, object]) -> Decoded:
    """An entry of a bucket's listing. Its key is raw: decoding it would make another of it
    (elastic/beats#38012)."""
    entry = mapping(document.get("entry")) or document
    key = text(entry.get("Key")) or text(entry.get("key"))
    bucket = text(document.get("bucket")) or text(document.get("Bucket")) or ""
    if key is None:
        return park("a listing entry without a key")
    size = number(entry.get("Size"))
    if is_marker(key) or is_folder_object(key, size):
        return Decoded(action=Action.DROP, reason=f"{key!r} is no document")
    etag = (text(entry.get("ETag")) or "").strip('"') or None
    event = ChangeEvent(
        origin="s3", op=Operation.CREATED, bucket=bucket, key=key, etag=etag, size=size
    )
    return Decoded(action=Action.DELIVER, events=(event,))
