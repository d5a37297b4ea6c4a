"""One suite for every source kind: what plan and fetch rely on."""

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import aiobotocore.session
import pytest

from contracts.errors import (
    DocumentChanged,
    DocumentGone,
    OversizedDocument,
    SluiceError,
    SourceError,
    SourceUnavailable,
)
from contracts.ports import Source
from contracts.sources import DocumentStat, SourceConfig, StagedDocument
from sources.folder import KIND as FOLDER
from sources.memory import MemorySource
from sources.s3 import KIND as S3

START_BOUND = 60.0  # seconds
PLENTY = 1_000_000  # bytes
REGION = "us-east-1"
# Names that encodings, shells and URL parsers like to change. The two cafés are NFC and NFD.
ODD_KEYS = (
    " leading and trailing ",
    "100% sure.txt",
    "a+b c.txt",
    "a%20b.txt",
    "caf\u00e9.txt",
    "cafe\u0301.txt",
    "deep/er/than/most.md",
    'it\'s "quoted" & <tagged>.html',
    "q?x=1#frag;v.txt",
    "snow\u2603 \U0001f6a2.md",
    "tab\there.txt",
)

_buckets = count(1)


class Place(Protocol):
    """Where a source's documents are: what somebody else does to it."""

    async def put(self, key: str, content: bytes) -> None: ...

    async def delete(self, key: str) -> None: ...

    async def vanish(self) -> None: ...

    def open(
        self, *, prefix: str = "", include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
    ) -> Source: ...

    async def close(self) -> None: ...


class MemoryPlace:
    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.opened: list[MemorySource] = []

    async def put(self, key: str, content: bytes) -> None:
        self.documents[key] = content

    async def delete(self, key: str) -> None:
        del self.documents[key]

    async def vanish(self) -> None:
        for source in self.opened:
            source.failures[""] = SourceUnavailable("it is gone")

    def open(
        self, *, prefix: str = "", include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
    ) -> Source:
        config = SourceConfig(
            source_id="a",
            kind="memory",
            container="memory",
            prefix=prefix,
            include=include,
            exclude=exclude,
        )
        self.opened.append(MemorySource(config, self.documents))
        return self.opened[-1]

    async def close(self) -> None:
        """Nothing is held open."""


