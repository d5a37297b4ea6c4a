"""What messages come wrapped in, and the messages of the services themselves."""

import json
from typing import Final

from contracts.events import Action, Decoded

DEEPEST: Final = 3  # SNS in SNS in SNS; more is somebody's mistake

_CONTROL: Final = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})


def unwrapped(document: object) -> dict[str, object] | str:
    """The innermost object of SNS envelopes, found by shape, or why there is none."""
    for _ in range(DEEPEST + 1):
        if not isinstance(document, dict):
            return f"a JSON {type(document).__name__} where an object was expected"
        if document.get("Type") != "Notification" or not isinstance(document.get("Message"), str):
            return document
        try:
            document = json.loads(document["Message"])
        except (ValueError, RecursionError) as error:
            return f"an SNS message that is not JSON: {error}"
    return f"more than {DEEPEST} envelopes in one another"


def decode_control(document: dict[str, object]) -> Decoded | None:
    """Subscription messages and test events are no changes.

    `SubscribeURL` is never called: that would let anybody subscribe us.
    """
    if document.get("Type") in _CONTROL and "SubscribeURL" in document:
        return Decoded(action=Action.DROP, reason=f"an SNS {document['Type']}")
    if document.get("Event") == "s3:TestEvent" and "Records" not in document:
        return Decoded(action=Action.DROP, reason="a test event of the bucket's configuration")
    return None
