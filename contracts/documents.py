"""What a document becomes: parsed pages, chunks, layout, and the durable copy of each chunk."""

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from contracts.ids import DocKey
from contracts.wire import WireModel

Vector = npt.NDArray[np.float32]
"""One embedding: shape (dimension,), unit length."""

Vectors = npt.NDArray[np.float32]
"""Embeddings: shape (texts, dimension), each of unit length."""


class Bought(NamedTuple):
    """What one request for vectors got."""

    vectors: Vectors  # one a text, in order
    tokens: int | None = None  # that were charged for; None where nobody says

    def shared(self, counted: Mapping[str, int]) -> dict[str, int]:
        """Tokens by text: those that were charged for, in the proportions of our count; our count
        itself where nobody says."""
        if self.tokens is None:
            return dict(counted)
        whole, seen, given = max(sum(counted.values()), 1), 0, 0
        shares = {}
        for name, tokens in counted.items():
            seen += tokens
            shares[name] = self.tokens * seen // whole - given
            given += shares[name]
        return shares


class EmbeddingSpace(WireModel):
    """Names a space: vectors of two spaces are never compared."""

    name: str  # model and version, for example `wordllama-256/1`
    dimension: int


class Chunk(WireModel):
    """The unit that is embedded and indexed.

    `prefix` (heading path, table header) and `body` are embedded, `body` is shown.
    Character offsets count code points of the document's cleaned text, end
    exclusive; pages count from 1 and are None where the format has none.
    """

    prefix: str = ""
    body: str
    tokens: int  # of prefix and body together
    char_start: int
    char_end: int
    page_start: int | None = None
    page_end: int | None = None
    heading_path: tuple[str, ...] = ()

    @property
    def embedded_text(self) -> str:
        """Prefix and body as they are embedded and indexed."""
        return f"{self.prefix}{self.body}"


class ChunkedDocument(WireModel):
    """What parsing, cleaning and chunking make of one content."""

    title: str | None = None
    media_type: str
    parser: str  # name and version, for example `xberg/1.3.9`
    chunker: str = ""  # name and version, for example `chunking/2`
    pages: int = 0  # 0 where the format has none
    characters: int = 0  # of the cleaned text
    chunks: tuple[Chunk, ...] = ()
    warnings: tuple[str, ...] = ()


class PackAddress(WireModel):
    """Where the durable copy of a chunk is: a byte range of an object."""

    pack: str  # object-store key
    offset: int  # bytes
    length: int  # bytes


class PackedChunk(WireModel):
    """The durable copy of a chunk, one record of a pack."""

    prefix: str
    body: str
    vector: str  # base64 of little-endian float32

    @classmethod
    def of(cls, chunk: Chunk, vector: Vector) -> Self:
        """The record for a chunk and its vector."""
        raw = vector.astype("<f4").tobytes()
        return cls(prefix=chunk.prefix, body=chunk.body, vector=base64.b64encode(raw).decode())

    def array(self) -> Vector:
        """The vector, shape (dimension,)."""
        return np.frombuffer(base64.b64decode(self.vector), dtype="<f4").astype(np.float32)

    def encode(self) -> bytes:
        """The record as it stands in a pack: UTF-8 JSON and a newline."""
        return json.dumps(self.model_dump(), ensure_ascii=False).encode() + b"\n"

    @classmethod
    def decode(cls, record: bytes) -> Self:
        """The record that `encode` wrote."""
        return cls.model_validate_json(record)


class PreparedChunk(WireModel):
    """A chunk of a prepared document: its place in the layout, and its identity."""

    chunk_key: str
    text_hash: str  # SHA-256 of the embedded text, 64 hex digits
    prefix_length: int  # code points of the embedded text that are prefix
    tokens: int
    char_start: int
    char_end: int
    page_start: int | None = None
    page_end: int | None = None
    heading_path: tuple[str, ...] = ()
    address: PackAddress | None = None  # None: the catalog already has this chunk open


class PreparedDocument(WireModel):
    """A document version ready to be staged: everything but texts and vectors.

    `deleted` documents have no chunks and no hashes.
    """

    doc_key: DocKey
    deleted: bool = False
    source_version: str = ""
    content_hash: str = ""
    fingerprint: str = ""
    title: str | None = None
    uri: str = ""
    media_type: str = ""
    parser: str = ""
    size: int = 0  # bytes
    chunks: tuple[PreparedChunk, ...] = ()  # in the order of the document


class DocumentVersion(WireModel):
    """A document version as the catalog holds it, with its interval."""

    doc_key: DocKey
    from_seq: int
    to_seq: int
    source_version: str
    content_hash: str
    fingerprint: str
    title: str | None = None
    uri: str = ""
    media_type: str = ""
    parser: str = ""
    size: int = 0
    chunks: int = 0


class Located(WireModel):
    """A chunk as the layout of its document version shows it at a sequence."""

    chunk_id: str
    source_id: str
    doc_key: DocKey
    run_id: str  # that made the chunk
    from_seq: int  # of that run
    version_seq: int = 0  # of the run that made the document version; it may have kept the chunk
    text_hash: str
    prefix_length: int
    address: PackAddress
    title: str | None = None
    uri: str = ""
    source_version: str = ""
    ordinal: int = 0  # place in the document, from 0
    tokens: int = 0
    char_start: int = 0
    char_end: int = 0
    page_start: int | None = None
    page_end: int | None = None
    heading_path: tuple[str, ...] = Field(default_factory=tuple)