class FolderPlace:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    async def put(self, key: str, content: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and moved over it, as careful writers do: no clock can be too coarse.
        draft = path.with_name(".being-written.tmp")
        draft.write_bytes(content)
        draft.replace(path)

    async def delete(self, key: str) -> None:
        (self.root / key).unlink()

    async def vanish(self) -> None:
        shutil.rmtree(self.root)

    def open(
        self, *, prefix: str = "", include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
    ) -> Source:
        config = SourceConfig(
            source_id="a",
            kind="folder",
            container=str(self.root),
            prefix=prefix,
            include=include,
            exclude=exclude,
        )
        return FOLDER.open(FOLDER.validate(config))

    async def close(self) -> None:
        """Nothing is held open."""


class S3Place:
    def __init__(self, endpoint: str, bucket: str, client: Any) -> None:
        self.endpoint = endpoint
        self.bucket = bucket
        self.client = client  # made at run time, without types

    async def put(self, key: str, content: bytes) -> None:
        await self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    async def delete(self, key: str) -> None:
        await self.client.delete_object(Bucket=self.bucket, Key=key)

    async def vanish(self) -> None:
        listing = await self.client.list_objects_v2(Bucket=self.bucket)
        for entry in listing.get("Contents", []):
            await self.delete(entry["Key"])
        await self.client.delete_bucket(Bucket=self.bucket)

    def open(
        self, *, prefix: str = "", include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
    ) -> Source:
        config = SourceConfig(
            source_id="a",
            kind="s3",
            container=self.bucket,
            prefix=prefix,
            options={"endpoint_url": self.endpoint},
            include=include,
            exclude=exclude,
        )
        return S3.open(S3.validate(config))

    async def close(self) -> None:
        """The client is the fixture's."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    log = tmp_path_factory.mktemp("s3") / "server.log"
    bind = f"127.0.0.1:{address[1]}"
    command = [sys.executable, "-m", "hypercorn", "ministack.app:app", "--bind", bind]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as server,
    ):
        try:
            _wait_until_open(address, server, log)
            yield f"http://{bind}"
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(5)
            server.kill()


def _wait_until_open(address: tuple[str, int], server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_BOUND
    while server.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(address, timeout=1):
            return
        time.sleep(0.05)
    pytest.fail(f"the S3 server did not start: {log.read_text()}")


@pytest.fixture(params=["memory", "folder", "s3"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    if request.param == "memory":
        yield MemoryPlace()
    elif request.param == "folder":
        yield FolderPlace(tmp_path / "root")
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        server = request.getfixturevalue("endpoint")
        session = aiobotocore.session.get_session()
        async with session.create_client("s3", endpoint_url=server, region_name=REGION) as client:
            bucket = f"bucket-{os.getpid()}-{next(_buckets)}"
            await client.create_bucket(Bucket=bucket)
            yield S3Place(server, bucket, client)


@pytest.fixture
async def opened(place: Place) -> AsyncIterator[Source]:
    source = place.open()
    yield source
    await source.close()


async def listed(source: Source) -> list[DocumentStat]:
    async with aclosing(source.list_pages()) as pages:
        return [stat async for page in pages for stat in page]


async def keys(source: Source) -> list[str]:
    return [stat.doc_key for stat in await listed(source)]


async def fetch(
    source: Source, key: str, into: Path, version: str | None = None, max_bytes: int = PLENTY
) -> StagedDocument:
    return await source.fetch(key, into, source_version=version, max_bytes=max_bytes)


async def looked_at(source: Source, key: str) -> DocumentStat:
    stat = await source.stat(key)
    assert stat is not None
    return stat


async def test_empty_place_lists_nothing(opened: Source) -> None:
    """A source that is there and empty passes its check and lists no document."""
    await opened.check()
    assert await listed(opened) == []


async def test_lists_in_byte_order(place: Place, opened: Source) -> None:
    """Keys come ascending by their UTF-8 bytes, also where a folder's name starts a file's."""
    names = ["a/b", "a.txt", "a0", "a", "Z", "\uffee", "\U0001f6a2", "a-b/c", "b"]
    if not isinstance(place, S3Place | MemoryPlace):
        names.remove("a")  # a folder can't also be a file
    for name in names:
        await place.put(name, b"x")
    assert await keys(opened) == sorted(names, key=str.encode)


async def test_pages_are_bounded(place: Place, opened: Source) -> None:
    """More than a thousand documents come in pages of at most a thousand, each exactly once."""
    names = [f"{number:05}.txt" for number in range(1_003)]
    for start in range(0, len(names), 50):
        await asyncio.gather(*(place.put(name, b"x") for name in names[start : start + 50]))
    async with aclosing(opened.list_pages()) as pages:
        sizes = [[stat.doc_key for stat in page] async for page in pages]
    assert [name for page in sizes for name in page] == names
    assert len(sizes) > 1
    assert max(map(len, sizes)) <= 1_000


async def test_stat_equals_list(place: Place, opened: Source) -> None:
    """A look gives the version and size that the listing gives."""
    await place.put("one.txt", b"one")
    await place.put("folder/two.txt", b"second")
    stats = await listed(opened)
    assert len(stats) == 2
    for stat in stats:
        look = await looked_at(opened, stat.doc_key)
        assert (look.source_version, look.size) == (stat.source_version, stat.size)


@pytest.mark.parametrize("key", ODD_KEYS)
async def test_odd_keys_survive(place: Place, opened: Source, tmp_path: Path, key: str) -> None:
    """A key comes back from listing, look and fetch exactly as it was written."""
    await place.put(key, key.encode())
    assert await keys(opened) == [key]
    assert (await looked_at(opened, key)).doc_key == key
    into = tmp_path / "content"
    document = await fetch(opened, key, into)
    assert document.doc_key == key
    assert into.read_bytes() == key.encode()


async def test_normal_forms_are_two_documents(place: Place, opened: Source, tmp_path: Path) -> None:
    """Two keys that differ only in their Unicode normal form are two documents."""
    await place.put("caf\u00e9", b"composed")
    await place.put("cafe\u0301", b"decomposed")
    assert set(await keys(opened)) == {"caf\u00e9", "cafe\u0301"}
    await fetch(opened, "cafe\u0301", tmp_path / "content")
    assert (tmp_path / "content").read_bytes() == b"decomposed"


async def test_fetch_says_what_it_wrote(place: Place, opened: Source, tmp_path: Path) -> None:
    """A fetch names hash, size and version of exactly the bytes in the file."""
    content = bytes(range(256)) * 5_000
    await place.put("large.bin", content)
    document = await fetch(opened, "large.bin", tmp_path / "content", max_bytes=len(content))
    assert (tmp_path / "content").read_bytes() == content
    assert document.content_hash == hashlib.sha256(content).hexdigest()
    assert document.size == len(content)
    assert document.source_version == (await looked_at(opened, "large.bin")).source_version


async def test_empty_document_is_a_document(place: Place, opened: Source, tmp_path: Path) -> None:
    """A document without content is listed, looked at and fetched like any other."""
    await place.put("empty.md", b"")
    assert await keys(opened) == ["empty.md"]
    assert (await looked_at(opened, "empty.md")).size == 0
    assert (await fetch(opened, "empty.md", tmp_path / "content")).size == 0


async def test_change_is_another_version(place: Place, opened: Source) -> None:
    """Overwriting with other content changes the version, in listing and look alike."""
    await place.put("page.md", b"before")
    before = await looked_at(opened, "page.md")
    await place.put("page.md", b"after!")
    after = await looked_at(opened, "page.md")
    assert after.source_version != before.source_version
    assert [stat.source_version for stat in await listed(opened)] == [after.source_version]


async def test_fetch_takes_the_wanted_version(place: Place, opened: Source, tmp_path: Path) -> None:
    """The version that is there can be wanted, and is what comes."""
    await place.put("page.md", b"content")
    version = (await looked_at(opened, "page.md")).source_version
    document = await fetch(opened, "page.md", tmp_path / "content", version)
    assert document.source_version == version


async def test_overwritten_version_is_refused(place: Place, opened: Source, tmp_path: Path) -> None:
    """A wanted version that was overwritten is a retryable error, never the newer content."""
    await place.put("page.md", b"before")
    version = (await looked_at(opened, "page.md")).source_version
    await place.put("page.md", b"after!")
    with pytest.raises(DocumentChanged) as caught:
        await fetch(opened, "page.md", tmp_path / "content", version)
    assert caught.value.retryable


@pytest.mark.parametrize("version", [None, "some-version"])
async def test_missing_document(opened: Source, tmp_path: Path, version: str | None) -> None:
    """What isn't there has no look, and its fetch says that it is gone for good."""
    assert await opened.stat("folder/nothing.md") is None
    with pytest.raises(DocumentGone) as caught:
        await fetch(opened, "folder/nothing.md", tmp_path / "content", version)
    assert not caught.value.retryable


async def test_deleted_document(place: Place, opened: Source, tmp_path: Path) -> None:
    """After a deletion the document is in no listing and no look, and others stay."""
    await place.put("kept.md", b"kept")
    await place.put("lost.md", b"lost")
    await place.delete("lost.md")
    assert await keys(opened) == ["kept.md"]
    assert await opened.stat("lost.md") is None
    with pytest.raises(DocumentGone):
        await fetch(opened, "lost.md", tmp_path / "content")


async def test_limit_is_exact(place: Place, opened: Source, tmp_path: Path) -> None:
    """Content of exactly the limit is taken, and one byte more is refused."""
    await place.put("page.md", b"12345")
    assert (await fetch(opened, "page.md", tmp_path / "content", max_bytes=5)).size == 5
    with pytest.raises(OversizedDocument, match=r"page\.md has more than 4 bytes"):
        await fetch(opened, "page.md", tmp_path / "content", max_bytes=4)


@pytest.mark.parametrize(
    "marker", ["_SUCCESS", "_committed_17", "_started_17", ".DS_Store", "~$report.docx"]
)
async def test_markers_are_no_documents(place: Place, opened: Source, marker: str) -> None:
    """Marks that tools leave are skipped by listing and look alike, at any depth."""
    for name in (marker, f"below/{marker}", "below/real.txt"):
        await place.put(name, b"x")
    assert await keys(opened) == ["below/real.txt"]
    assert await opened.stat(marker) is None
    assert await opened.stat(f"below/{marker}") is None


async def test_prefix_and_patterns_select(place: Place) -> None:
    """Listing and look both obey prefix, include and exclude."""
    names = ["docs/a.md", "docs/b.txt", "docs/drafts/c.md", "docs-old/d.md", "e.md"]
    for name in names:
        await place.put(name, b"x")
    source = place.open(prefix="docs/", include=("*.md",), exclude=("*/drafts/*",))
    try:
        assert await keys(source) == ["docs/a.md"]
        looks = {name: await source.stat(name) for name in names}
        assert [name for name, look in looks.items() if look is not None] == ["docs/a.md"]
    finally:
        await source.close()


async def test_vanished_place_is_never_an_empty_listing(place: Place, opened: Source) -> None:
    """When bucket or root is gone, a listing fails instead of ending without documents."""
    await place.put("page.md", b"x")
    assert await keys(opened) == ["page.md"]
    await place.vanish()
    with pytest.raises(SourceError):
        await listed(opened)


async def test_vanished_place_deletes_nothing(place: Place, opened: Source, tmp_path: Path) -> None:
    """When bucket or root is gone, neither a look nor a fetch takes its documents for deleted."""
    await place.put("page.md", b"x")
    await looked_at(opened, "page.md")
    await place.vanish()
    with pytest.raises(SluiceError):
        await opened.stat("page.md")
    if isinstance(place, MemoryPlace):
        return  # its fetches fail by key
    with pytest.raises(SluiceError) as caught:
        await fetch(opened, "page.md", tmp_path / "content")
    assert not isinstance(caught.value, DocumentGone)


@pytest.mark.parametrize("key", ["below/private.md", "x" * 300])
async def test_fetch_selects_as_looks_do(place: Place, tmp_path: Path, key: str) -> None:
    """What a look doesn't show is gone for a fetch too, or was never a possible name."""
    await place.put("page.md", b"x")
    source = place.open()
    try:
        assert await source.stat(key) is None
        with pytest.raises(DocumentGone):
            await fetch(source, key, tmp_path / "content")
    finally:
        await source.close()
