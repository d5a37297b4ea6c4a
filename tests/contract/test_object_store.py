"""Object stores: one suite on both adapters."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.errors import ObjectMissing, StoreUnavailable
from contracts.ports import ObjectRange, ObjectStore
from storage.objects.directory import DirectoryObjects
from storage.objects.memory import MemoryObjects

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=40
)


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return DirectoryObjects(tmp_path / "o") if request.param == "directory" else MemoryObjects()


async def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [info.key async for info in store.list(prefix)]


async def test_an_object_is_read_whole_and_in_part(store: ObjectStore) -> None:
    """Ranges are byte offsets and lengths."""
    await store.put("a/b.bin", b"0123456789")
    assert await store.get("a/b.bin") == b"0123456789"
    assert await store.get("a/b.bin", 2, 3) == b"234"
    assert await store.get("a/b.bin", 8) == b"89"
    assert await store.get("a/b.bin", 8, 100) == b"89"
    assert await store.get("a/b.bin", 100) == b""
    assert await store.get("a/b.bin", 3, 0) == b""


async def test_several_objects_are_read_at_once(store: ObjectStore) -> None:
    """Each in its place; what isn't there is no error."""
    await store.put("a/b", b"one")
    await store.put("c", b"two")
    wanted = [ObjectRange("c"), ObjectRange("none"), ObjectRange("a/b", 1, 1), ObjectRange("a")]
    assert await store.get_many(wanted) == [b"two", None, b"n", None]
    assert await store.get_many([]) == []


async def test_put_if_absent_keeps_the_first(store: ObjectStore) -> None:
    """The second is refused and changes nothing; a plain put replaces."""
    assert await store.put("k", b"first", if_absent=True)
    assert not await store.put("k", b"second", if_absent=True)
    assert await store.get("k") == b"first"
    assert await store.put("k", b"third")
    assert await store.get("k") == b"third"


async def test_a_missing_object_is_an_error_of_its_own(store: ObjectStore) -> None:
    """So is a key that is only the folder of others."""
    await store.put("folder/a", b"x")
    for key in ("none", "folder", "folder/a/b"):
        with pytest.raises(ObjectMissing):
            await store.get(key)


async def test_listing_is_by_prefix_and_ascending(store: ObjectStore) -> None:
    """A prefix may end within a name."""
    for key in ("runs/s/2/b", "runs/s/10/a", "runs/t/1", "other"):
        await store.put(key, b"x")
    assert await keys(store, "runs/s/") == ["runs/s/10/a", "runs/s/2/b"]
    assert await keys(store, "runs/s/1") == ["runs/s/10/a"]
    assert await keys(store, "none/") == []


async def test_deleting_what_is_not_there_is_no_error(store: ObjectStore) -> None:
    """Deletion is idempotent."""
    await store.put("a/b", b"x")
    await store.delete(["a/b", "never"])
    await store.delete(["a/b"])
    assert await keys(store, "") == []


ODD_KEYS = (
    "..",
    "a/../b",
    ".",
    ".hidden",
    ".tmp-x",
    "a b/ c ",
    "a//b",
    "/a",
    "a/",
    "",
    "50%/%2E%2E",
    "%-",
    "%_",
    "a%_/b",
    "ünï/日本/🙂",
    "x" * 300,
    "é" * 300,
    "a\nb",
    "back\\slash",
    "CON",
    "-rf",
)


@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: repr(key[:10]))
async def test_an_odd_key_is_a_key(store: ObjectStore, key: str) -> None:
    """It holds its object, is listed as it was given, and goes when it is deleted."""
    assert await store.put(key, b"x", if_absent=True)
    assert not await store.put(key, b"y", if_absent=True)
    assert await store.get(key) == b"x"
    assert await keys(store, "") == [key]
    assert await keys(store, key) == [key]
    await store.delete([key])
    assert await keys(store, "") == []


