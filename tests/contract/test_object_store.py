"""Object stores: one suite on both adapters."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.errors import ObjectMissing, StoreUnavailable
from contracts.ports import ObjectStore
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
