"""The state folder, the proof of a process, and Temporal's development server."""

import asyncio
import errno
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from contracts.documents import EmbeddingSpace
from contracts.errors import ConfigurationError, NotReachable, StoreUnavailable
from sluice.local import TemporalServer
from sluice.processes import PidFiles, ProcessIdentity, dies_with_parent
from sluice.state import StateFolder, StateLocked

HOLD = """
import sys
from pathlib import Path
from sluice.state import StateFolder
with StateFolder(Path(sys.argv[1])).lock("a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def sleeper() -> subprocess.Popen[bytes]:
    """A process that ends when it is told to."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; print('', flush=True); time.sleep(600)"],
        stdout=subprocess.PIPE,
    )


def pids(folder: Path) -> PidFiles:
    folder.mkdir(exist_ok=True)
    return PidFiles(folder)


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    """The lock excludes another process and names it; its death frees the folder."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(StateLocked, match=rf"process {holder.pid} \(a test\)"),
            StateFolder(tmp_path).lock("another"),
        ):
            pass
        holder.kill()
        holder.wait()
    with StateFolder(tmp_path).lock("another"):
        pass


def test_another_embedding_space_is_refused(tmp_path: Path) -> None:
    """Vectors of two spaces are never in one index: the sentence names both."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    one, other = (
        EmbeddingSpace(name="one/1", dimension=8),
        EmbeddingSpace(name="two/1", dimension=8),
    )
    state.claim(one)
    state.claim(one)
    with pytest.raises(ConfigurationError, match=r"'one/1 8'.*'two/1 8'.*SLUICE_EMBEDDER"):
        state.claim(other)


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The key of the API outlives restarts, and only its owner reads it."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    with state.announced("http://127.0.0.1:1") as first:
        known = state.known_access()
        assert known == first
    after = state.known_access()
    assert after is not None
    assert (after.key, after.address) == (first.key, None)
    assert state.access().key == first.key
    mode = (tmp_path / "state" / "api.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_place_that_cannot_be_a_folder_is_one_sentence(tmp_path: Path) -> None:
    """A file where the folder should be is refused with its name and the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="SLUICE_STATE"):
        StateFolder(tmp_path / "file" / "state").prepare()


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room left is said as such, and may be tried again."""

    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StoreUnavailable, match="is full"):
        StateFolder(tmp_path).prepare()


