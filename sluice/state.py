"""The state folder of the embedded stack: its layout, its lock, and the key of its API."""

import contextlib
import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.errors import ConfigurationError, SluiceError, StoreUnavailable
from contracts.keys import STATE_MARK
from sluice.processes import PidFiles

if TYPE_CHECKING:  # it loads numpy, which most commands don't need
    from contracts.documents import EmbeddingSpace

KEY_BYTES: Final = 32
NAMESPACE_BYTES: Final = 4
MIN_FREE: Final = 64 * 2**20  # bytes without which the engines' memory-mapped files can't grow
_OWNER_ONLY: Final = 0o600
_OWNER_FOLDER: Final = 0o700


class StateLocked(StoreUnavailable):
    """Another process holds the state folder."""


@dataclass(frozen=True)
class ApiAccess:
    """Where the API of this state folder answers (None: no stack runs), and its key."""

    key: str
    address: str | None = None  # http://host:port


class StateFolder:
    """Everything that the embedded stack keeps is below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def catalog(self) -> Path:
        """SQLite database of the catalog."""
        return self.root / "catalog.sqlite"

    @property
    def objects(self) -> Path:
        """Folder of the object store."""
        return self.root / "objects"

    @property
    def vectors(self) -> Path:
        """Folder of the vector index."""
        return self.root / "vectors"

    @property
    def keywords(self) -> Path:
        """SQLite database of the keyword index."""
        return self.root / "keywords.sqlite"

    @property
    def scratch(self) -> Path:
        """Folder for contents on their way to the parser."""
        return self.root / "scratch"

    @property
    def temporal_database(self) -> Path:
        """Database of Temporal's development server."""
        return self.root / "temporal.sqlite"

    @property
    def temporal_log(self) -> Path:
        """What Temporal's development server says."""
        return self.root / "temporal.log"

    @property
    def temporal_port(self) -> Path:
        """The port that Temporal's development server had last."""
        return self.root / "temporal.port"

    @property
    def _namespace(self) -> Path:
        return self.root / "temporal.namespace"

    @property
    def has_namespace(self) -> bool:
        """Whether workflows of this folder have run in a namespace of their own."""
        return self._namespace.exists()

    def temporal_namespace(self) -> str:
        """The namespace of this folder's workflows, made at the first call."""
        with self._explained():
            if not self.has_namespace:
                _write(self._namespace, f"sluice-{secrets.token_hex(NAMESPACE_BYTES)}")
            return self._namespace.read_text().strip()

    @property
    def pids(self) -> PidFiles:
        """Our child processes."""
        return PidFiles(self.root / "pids")

    @property
    def _api(self) -> Path:
        return self.root / "api.json"

    def prepare(self) -> None:
        """Make the folders.

        Raises:
            ConfigurationError: the place can't be written.
            StoreUnavailable: the disk is full, or as good as full.
        """
        if not self.has_room():
            raise StoreUnavailable(self.full_disk())
        with self._explained():
            self.root.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
            for folder in (self.objects, self.vectors, self.scratch, self.root / "pids"):
                folder.mkdir(exist_ok=True)
            (self.root / STATE_MARK).touch()
            _write(self.root / ".probe", "\0")
            (self.root / ".probe").unlink()

    def claim(self, space: "EmbeddingSpace") -> None:
        """Note in which space the vectors are; the first one stays.

        Raises:
            ConfigurationError: they are in another one, and distances between the two mean nothing.
        """
        note = self.vectors / "space"
        name = f"{space.name} {space.dimension}"
        with self._explained():
            if not note.exists():
                _write(note, name)
            known = note.read_text()
        if known != name:
            raise ConfigurationError(
                f"the index in {self.root} is in the embedding space {known!r}, and this one's "
                f"is {name!r}: choose the embedder that it was filled with by SLUICE_EMBEDDER, or "
                "another folder by SLUICE_STATE"
            )

    @contextmanager
    def lock(self, role: str) -> Iterator[None]:
        """Hold the folder, alone. The kernel lets go of it when the process ends, however it ends.

        Args:
            role: what we do, for the sentence that others see: `sluice up`.

        Raises:
            StateLocked: another process holds it.
        """
        self.prepare()
        with self._explained():
            handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        try:
            self._take(handle, role)
            yield
        finally:
            os.close(handle)

    def access(self) -> ApiAccess:
        """Address and key of the API; the key is made at the first call."""
        known = self.known_access()
        if known is None:
            known = ApiAccess(key=secrets.token_urlsafe(KEY_BYTES))
            self._write_access(known)
        return known

    def known_access(self) -> ApiAccess | None:
        """Address and key, if there are any."""
        try:
            fields = json.loads(self._api.read_text())
            return ApiAccess(key=str(fields["key"]), address=fields.get("address"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{self._api} is damaged: delete it, and the next start makes a new key"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{self._api} can't be read: {error.strerror}") from error

    @contextmanager
    def announced(self, address: str) -> Iterator[ApiAccess]:
        """Tell other processes where the API answers, for as long as it does."""
        access = ApiAccess(key=self.access().key, address=address)
        self._write_access(access)
        try:
            yield access
        finally:
            self._write_access(ApiAccess(key=access.key))

    def _write_access(self, access: ApiAccess) -> None:
        with self._explained():
            _write(self._api, json.dumps(asdict(access)))

    def _take(self, handle: int, role: str) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "unknown"
            raise StateLocked(
                f"the state folder {self.root} is in use by process {holder}: "
                "end it, or name another folder with SLUICE_STATE"
            ) from error
        with self._explained():
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} ({role})".encode(), 0)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._sentence(error) from error

    def has_room(self) -> bool:
        """Whether as much of the disk is free as the engines need; where nobody says, it is."""
        free = free_space(self.root)
        return free is None or free >= MIN_FREE

    def full_disk(self) -> str:
        """The sentence for a disk without room."""
        return (
            f"the disk of the state folder {self.root} is full ({MIN_FREE // 2**20} MiB have to be "
            "free): make room, or name another folder with SLUICE_STATE"
        )

    def _sentence(self, error: OSError) -> SluiceError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return StoreUnavailable(self.full_disk())
        return ConfigurationError(
            f"the state folder {self.root} can't be written ({error.strerror}): "
            "name another with SLUICE_STATE"
        )


def _write(path: Path, text: str) -> None:
    """Atomically, for our eyes only; what a full disk has cut short is not left behind."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def free_space(folder: Path) -> int | None:
    """Bytes that are free at the folder or its nearest existing parent."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            figures = os.statvfs(place)
            return figures.f_bavail * figures.f_frsize
    return None
