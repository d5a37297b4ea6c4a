"""The kind `folder`: a directory tree on this machine."""

import asyncio
import errno
import mimetypes
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Final, TypeVar

import structlog

from contracts.errors import (
    AccessRefused,
    ConfigurationError,
    DocumentChanged,
    DocumentGone,
    SourceUnavailable,
)
from contracts.keys import STATE_MARK, is_hidden, is_unfinished
from contracts.sources import DocumentStat, SourceConfig, StagedDocument
from sources.content import ContentFile, check_size
from sources.selection import check_options, may_hold, selects

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

PAGE: Final = 1_000  # documents
BLOCK: Final = 1024 * 1024  # bytes read at once
OPTIONS: Final = frozenset({"watch"})  # watch=no: nobody watches the folder, crawls find changes


class FolderSource:
    """A folder, opened. Left out are symbolic links, names that begin with a dot, names that aren't
    UTF-8, and state folders of Sluice."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self._root = Path(config.container)

    async def check(self) -> None:
        """The root is there and can be read."""
        await _in_thread(self._check_root)

    def _check_root(self) -> None:
        try:
            with os.scandir(self._root):
                return
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SourceUnavailable(
                f"the folder {self._root} isn't there: mount it, or correct --root"
            ) from error
        except PermissionError as error:
            raise AccessRefused(
                f"the folder {self._root} can't be read: give this user the right to"
            ) from error

    async def list_pages(self) -> AsyncGenerator[list[DocumentStat], None]:
        """Every document, ascending by the bytes of its path; a root that vanished is an error,
        never an empty listing."""
        await self.check()
        walk = self._walk()
        while page := await _in_thread(lambda: self._page(walk)):
            yield page
        await self.check()

    def _page(self, walk: Iterator[DocumentStat]) -> list[DocumentStat]:
        page = []
        for stat in walk:
            page.append(stat)
            if len(page) == PAGE:
                break
        return page

    def _walk(self, below: str = "") -> Iterator[DocumentStat]:
        """Depth first. A folder sorts as its name with a slash, as its files' paths do."""
        try:
            with os.scandir(self._root / below) as found:
                entries = [(self._sort_key(entry), entry) for entry in found]
        except (FileNotFoundError, NotADirectoryError):
            return  # deleted while we walk; its documents are looked at one by one
        except PermissionError as error:
            raise AccessRefused(
                f"the folder {self._root / below} can't be read: give this user the right to, "
                "or exclude it"
            ) from error
        except OSError as error:
            raise _unavailable(self._root / below, error) from error
        if any(entry.name == STATE_MARK for _, entry in entries):
            return
        entries.sort(key=itemgetter(0))
        for _, entry in entries:
            key = f"{below}{entry.name}"
            if entry.is_symlink() or is_hidden(entry.name) or not _is_text(key):
                continue
            if entry.is_dir():
                if may_hold(self._config, f"{key}/"):
                    yield from self._walk(f"{key}/")
            elif self._selects(key) and (stat := self._stat(key)) is not None:
                yield stat

    def _sort_key(self, entry: os.DirEntry[str]) -> bytes:
        name = f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
        return os.fsencode(name)

    def _selects(self, key: str) -> bool:
        return selects(self._config, key) and not is_unfinished(key) and not is_hidden(key)

    async def stat(self, doc_key: str) -> DocumentStat | None:
        """What is there now. While the root is gone nothing is known to be deleted."""
        stat = await _in_thread(lambda: self._stat(doc_key) if self._is_ours(doc_key) else None)
        if stat is None:
            await self.check()
        return stat

    def _is_ours(self, key: str) -> bool:
        """A selected path below the root, spelt as listings spell it, that leads through no link,
        no state folder and no `..`."""
        if not self._selects(key) or key.startswith("/") or ".." in key.split("/"):
            return False
        if str(PurePosixPath(key)) != key:
            return False  # `./a`, `a//b` and `a/` would be documents beside `a` and `a/b`
        path = self._root
        for name in key.split("/")[:-1]:
            path /= name
            if path.is_symlink() or (path / STATE_MARK).exists():
                return False
        return True

    def _stat(self, key: str) -> DocumentStat | None:
        try:
            status = os.lstat(f"{self._root}/{key}")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except PermissionError as error:
            raise AccessRefused(
                f"{self._root / key} can't be looked at: give this user the right to"
            ) from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None
            raise _unavailable(self._root / key, error) from error
        return _document_stat(key, status) if S_ISREG(status.st_mode) else None

    async def fetch(
        self, doc_key: str, into: Path, *, source_version: str | None, max_bytes: int
    ) -> StagedDocument:
        """Copy the file; one that changes meanwhile is still being written."""
        return await _in_thread(lambda: self._fetch(doc_key, into, source_version, max_bytes))

    def _fetch(self, key: str, into: Path, wanted: str | None, max_bytes: int) -> StagedDocument:
        path = self._root / key
        # Looked at first: `_is_ours` keeps the key below the root, and a pipe would block the open.
        if not self._is_ours(key) or self._stat(key) is None:
            self._check_root()
            raise DocumentGone(f"{path} isn't there any more")
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            self._check_root()
            raise DocumentGone(f"{path} isn't there any more") from error
        except PermissionError as error:
            raise AccessRefused(f"{path} can't be read: give this user the right to") from error
        except OSError as error:
            raise _unavailable(path, error) from error
        with os.fdopen(handle, "rb") as file, ContentFile(into, key, max_bytes) as content:
            before = _document_stat(key, os.fstat(file.fileno()))
            if wanted is not None and before.source_version != wanted:
                raise DocumentChanged(f"{path} has changed since this run first fetched it")
            check_size(key, before.size, max_bytes)
            while block := file.read(BLOCK):
                content.write(block)
            after = _document_stat(key, os.fstat(file.fileno()))
        if after != before or content.size != before.size:
            raise DocumentChanged(f"{path} is still being written")
        return StagedDocument(
            doc_key=key,
            source_version=before.source_version,
            content_hash=content.content_hash,
            size=content.size,
            uri=path.as_uri(),
            media_type=before.media_type,
            modified_at=before.modified_at,
        )

    async def close(self) -> None:
        """Nothing is held open."""


class FolderKind:
    """Validates and opens folders."""

    def validate(self, config: SourceConfig) -> SourceConfig:
        """The root as an absolute path without links."""
        check_options(config, OPTIONS)
        if not config.container:
            raise ConfigurationError("a source of kind folder needs --root DIR")
        root = Path(config.container).expanduser().resolve()
        if not root.is_dir():
            raise ConfigurationError(f"{root} is no folder: correct --root")
        if not os.access(root, os.R_OK | os.X_OK):
            raise ConfigurationError(f"{root} can't be read: give this user the right to")
        return config.model_copy(update={"container": str(root)})

    def open(self, config: SourceConfig) -> FolderSource:
        """Open a folder."""
        return FolderSource(config)


def _document_stat(key: str, status: os.stat_result) -> DocumentStat:
    return DocumentStat(
        doc_key=key,
        source_version=f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}",
        size=status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
        media_type=mimetypes.guess_type(key)[0],
    )


def _unavailable(path: Path, error: OSError) -> SourceUnavailable:
    return SourceUnavailable(f"{path} can't be read now: {error.strerror}")


def _is_text(key: str) -> bool:
    """Whether the name is UTF-8; keys travel as text."""
    try:
        key.encode()
    except UnicodeEncodeError:
        log.warning("a name that isn't UTF-8 is left out", name=os.fsencode(key).hex())
        return False
    return True


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await asyncio.to_thread(work)


KIND = FolderKind()