@pytest.mark.parametrize("free", [0, 1, 64 * 2**20 - 1])
def test_a_disk_that_is_as_good_as_full_is_refused(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory-mapped file that can't grow kills its process: it doesn't come to that."""
    monkeypatch.setattr("sluice.state.free_space", lambda _folder: free)
    with pytest.raises(StoreUnavailable, match="make room"):
        StateFolder(tmp_path).prepare()
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills between the opening of a file and its end leaves no half file."""
    state = StateFolder(tmp_path)
    state.prepare()

    def full(*_args: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreUnavailable, match="is full"):
        state.access()
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_key_file_says_what_to_do(tmp_path: Path) -> None:
    """A damaged api.json is refused by name."""
    (tmp_path / "api.json").write_text("{")
    with pytest.raises(ConfigurationError, match="delete it"):
        StateFolder(tmp_path).known_access()


def test_leftovers_that_are_ours_are_ended(tmp_path: Path) -> None:
    """A living process whose pid, start and name are on file is ended, and its file goes."""
    with sleeper() as process:
        files = pids(tmp_path)
        files.record("worker", process.pid)
        assert files.end_leftovers() == ["worker"]
        assert process.wait() == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_reused_pid_is_left_alone(tmp_path: Path) -> None:
    """A process that only has the pid of ours is none of ours."""
    with sleeper() as process:
        files = pids(tmp_path)
        files.record("worker", process.pid)
        path = tmp_path / "worker.pid"
        path.write_text(json.dumps({**json.loads(path.read_text()), "started": "1"}))
        assert files.end_leftovers() == []
        assert process.poll() is None
        process.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_pid_file_proves_nothing(tmp_path: Path) -> None:
    """What can't be read ends nobody."""
    (tmp_path / "worker.pid").write_text("42")
    assert PidFiles(tmp_path).end_leftovers() == []


def test_the_portable_proof_agrees_on_what_lives() -> None:
    """Where there is no /proc, `ps` tells a living process from none."""
    own = ProcessIdentity._from_ps(os.getpid())
    assert own is not None
    assert own == ProcessIdentity._from_ps(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert ProcessIdentity._from_ps(process.pid) is None


def test_a_child_dies_with_its_parent() -> None:
    """A parent that is killed takes its children with it, where the kernel can do that."""
    if sys.platform != "linux":
        assert dies_with_parent() is None
        return
    program = (
        "import subprocess, sys\n"
        "from sluice.processes import dies_with_parent\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " preexec_fn=dies_with_parent())\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        child = ProcessIdentity.of(int(parent.stdout.readline()))
        assert child is not None
        # A pidfd is readable when the process has ended: no polling, no guessing.
        handle = os.pidfd_open(child.pid)
        parent.kill()
    readable, _, _ = select.select([handle], [], [], 10)
    os.close(handle)
    assert readable


async def test_a_killed_server_comes_back_with_what_it_had(tmp_path: Path) -> None:
    """After kill -9 the next server opens the same file, on the same port, and knows the work."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    async with TemporalServer(state) as first:
        client = await Client.connect(first.address, namespace=first.namespace)
        await client.start_workflow("Anything", id="kept", task_queue="none")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        assert await first.wait() == -signal.SIGKILL
        address = first.address
    async with TemporalServer(state) as second:
        assert second.address == address
        client = await Client.connect(second.address, namespace=second.namespace)
        kept = await client.get_workflow_handle("kept").describe()
        assert kept.status is WorkflowExecutionStatus.RUNNING
        pid = second.pid
    assert pid is not None
    assert ProcessIdentity.of(pid) is None
    assert list((tmp_path / "state" / "pids").iterdir()) == []


async def test_a_leftover_server_is_ended_before_the_next(tmp_path: Path) -> None:
    """What a killed stack left running is found by its pid file, and its database is free again."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    orphan = TemporalServer(state)
    await orphan.__aenter__()
    ended = await asyncio.to_thread(state.pids.end_leftovers)
    assert ended == ["temporal"]
    async with TemporalServer(state) as server:
        assert server.pid is not None
    await orphan.stop()


async def test_a_server_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    """A database that is none ends the server, and the sentence has its last line and its log."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    state.temporal_database.write_bytes(b"this is no database" * 100)
    with pytest.raises(NotReachable, match=r"temporal\.log"):
        async with TemporalServer(state):
            pass


async def test_a_server_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    """On the same port and database: what was started in it is still there."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    async with TemporalServer(state) as server:
        keeping = asyncio.create_task(server.keep_alive())
        client = await Client.connect(server.address, namespace=server.namespace)
        await client.start_workflow("Any", id="kept", task_queue="nobody")
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(60):
            while server.pid == killed:
                await asyncio.sleep(0.05)
            described = await client.get_workflow_handle("kept").describe()
        assert described.status is WorkflowExecutionStatus.RUNNING
        assert not keeping.done()
        keeping.cancel()


async def test_two_folders_that_remember_one_port_have_two_servers(tmp_path: Path) -> None:
    """Started at the same instant, each is answered by a server of its own, and by no other."""
    states = [StateFolder(tmp_path / name) for name in ("one", "two")]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for state in states:
        state.prepare()
        state.temporal_port.write_text(str(port))
    servers = [TemporalServer(state) for state in states]
    try:
        await asyncio.gather(*(server.__aenter__() for server in servers))
        assert servers[0].address != servers[1].address
        for server, other in (servers, servers[::-1]):
            client = await Client.connect(server.address, namespace=other.namespace)
            with pytest.raises(RPCError, match="not found"):
                await client.start_workflow("Any", id="strayed", task_queue="nobody")
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


async def test_a_server_without_its_database_is_fresh(tmp_path: Path) -> None:
    """What coordinators had collected is gone with the database, and a crawl has to find it."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    async with TemporalServer(state) as server:
        assert server.fresh
    assert not TemporalServer(state).fresh
    state.temporal_database.unlink()
    assert TemporalServer(state).fresh
