"""Decoders: what a message says, by its shape. One more format is a module and a line here.

A decoder is a function from a JSON object to `Decoded`, or None where the object isn't its own.
"""

import json
from collections.abc import Callable
from typing import Final

from bridge.decoders import envelopes, eventbridge, s3
from contracts.events import Action, Decoded

Decoder = Callable[[dict[str, object]], Decoded | None]

DECODERS: Final[tuple[Decoder, ...]] = (
    envelopes.decode_control,
    eventbridge.decode,
    s3.decode,
)

LONGEST_REASON: Final = 200  # characters of a foreign text in a reason


def decode(body: bytes | str) -> Decoded:
    """What the bridge understands of a message's body."""
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
    """To the dead letters."""
    return Decoded(action=Action.PARK, reason=reason[:LONGEST_REASON])
