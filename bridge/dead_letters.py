"""Messages that no decoder understands, kept in the object store with reason and original."""

import base64
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

from pydantic import BaseModel

from contracts.ports import ObjectStore

PREFIX = "parked/"
SUFFIX = ".json"


class ParkedMessage(BaseModel):
    """One dead letter. `original` is base64 of the message's bytes."""

    id: str
    at: datetime
    reason: str
    original: str
    attributes: dict[str, str]

    @property
    def body(self) -> bytes:
        """The message as it came."""
        return base64.b64decode(self.original)


class ObjectDeadLetters:
    """The port `DeadLetters` over the object store: `parked/<day>/<id>.json`."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    async def park(self, reason: str, original: bytes, attributes: Mapping[str, str]) -> str:
        """Keep the message; answers its id."""
        now = datetime.now(UTC)
        message = ParkedMessage(
            id=uuid.uuid4().hex,
            at=now,
            reason=reason,
            original=base64.b64encode(original).decode(),
            attributes=dict(attributes),
        )
        key = f"{PREFIX}{now:%Y-%m-%d}/{message.id}{SUFFIX}"
        await self._objects.put(key, message.model_dump_json().encode())
        return message.id

    async def parked(
        self, after: str = "", limit: int | None = None
    ) -> AsyncIterator[ParkedMessage]:
        """The messages behind `<day>/<id>`, by day and id, at most so many (None: all)."""
        keys = [info.key async for info in self._objects.list(PREFIX)]
        places = [key.removeprefix(PREFIX).removesuffix(SUFFIX) for key in keys]
        for place in [place for place in places if place > after][:limit]:
            key = f"{PREFIX}{place}{SUFFIX}"
            yield ParkedMessage.model_validate_json(await self._objects.get(key))
