"""Dead letters over an object store: kept as they came, and found again."""

import re

import pytest

from bridge.dead_letters import PREFIX, ObjectDeadLetters, ParkedMessage
from contracts.errors import StoreUnavailable
from storage.objects.memory import MemoryObjects


async def parked(letters: ObjectDeadLetters) -> list[ParkedMessage]:
    return [message async for message in letters.parked()]


@pytest.mark.parametrize(
    "original", [b"", b"\x00\xff\xfe", "日本 ü".encode(), b'{"a": 1}', bytes(range(256)) * 4_096]
)
async def test_the_original_comes_back_byte_by_byte(original: bytes) -> None:
    """Whatever a message is made of, it can be replayed."""
    letters = ObjectDeadLetters(MemoryObjects())
    name = await letters.park("odd", original, {"queue": "q", "message_id": "m"})
    [message] = await parked(letters)
    assert message.body == original
    assert (message.id, message.reason) == (name, "odd")
    assert message.attributes == {"queue": "q", "message_id": "m"}


async def test_the_same_message_twice_is_two_letters() -> None:
    """Nothing that was parked is overwritten."""
    letters = ObjectDeadLetters(MemoryObjects())
    names = {await letters.park("odd", b"same", {}) for _ in range(3)}
    assert len(names) == 3
    assert {message.id for message in await parked(letters)} == names


async def test_letters_lie_by_day() -> None:
    """The key says when, so that a day can be looked at or thrown away."""
    objects = MemoryObjects()
    name = await ObjectDeadLetters(objects).park("odd", b"x", {})
    [info] = [info async for info in objects.list("")]
    assert re.fullmatch(rf"{PREFIX}\d{{4}}-\d\d-\d\d/{name}\.json", info.key)
    stored = ParkedMessage.model_validate_json(await objects.get(info.key))
    assert f"/{stored.at:%Y-%m-%d}/" in info.key


async def test_other_objects_are_no_letters() -> None:
    """Only what was parked is listed."""
    objects = MemoryObjects()
    await objects.put("segments/s/1.json", b"[]")
    letters = ObjectDeadLetters(objects)
    assert await parked(letters) == []


async def test_letters_are_read_in_pages() -> None:
    """Those behind a place, as many as are wanted, and no other is opened."""
    letters = ObjectDeadLetters(MemoryObjects())
    for number in range(3):
        await letters.park("odd", b"%d" % number, {})
    whole = await parked(letters)
    after = f"{whole[0].at:%Y-%m-%d}/{whole[0].id}"
    assert [letter async for letter in letters.parked(after, 1)] == whole[1:2]
    assert [letter async for letter in letters.parked(after)] == whole[1:]


async def test_a_store_that_refuses_is_said() -> None:
    """Whoever parks has to know that the message is kept nowhere."""

    class FullStore(MemoryObjects):
        async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
            raise StoreUnavailable("the disk is full")

    with pytest.raises(StoreUnavailable):
        await ObjectDeadLetters(FullStore()).park("odd", b"x", {})
