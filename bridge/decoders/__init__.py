"""Decoders: what a message says, by its shape. One more format is a module and a line here.

A decoder is a function from a JSON object to `Decoded`, or None where the object isn't its own.
"""

import json
from collections.abc import Callable
from typing import Final

from pydantic import TypeAdapter, ValidationError

from bridge.decoders import envelopes, eventbridge, s3
from contracts.events import Action, Decoded
from contracts.ids import DocKey

Decoder = Callable[[dict[str, object]], Decoded | None]

DECODERS: Final[tuple[Decoder, ...]] = (
    envelopes.decode_control,
    eventbridge.decode,
    s3.decode,
)

LONGEST_REASON: Final = 200  # characters of a foreign text in a reason

_KEY: Final[TypeAdapter[str]] = TypeAdapter(DocKey)


def decode(body: bytes | str) -> Decoded:
    """What the bridge understands of a message's body. Raises nothing, whatever the body is: a
    message that made us fail would come again for ever."""
    try:
        decoded = _decode(body)
        for event in decoded.events:
            _KEY.validate_python(event.key)
    except ValidationError:
        return park("a key that no document can have: empty, too long, or no text")
    except Exception as error:  # noqa: BLE001 - a defect of a decoder is a reason to park
        return park(f"the decoder failed: {error!r}")
    return park(decoded.reason or "") if decoded.action is Action.PARK else decoded


def _decode(body: bytes | str) -> Decoded:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        return park(f"not JSON: {error}")
    document = envelopes.unwrapped(document)
    if isinstance(document, str):
        return park(document)
    for decoder in DECODERS:
        decoded = decoder(document)
        if decoded is not None:
            return decoded
    return park(f"unknown payload with the members {', '.join(sorted(document)[:10]) or 'none'}")


def park(reason: str) -> Decoded:
    """To the dead letters. What can't be written down of the reason is escaped."""
    writable = reason.encode(errors="backslashreplace").decode()
    return Decoded(action=Action.PARK, reason=writable[:LONGEST_REASON])
