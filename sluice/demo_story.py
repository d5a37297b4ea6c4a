"""What the demo expects: the manifest of its documents, and the checks of each step."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel

from contracts.errors import SluiceError
from contracts.runs import DocumentStatus, OutcomeStatus, RunRecord, RunState
from contracts.search import SearchAnswer, SearchHit

CORPUS: Final = Path(__file__).parent / "demo_corpus"


class DemoFailed(SluiceError):
    """Something that the demo shows isn't so."""


class Question(BaseModel):
    """A question, the document that answers it, and words of the answer."""

    question: str
    document: str
    phrase: str


class Change(BaseModel):
    """One sentence of one document, before and after."""

    document: str
    find: str
    replace: str
    question: str
    before: str
    after: str


class Manifest(BaseModel):
    """What is expected of the corpus. `failures` maps documents to the class of their error;
    `recognizable` ones have text where Tesseract is installed."""

    failures: dict[str, str]
    recognizable: tuple[str, ...] = ()
    questions: tuple[Question, ...]
    change: Change
    deletion: Question

    @classmethod
    def load(cls, corpus: Path) -> Self:
        """The manifest of a corpus."""
        return cls.model_validate(json.loads((corpus / "MANIFEST.json").read_text("utf-8")))


@dataclass(frozen=True)
class Reading:
    """One answer of the reader that never stops."""

    seq: int
    texts: tuple[str, ...]


def documents(corpus: Path) -> dict[str, Path]:
    """The files of a corpus, by key."""
    folder = corpus / "documents"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in files}


def check_outcomes(
    manifest: Manifest, keys: Sequence[str], statuses: Sequence[DocumentStatus], *, ocr: bool
) -> None:
    """Every document is served, or failed with the class that the manifest names."""
    found = {status.doc_key: status for status in statuses}
    for key in keys:
        status = found.get(key)
        if status is None:
            raise DemoFailed(f"{key} is neither served nor failed")
        expected = manifest.failures.get(key)
        if ocr and key in manifest.recognizable:
            expected = None
        error = status.error if status.status is OutcomeStatus.FAILED else None
        if error != expected:
            raise DemoFailed(f"{key} ended with {error}, and {expected} was expected")
        if (status.live_version is None) is (expected is None):
            raise DemoFailed(f"{key} is served although it failed, or not though it didn't")


def check_answer(question: Question, answer: SearchAnswer) -> SearchHit:
    """The document that answers the question is among the hits, with the words."""
    for hit in answer.hits:
        if hit.chunk.doc_key == question.document and question.phrase in hit.text:
            return hit
    found = ", ".join(hit.chunk.doc_key for hit in answer.hits) or "nothing"
    raise DemoFailed(
        f"{question.question!r} should find {question.phrase!r} in {question.document}, "
        f"and found {found}"
    )


def check_absent(question: Question, answer: SearchAnswer) -> None:
    """Nothing of the document is found any more."""
    if any(hit.chunk.doc_key == question.document for hit in answer.hits):
        raise DemoFailed(f"{question.document} was deleted and is still found")


def check_promoted(run: RunRecord, *, embedded: int | None = None) -> None:
    """The run was promoted, with as many bought embeddings as expected."""
    if run.state is not RunState.PROMOTED:
        raise DemoFailed(f"run {run.seq} ended as {run.state.value}: {run.reason}")
    if embedded is not None and run.counts.embedded != embedded:
        raise DemoFailed(
            f"run {run.seq} embedded {run.counts.embedded} chunks, and {embedded} was expected"
        )


def check_readings(change: Change, readings: Sequence[Reading], before: int, after: int) -> None:
    """The old answer up to the flip, the new one from it on, and never both or neither."""
    if {reading.seq for reading in readings} != {before, after}:
        seen = sorted({reading.seq for reading in readings})
        raise DemoFailed(f"the reader saw the sequences {seen}, not {before} and then {after}")
    for reading in readings:
        old = any(change.before in text and change.after not in text for text in reading.texts)
        new = any(change.after in text for text in reading.texts)
        if old is new or new is not (reading.seq == after):
            raise DemoFailed(f"an answer at sequence {reading.seq} wasn't of that sequence")
