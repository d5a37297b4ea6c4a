"""What only a file system does to a folder."""

import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from contracts.errors import (
    AccessRefused,
    DocumentChanged,
    DocumentGone,
    SourceError,
    SourceUnavailable,
)
from contracts.sources import SourceConfig
from sluice.state import StateFolder
from sources import folder
from sources.content import ContentFile
from sources.folder import KIND, FolderSource

CONTENT = b"content"


def opened(root: Path) -> FolderSource:
    root.mkdir(exist_ok=True)
    return KIND.open(KIND.validate(SourceConfig(source_id="a", kind="folder", container=str(root))))


async def keys(source: FolderSource) -> list[str]:
    async with aclosing(source.list_pages()) as pages:
        return [stat.doc_key async for page in pages for stat in page]


async def test_links_and_special_files_are_no_documents(tmp_path: Path) -> None:
    """Neither a link, in or out of the root, nor a pipe is listed or looked at."""
    root = tmp_path / "root"
    source = opened(root)
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (root / "real.txt").write_bytes(CONTENT)
    (root / "file-link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "inner-link.txt").symlink_to(root / "real.txt")
    (root / "folder-link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.txt")
    assert await keys(source) == ["real.txt"]
    for key in ("file-link.txt", "inner-link.txt", "folder-link/secret.txt", "pipe.txt"):
        assert await source.stat(key) is None


@pytest.mark.parametrize("key", ["../secret.txt", "below/../../secret.txt", "/etc/hostname"])
async def test_look_stays_below_the_root(tmp_path: Path, key: str) -> None:
    """A key that leads out of the root names no document."""
    source = opened(tmp_path / "root")
    (tmp_path / "root" / "below").mkdir()
    (tmp_path / "secret.txt").write_bytes(b"secret")
    assert await source.stat(key) is None


async def test_fetch_refuses_a_link(tmp_path: Path) -> None:
    """A file that was replaced by a link between look and fetch isn't followed."""
    source = opened(tmp_path / "root")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "root" / "page.txt").symlink_to(tmp_path / "secret.txt")
    into = tmp_path / "content"
    with pytest.raises(SourceError):
        await source.fetch("page.txt", into, source_version=None, max_bytes=100)
    assert not into.exists()


@pytest.mark.parametrize("name", ["a.part", "a.tmp", ".a.swp", "a.txt~"])
async def test_unfinished_files_are_no_documents(tmp_path: Path, name: str) -> None:
    """What editors and downloads leave half written is neither listed nor looked at."""
    source = opened(tmp_path / "root")
    (tmp_path / "root" / name).write_bytes(CONTENT)
    assert await keys(source) == []
    assert await source.stat(name) is None


async def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    """A name that isn't UTF-8 is skipped, and those beside it are listed."""
    source = opened(tmp_path / "root")
    for name in (b"latin-\xe9.txt", b"z.txt", b"folder-\xff/inside.txt"):
        path = tmp_path / "root" / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(CONTENT)
    assert await keys(source) == ["z.txt"]


async def test_file_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows while it is copied is a retryable error, never half a document."""
    source = opened(tmp_path / "root")
    path = tmp_path / "root" / "growing.log"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(folder, "ContentFile", _appending(path))
    with pytest.raises(DocumentChanged, match="still being written") as caught:
        await source.fetch("growing.log", tmp_path / "content", source_version=None, max_bytes=100)
    assert caught.value.retryable


def _appending(path: Path) -> type[ContentFile]:
    """Content whose every write meets somebody else's append."""

    class Appending(ContentFile):
        def write(self, data: bytes) -> None:
            super().write(data)
            if path.stat().st_size == len(CONTENT):
                with path.open("ab") as file:
                    file.write(b" and more")

    return Appending


