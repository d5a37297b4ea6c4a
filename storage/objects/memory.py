"""The object store in memory, for tests and trials."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime

from contracts.errors import ObjectMissing
from contracts.ports import ObjectInfo, ObjectRange


class MemoryObjects:
    """Objects in a dictionary."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, datetime]] = {}

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
        """Store; False if `if_absent` and the key was taken."""
        if if_absent and key in self._objects:
            return False
        self._objects[key] = (bytes(data), datetime.now(UTC))
        return True

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """The object, or a byte range of it."""
        if key not in self._objects:
            raise ObjectMissing(f"there is no object {key}")
        data = self._objects[key][0]
        return data[offset:] if length is None else data[offset : offset + length]

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """Several at once, in their order; None where there is no object."""
        return [
            await self.get(*wanted) if wanted.key in self._objects else None for wanted in ranges
        ]

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Objects whose key starts with the prefix, ascending."""
        for key in sorted(self._objects):
            if key.startswith(prefix):
                data, modified_at = self._objects[key]
                yield ObjectInfo(key, len(data), modified_at)

    async def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of the keys."""
        for key in keys:
            self._objects.pop(key, None)
