"""Identifiers: their formats, and the one way to make each."""

import hashlib
import re
import uuid
from typing import Annotated, Final

from pydantic import StringConstraints

SOURCE_ID_PATTERN: Final = r"^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$"

SourceId = Annotated[str, StringConstraints(pattern=SOURCE_ID_PATTERN)]
"""A source's name: 1 to 63 of `a-z 0-9 _ -`, first and last a letter or digit."""

DocKey = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""Names a document in its source: an object key, a path below a root, a row key."""

OPEN_SEQ: Final = 2**53 - 1
"""`to_seq` of a chunk or document that nothing has closed; the largest integer
that every store and JSON reader keeps exactly."""

# Fixed for ever: changing it changes every chunk id.
_CHUNK_NAMESPACE: Final = uuid.UUID("6f0d5f5e-9d0b-5b0e-8a39-1f1f6c8a7f10")


def is_source_id(text: str) -> bool:
    """Whether the text is a well-formed source id."""
    return re.fullmatch(SOURCE_ID_PATTERN, text) is not None


def text_hash(embedded_text: str) -> str:
    """Hash of what is embedded (prefix and body): 64 hex digits, SHA-256 of UTF-8."""
    return hashlib.sha256(embedded_text.encode()).hexdigest()


def content_hash(content: bytes) -> str:
    """Hash of a document's bytes: 64 hex digits, SHA-256."""
    return hashlib.sha256(content).hexdigest()


def digest(*parts: str) -> str:
    """SHA-256 hex over length-prefixed parts, so that no two lists collide by joining."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def chunk_key(embedded_hash: str, filters: dict[str, str], occurrence: int) -> str:
    """Name of a chunk inside its document: 40 hex digits.

    Args:
        embedded_hash: `text_hash` of prefix and body.
        filters: declared filter values; a changed tag makes a new chunk.
        occurrence: counter among equal chunks of the document, from 0.
    """
    flat = [text for pair in sorted(filters.items()) for text in pair]
    return digest(embedded_hash, str(occurrence), *flat)[:40]


def chunk_id(source_id: str, generation: int, doc_key: str, key: str, from_seq: int) -> str:
    """Id of a chunk in every store: UUID version 5, lower case with hyphens.

    The sequence is part of it, so that a chunk that is removed and added again
    never overwrites its retained older version.
    """
    parts = (source_id, str(generation), doc_key, key, str(from_seq))
    name = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return str(uuid.uuid5(_CHUNK_NAMESPACE, name))


def run_id(source_id: str, seq: int) -> str:
    """Name of a run: `<source_id>.<seq>`."""
    return f"{source_id}.{seq}"


def coordinator_workflow_id(source_id: str) -> str:
    """Workflow id of a source's coordinator."""
    return f"source/{source_id}"


def run_workflow_id(source_id: str, seq: int) -> str:
    """Workflow id of a run."""
    return f"source/{source_id}/run/{seq}"


def batch_workflow_id(source_id: str, seq: int, batch: int) -> str:
    """Workflow id of a batch of a run, counted from 0."""
    return f"source/{source_id}/run/{seq}/batch/{batch}"
