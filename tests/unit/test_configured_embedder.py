"""The embedder that the settings name: what its endpoint needs, and where its key comes from."""

import asyncio
from pathlib import Path

import pytest

from contracts.errors import ConfigurationError
from documents.embedders.openai_compatible import NO_KEY, OpenAICompatibleEmbedder
from sluice import diagnosis
from sluice.embedders import KEY, KEY_FILE, configured_embedder
from sluice.settings import Settings
from tests.contract.embedding_server import serving, status

SECRET = "sk-0123456789"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def endpoint(url: str = "https://api.example.com/v1", dimension: int = 256) -> Settings:
    return Settings(
        embedder="openai", embedding_url=url, embedding_model="m", embedding_dimension=dimension
    )


def key_of(settings: Settings) -> str:
    embedder = configured_embedder(settings)
    assert isinstance(embedder, OpenAICompatibleEmbedder)
    return embedder._endpoint.key


def test_what_is_missing_of_an_endpoint_is_named() -> None:
    """All of it at once."""
    settings = Settings(embedder="openai", embedding_model="m")
    with pytest.raises(ConfigurationError, match="_URL and SLUICE_EMBEDDING_DIMENSION"):
        configured_embedder(settings)


def test_a_key_is_read_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment goes first, none is none, and nothing shows it."""
    assert key_of(endpoint()) == NO_KEY
    path = tmp_path / "key"
    path.write_text(f"{SECRET}\n")
    monkeypatch.setenv(KEY_FILE, str(path))
    assert key_of(endpoint()) == SECRET
    monkeypatch.setenv(KEY, "other")
    assert key_of(endpoint()) == "other"
    embedder = configured_embedder(endpoint())
    assert isinstance(embedder, OpenAICompatibleEmbedder)
    assert "other" not in repr(embedder._endpoint)


@pytest.mark.parametrize("content", ["two\nlines", "clé", "a\0b"])
def test_a_key_that_is_none_is_refused_and_not_shown(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a line, not ASCII, not printable."""
    path = tmp_path / "key"
    path.write_text(content)
    monkeypatch.setenv(KEY_FILE, str(path))
    with pytest.raises(ConfigurationError, match="one line of ASCII") as caught:
        configured_embedder(endpoint())
    assert content not in str(caught.value)


def test_a_key_file_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without a file is a fault, not no key."""
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="none, which can't be read"):
        configured_embedder(endpoint())


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@api.example.com/v1",
        f"https://{SECRET}@api.example.com/v1",
        f"https://api.example.com/v1?key={SECRET}",
        "https://api.example.com:99999/v1",
        "https://[/v1",
        "https:///v1",
    ],
)
def test_an_address_holds_no_secret(url: str) -> None:
    """Messages show addresses: one with more than a host, or none, is refused, and not shown."""
    with pytest.raises(ConfigurationError, match="SLUICE_EMBEDDING_URL") as caught:
        configured_embedder(endpoint(url))
    assert SECRET not in str(caught.value)


async def test_the_doctor_asks_the_endpoint() -> None:
    """It shows model, dimension and address, or says what to correct."""
    async with serving() as server:
        url = f"http://127.0.0.1:{server.port}/v1"

        async def line(dimension: int) -> tuple[bool, str, str]:
            found = await asyncio.to_thread(diagnosis._embedder, endpoint(url, dimension))
            return found.ok, found.found, found.remedy

        assert await line(256) == (True, f"m-256, 256 numbers a vector at {url}", "")
        ok, _, remedy = await line(300)
        assert not ok
        assert "SLUICE_EMBEDDING_DIMENSION to 256" in remedy
        server.answers = [status(401)]
        ok, _, remedy = await line(256)
        assert not ok
        assert "correct SLUICE_EMBEDDING_KEY" in remedy