async def test_odd_keys_are_all_different(store: ObjectStore) -> None:
    """Two keys never share an object; the listing ascends and finds each by its own prefixes."""
    # In a directory a key can't be an object and the folder of others.
    odd = sorted(k for k in ODD_KEYS if not any(o.startswith(f"{k}/") for o in ODD_KEYS))
    for key in odd:
        await store.put(key, key.encode())
    assert await keys(store, "") == odd
    for key in odd:
        assert await store.get(key) == key.encode()
        for length in {1, len(key) // 2, len(key)}:
            prefix = key[:length]
            assert await keys(store, prefix) == [k for k in odd if k.startswith(prefix)]


@settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(names, min_size=1, max_size=4).map("/".join))
async def test_any_key_comes_back_as_it_was(tmp_path: Path, key: str) -> None:
    """No name means anything to the file system: dots, percent signs, controls, long ones."""
    root = tmp_path / "o"
    store = DirectoryObjects(root)
    await store.put(key, b"x")
    assert await store.get(key) == b"x"
    assert key in await keys(store, "")
    for path in root.rglob("*"):
        assert path.resolve().is_relative_to(root.resolve())
    await store.delete([key])
    assert key not in await keys(store, "")


@pytest.mark.parametrize(
    "key", ["../../escape", "a/../../b", ".hidden", "x" * 700, "a/" + "é" * 300]
)
async def test_hostile_keys_stay_below_the_root(tmp_path: Path, key: str) -> None:
    """A key can't leave the store, however it is written."""
    store = DirectoryObjects(tmp_path / "o")
    await store.put(key, b"x")
    assert await keys(store, "") == [key]
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


async def test_kill_9_leaves_no_half_object(tmp_path: Path) -> None:
    """A process that is killed while it writes leaves whole objects only."""
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from storage.objects.directory import DirectoryObjects\n"
        "store = DirectoryObjects(Path(sys.argv[1]))\n"
        "async def main():\n"
        "    n = 0\n"
        "    while True:\n"
        "        await store.put(f'k{n % 5}', bytes([n % 251]) * 2_000_000)\n"
        "        print(n, flush=True)\n"
        "        n += 1\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "o")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(12):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = DirectoryObjects(tmp_path / "o")
    for key in await keys(store, ""):
        data = await store.get(key)
        assert len(data) == 2_000_000
        assert len(set(data)) == 1


async def test_a_place_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    """The error of the system becomes one that says what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="make room, or correct its rights"):
        await DirectoryObjects(tmp_path / "file").put("k", b"x")


async def test_one_of_many_writers_is_the_first(store: ObjectStore) -> None:
    """Of writers at once with `if_absent` one is told that it won, and its object is there."""
    won = await asyncio.gather(
        *(store.put("k", str(n).encode() * 1_000, if_absent=True) for n in range(20))
    )
    assert sum(won) == 1
    assert await store.get("k") == str(won.index(True)).encode() * 1_000


async def test_a_folder_that_is_emptied_takes_objects_meanwhile(tmp_path: Path) -> None:
    """Deleting the last object of a folder doesn't pull it from under another writer."""
    store = DirectoryObjects(tmp_path / "o")

    async def work(name: str) -> None:
        for _ in range(150):
            await store.put(f"a/b/c/{name}", b"x")
            await store.delete([f"a/b/c/{name}"])

    await asyncio.gather(*map(work, ("one", "two", "three", "four")))
    assert await keys(store, "") == []
    await store.put("a/b/c/last", b"x")
    assert await keys(store, "a/") == ["a/b/c/last"]


async def test_a_listing_sees_no_temporary_files(tmp_path: Path) -> None:
    """What a killed writer has left is no object."""
    store = DirectoryObjects(tmp_path / "o")
    await store.put("a/b", b"x")
    (tmp_path / "o" / "a" / ".tmp-left").write_bytes(b"half")
    assert await keys(store, "") == ["a/b"]


async def test_a_full_disk_leaves_the_object_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be written whole isn't written, and no piece of it stays."""
    store = DirectoryObjects(tmp_path / "o")
    await store.put("k", b"before")

    def full(_source: object, _target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreUnavailable, match="No space left on device"):
        await store.put("k", b"after")
    monkeypatch.undo()
    assert await store.get("k") == b"before"
    assert [path.name for path in (tmp_path / "o").rglob("*")] == ["k"]
