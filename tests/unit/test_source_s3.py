"""What only a server does to a bucket: refusals, silence, and answers that break off."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from contracts.errors import (
    AccessRefused,
    ConfigurationError,
    NotReachable,
    SluiceError,
    SourceUnavailable,
)
from contracts.sources import SourceConfig
from sources.s3 import KIND, S3Source


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[S3Source]:
    """A source whose server gives every request the same answer and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    source = opened(server.sockets[0].getsockname()[1])
    try:
        yield source
    finally:
        await source.close()
        server.close()
        await server.wait_closed()


def opened(port: int, bucket: str = "bucket-a") -> S3Source:
    options = {"endpoint_url": f"http://127.0.0.1:{port}"}
    config = SourceConfig(source_id="a", kind="s3", container=bucket, options=options)
    return KIND.open(KIND.validate(config))


def answer(status: str, code: str = "", headers: str = "") -> bytes:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>" if code else ""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return (head + body).encode()


async def failure(source: S3Source, into: Path) -> SluiceError:
    """How the fetch of a document fails."""
    with pytest.raises(SluiceError) as caught:
        await source.fetch("page.md", into, source_version=None, max_bytes=10_000)
    return caught.value


async def test_missing_bucket_says_what_to_do() -> None:
    """A bucket that doesn't exist is a wrong setting, named with its server."""
    async with answering(answer("404 Not Found")) as source:
        with pytest.raises(
            ConfigurationError, match=r"bucket-a doesn't exist at http://127.*create"
        ):
            await source.check()


async def test_refused_bucket() -> None:
    """A server that refuses our rights is not retried."""
    async with answering(answer("403 Forbidden")) as source:
        with pytest.raises(AccessRefused, match="correct the credentials") as caught:
            await source.check()
    assert not caught.value.retryable


async def test_nobody_listens() -> None:
    """A refused connection is retryable, and the sentence names the endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    source = opened(port)
    try:
        with pytest.raises(NotReachable, match=f"127.0.0.1:{port} doesn't answer") as caught:
            await source.check()
    finally:
        await source.close()
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("status", "code"),
    [("503 Slow Down", "SlowDown"), ("500 Internal Server Error", "InternalError")],
)
async def test_server_in_trouble(status: str, code: str, tmp_path: Path) -> None:
    """Throttling and server errors are retryable."""
    async with answering(answer(status, code)) as source:
        error = await failure(source, tmp_path / "x")
    assert isinstance(error, SourceUnavailable)
    assert error.retryable


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
async def test_refused_document(code: str, tmp_path: Path) -> None:
    """A document that we may not read fails for good, with the server's word for it."""
    async with answering(answer("403 Forbidden", code)) as source:
        error = await failure(source, tmp_path / "x")
    assert isinstance(error, AccessRefused)
    assert code in str(error)


async def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the sentence says which variables to set."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with answering(answer("200 OK")) as source:
        with pytest.raises(ConfigurationError, match="set AWS_ACCESS_KEY_ID"):
            await source.check()


async def test_looks_at_once_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many looks begin together, one source makes one client."""
    made = 0
    real = S3Source._opened

    async def counting(self: S3Source) -> object:
        nonlocal made
        made += self._client is None
        return await real(self)

    monkeypatch.setattr(S3Source, "_opened", counting)
    async with answering(answer("404 Not Found")) as source:
        await asyncio.gather(*(source.check() for _ in range(8)), return_exceptions=True)
    assert made == 1


async def test_closing_twice_is_harmless() -> None:
    """A source that never connected, or is closed already, closes without complaint."""
    source = opened(9)
    await source.close()
    await source.close()


async def test_content_that_breaks_off(tmp_path: Path) -> None:
    """A connection that ends inside the content is retryable, never half a document."""
    head = b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "e"\r\n\r\nonly this'
    async with answering(head) as source:
        error = await failure(source, tmp_path / "x")
    assert isinstance(error, SourceUnavailable)
    assert error.retryable


async def test_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that isn't there is a wrong setting, named."""
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    source = opened(9)
    with pytest.raises(ConfigurationError, match=r"\(nobody\) could not be found: correct"):
        await source.check()
    await source.close()


async def test_impossible_bucket_name() -> None:
    """A name that no bucket can have is a wrong setting, not a server that doesn't answer."""
    source = opened(9, bucket="Not a bucket!")
    with pytest.raises(ConfigurationError, match="Invalid bucket name"):
        await source.check()
    await source.close()


async def test_folder_objects_are_no_documents() -> None:
    """An empty object whose key ends in a slash stands for a folder; one with content, or an empty
    one without a slash, is a document (opensearch-project/data-prepper#3727)."""
    sizes = {"docs/": 0, "docs/empty.md": 0, "odd/": 5}
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>e</ETag></Contents>"
        for key, size in sizes.items()
    )
    body = f"<ListBucketResult>{entries}</ListBucketResult>"
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    async with answering((head + body).encode()) as source, aclosing(source.list_pages()) as pages:
        assert [stat.doc_key async for page in pages for stat in page] == ["docs/empty.md", "odd/"]


async def test_a_look_at_a_folder_object_shows_nothing() -> None:
    """What a listing leaves out a look leaves out too."""
    headers = 'ETag: "e"\r\n'
    async with answering(answer("200 OK", headers=headers)) as source:
        assert await source.stat("docs/") is None
        assert await source.stat("docs/empty.md") is not None
