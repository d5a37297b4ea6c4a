"""What documents become, pinned: a changed output needs a raised version."""

import hashlib
import json
from pathlib import Path

import pytest

from documents import chunking, cleaning, pipeline, tokens
from documents.parsers import rich, text
from documents.parsers.parsed import Content

CORPUS = Path(__file__).parents[2] / "sluice" / "demo_corpus" / "documents"
GOLDEN = Path(__file__).parents[1] / "cases" / "golden-chunks.json"
DOCUMENTS = (
    "handbook/fares.md",
    "data/engine-petrel.log",
    "data/sailings-2025.csv",
    "web/groups.html",
    "manuals/ramp.pdf",
    "office/minutes-march.docx",
    "slides/winter-campaign.pptx",
    "office/spare-parts.xlsx",
    "mail/found-violin.eml",
    "books/tales.epub",
)


def versions() -> dict[str, str]:
    return {
        "text": text.VERSION,
        "rich": rich.VERSION,
        "cleaning": cleaning.VERSION,
        "chunking": chunking.VERSION,
        "tokens": tokens.VERSION,
    }


def digest(name: str) -> str:
    document = pipeline.chunk(Content(CORPUS / name, name))
    parts = [[chunk.prefix, chunk.body] for chunk in document.chunks]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_becomes_what_its_versions_say(name: str) -> None:
    """The chunks are those that were pinned for these versions."""
    golden = json.loads(GOLDEN.read_text())
    assert golden["versions"] == versions(), "pin the chunks of the new versions"
    assert golden["chunks"][name] == digest(name), (
        f"{name} becomes other chunks: raise the version of the component that changed, "
        "and pin the new ones"
    )