async def test_vanished_root_deletes_nothing(tmp_path: Path) -> None:
    """While the root is gone, looks and fetches say so: nothing is known to be deleted."""
    source = opened(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    for attempt in (
        source.check,
        lambda: source.stat("page.md"),
        lambda: source.fetch("page.md", tmp_path / "x", source_version=None, max_bytes=9),
    ):
        with pytest.raises(SourceUnavailable, match="isn't there: mount it") as caught:
            await attempt()
        assert caught.value.retryable


async def test_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that this user may not read fails the listing with its path: its documents are not
    taken for deleted."""
    source = opened(tmp_path / "root")
    (tmp_path / "root" / "private").mkdir()
    monkeypatch.setattr(os, "scandir", _refusing("private"))
    with pytest.raises(AccessRefused, match=r"private can't be read"):
        await keys(source)


def _refusing(name: str) -> Callable[[Path], object]:
    """`os.scandir` of somebody who isn't root; root may read everything."""
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    return scandir


async def test_address_is_a_file_url(tmp_path: Path) -> None:
    """The address for a person is a file URL with every odd character escaped."""
    source = opened(tmp_path / "root")
    (tmp_path / "root" / "a b%.md").write_bytes(CONTENT)
    document = await source.fetch("a b%.md", tmp_path / "x", source_version=None, max_bytes=100)
    assert document.uri.startswith("file:///")
    assert document.uri.endswith("/root/a%20b%25.md")


@pytest.mark.parametrize(
    "narrowed",
    [{"exclude": ("private/*",)}, {"exclude": ("*vate/*",)}, {"prefix": "pub"}],
)
async def test_folder_without_documents_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrowed: dict[str, str | tuple[str, ...]]
) -> None:
    """A folder that prefix or patterns leave out may be unreadable."""
    root = tmp_path / "root"
    config = opened(root)._config.model_copy(update=narrowed)
    for name in ("private", "public"):
        (root / name).mkdir()
        (root / name / "page.md").write_bytes(CONTENT)
    monkeypatch.setattr(os, "scandir", _refusing("private"))
    assert await keys(KIND.open(config)) == ["public/page.md"]


@pytest.mark.parametrize("inner", ["private/*.txt", "private", "*.md"])
async def test_folder_with_documents_is_entered(tmp_path: Path, inner: str) -> None:
    """A pattern that leaves out some of a folder, or only its name, doesn't leave out the rest."""
    root = tmp_path / "root"
    config = opened(root)._config.model_copy(update={"exclude": (inner,)})
    (root / "private").mkdir()
    for name in ("page.rst", "page.txt", "page.md"):
        (root / "private" / name).write_bytes(CONTENT)
    assert "private/page.rst" in await keys(KIND.open(config))


@pytest.mark.parametrize(
    "key",
    ["../secret.txt", "below/../../secret.txt", "link/secret.txt", "below", "page.md/x", "pipe"],
)
async def test_fetch_stays_below_the_root(tmp_path: Path, key: str) -> None:
    """A key that leads out of the root, or to no file, is gone for a fetch: nothing is read."""
    root = tmp_path / "root"
    source = opened(root)
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (root / "below").mkdir()
    (root / "page.md").write_bytes(CONTENT)
    (root / "link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    with pytest.raises(DocumentGone):
        await source.fetch(key, tmp_path / "x", source_version=None, max_bytes=100)
    assert not (tmp_path / "x").exists()


async def test_failing_disk_is_retryable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input or output error of the disk is a source that doesn't answer, nothing deleted."""

    def scandir(path: Path) -> object:
        if path.name == "broken":
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    real = os.scandir
    source = opened(tmp_path / "root")
    (tmp_path / "root" / "broken").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(SourceUnavailable, match="Input/output error"):
        await keys(source)


@pytest.mark.parametrize("key", ["./below/a.md", "below//a.md", "below/./a.md", "below/a.md/"])
async def test_another_spelling_is_no_second_document(tmp_path: Path, key: str) -> None:
    """Only the key that a listing gives names the document, for looks and fetches alike."""
    source = opened(tmp_path / "root")
    (tmp_path / "root" / "below").mkdir()
    (tmp_path / "root" / "below" / "a.md").write_bytes(CONTENT)
    assert await keys(source) == ["below/a.md"]
    assert await source.stat(key) is None
    with pytest.raises(DocumentGone):
        await source.fetch(key, tmp_path / "x", source_version=None, max_bytes=100)


async def test_folder_that_goes_while_it_is_listed(tmp_path: Path) -> None:
    """A root that vanishes after the first page fails the listing: the rest isn't deleted."""
    root = tmp_path / "root"
    source = opened(root)
    for number in range(folder.PAGE + 1):
        (root / f"{number:05}.md").touch()
    async with aclosing(source.list_pages()) as pages:
        assert len(await anext(pages)) == folder.PAGE
        root.rename(tmp_path / "elsewhere")
        with pytest.raises(SourceUnavailable, match="isn't there: mount it"):
            assert [page async for page in pages] == []


async def test_what_nobody_means_as_a_document_is_left_out(tmp_path: Path) -> None:
    """Hidden names and the state folder of a stack are neither listed nor looked at."""
    root = tmp_path / "root"
    source = opened(root)
    StateFolder(root / "state").prepare()
    for name in ("page.md", ".hidden.md", ".git/config.md", "state/objects/x.md", "sub/.x/y.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
    assert await keys(source) == ["page.md"]
    for name in (".hidden.md", ".git/config.md", "state/objects/x.md", "sub/.x/y.md"):
        assert await source.stat(name) is None, name
