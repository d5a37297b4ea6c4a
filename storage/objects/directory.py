"""The object store in a directory: atomic by rename, safe against names that mean something."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from contracts.errors import ObjectMissing, StoreUnavailable
from contracts.ports import ObjectInfo, ObjectRange

Result = TypeVar("Result")

# Percent-encoded is whatever a file system or a shell could misread. A leading dot is encoded too,
# so that neither `..` nor a temporary file can be named from outside.
SAFE: Final = "-_.+@=,"
TEMPORARY: Final = ".tmp-"
TRIES: Final = 100  # to put a file into a folder that others empty
LONGEST_NAME = 200  # bytes of one encoded name; file systems take 255


def _encoded(name: str) -> str:
    """One name of a key as one file name. A longer one is cut into nested folders marked `%_`."""
    text = quote(name, safe=SAFE)
    if not text:
        return "%-"
    if text.startswith("."):
        text = f"%2E{text[1:]}"
    pieces = [text[n : n + LONGEST_NAME] for n in range(0, len(text), LONGEST_NAME)]
    return "%_/".join(pieces)


def _decoded(path: str) -> str:
    names = path.replace("%_/", "").split("/")
    return "/".join("" if name == "%-" else unquote(name) for name in names)


def _temporary(folder: Path) -> tuple[int, Path]:
    """An open temporary file in the folder, which is made where it is missing."""
    tries = 0
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
        except (FileNotFoundError, FileExistsError):
            # A deletion may take the empty folder away until there is a file in it.
            tries += 1
            if tries == TRIES:
                raise
        else:
            return handle, Path(name)


class DirectoryObjects:
    """Objects as files below a root; an object is there whole or not at all, also after kill -9."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
        """Store by rename (or by link, which fails where the name is taken)."""
        return await self._do(lambda: self._put(self._path(key), data, if_absent=if_absent))

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """The object, or a byte range of it."""
        return await self._do(lambda: self._get(key, offset, length))

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """Several at once, in their order; None where there is no object."""
        return await self._do(lambda: [self._get_if_there(*wanted) for wanted in ranges])

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Objects whose key starts with the prefix, ascending."""
        for info in await self._do(lambda: self._list(prefix)):
            yield info

    async def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of the keys."""
        if keys:
            await self._do(lambda: self._delete(keys))

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*(_encoded(name) for name in key.split("/")))

    async def _do(self, work: Callable[[], Result]) -> Result:
        def translated() -> Result:
            with self._translated():
                return work()

        return await asyncio.to_thread(translated)

    def _put(self, path: Path, data: bytes, *, if_absent: bool) -> bool:
        handle, temporary = _temporary(path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if not if_absent:
                temporary.replace(path)
                return True
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            return True
        finally:
            temporary.unlink(missing_ok=True)

    def _get(self, key: str, offset: int, length: int | None) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                file.seek(offset)
                return file.read(-1 if length is None else length)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise ObjectMissing(f"there is no object {key}") from error

    def _get_if_there(self, key: str, offset: int, length: int | None) -> bytes | None:
        try:
            return self._get(key, offset, length)
        except ObjectMissing:
            return None

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        """Walks only the deepest folder that the prefix names."""
        folder = self._path(prefix.rsplit("/", 1)[0]) if "/" in prefix else self._root
        found = []
        for parent, _, names in os.walk(folder):
            for name in names:
                if name.startswith(TEMPORARY):
                    continue
                path = Path(parent) / name
                key = _decoded(path.relative_to(self._root).as_posix())
                if not key.startswith(prefix):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
                    found.append(ObjectInfo(key, status.st_size, modified_at))
        return sorted(found)

    def _delete(self, keys: Collection[str]) -> None:
        for key in keys:
            path = self._path(key)
            path.unlink(missing_ok=True)
            # An empty folder is of no use; one that another writer fills just now stays.
            for folder in path.parents:
                if folder == self._root:
                    break
                try:
                    folder.rmdir()
                except OSError:
                    break

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"the object store at {self._root} failed ({error.strerror}): make room, or "
                "correct its rights"
            ) from error
