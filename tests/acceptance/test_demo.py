"""The demo's checks can fail: each is given something that isn't so, and says it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from program import SLUICE, environment

from contracts.documents import Located, PackAddress
from contracts.runs import DocumentStatus, OutcomeStatus, RunCounts, RunRecord, RunState
from contracts.search import SearchAnswer, SearchHit
from sluice.demo_story import (
    CORPUS,
    DemoFailed,
    Manifest,
    Reading,
    check_absent,
    check_answer,
    check_outcomes,
    check_promoted,
    check_readings,
    documents,
)

DEMO_BOUND = 300  # seconds


def manifest() -> Manifest:
    return Manifest.load(CORPUS)


def status(key: str, error: str | None) -> DocumentStatus:
    return DocumentStatus(
        doc_key=key,
        live_version=None if error else "v",
        status=OutcomeStatus.FAILED if error else OutcomeStatus.DONE,
        error=error,
    )


def statuses() -> dict[str, DocumentStatus]:
    return {key: status(key, manifest().failures.get(key)) for key in documents(CORPUS)}


def hit(document: str, text: str) -> SearchHit:
    place = Located(
        chunk_id="c",
        source_id="s",
        doc_key=document,
        run_id="s.1",
        from_seq=1,
        text_hash="h",
        prefix_length=0,
        address=PackAddress(pack="p", offset=0, length=1),
    )
    return SearchHit(score=1.0, text=text, chunk=place)


def run(state: RunState, embedded: int) -> RunRecord:
    return RunRecord.model_validate(
        {
            "source_id": "s",
            "seq": 3,
            "run_id": "s.3",
            "generation": 1,
            "base_seq": 2,
            "state": state,
            "cause": "change",
            "counts": RunCounts(embedded=embedded),
            "started_at": "2026-01-01T00:00:00Z",
        }
    )


def test_the_expected_outcomes_pass() -> None:
    """What the manifest says is what the check accepts."""
    check_outcomes(manifest(), list(documents(CORPUS)), list(statuses().values()), ocr=False)


@pytest.mark.parametrize(
    "wrong",
    [
        status("handbook/fares.md", "CorruptDocument"),
        status("broken/sealed.pdf", None),
        status("broken/sealed.pdf", "CorruptDocument"),
        None,
    ],
    ids=["a good one failed", "a broken one served", "another class", "one is missing"],
)
def test_a_wrong_outcome_is_seen(wrong: DocumentStatus | None) -> None:
    """One document with another outcome than the manifest's fails the demo."""
    found = statuses()
    if wrong is None:
        del found["handbook/fares.md"]
    else:
        found[wrong.doc_key] = wrong
    with pytest.raises(DemoFailed):
        check_outcomes(manifest(), list(documents(CORPUS)), list(found.values()), ocr=False)


@pytest.mark.parametrize("question", manifest().questions, ids=lambda q: q.document)
def test_a_wrong_answer_is_seen(question: object) -> None:
    """No hit, another document, or other words fail the demo."""
    right = hit(question.document, f"… {question.phrase} …")
    assert check_answer(question, SearchAnswer(hits=(right,))) == right
    for hits in ((), (hit("other.md", question.phrase),), (hit(question.document, "nothing"),)):
        with pytest.raises(DemoFailed):
            check_answer(question, SearchAnswer(hits=hits))


@pytest.mark.parametrize("embedded", [0, 2])
def test_more_or_fewer_embeddings_than_one_are_seen(embedded: int) -> None:
    """The change buys exactly one embedding."""
    check_promoted(run(RunState.PROMOTED, 1), embedded=1)
    with pytest.raises(DemoFailed):
        check_promoted(run(RunState.PROMOTED, embedded), embedded=1)


@pytest.mark.parametrize("state", [RunState.REJECTED, RunState.NO_CHANGE])
def test_a_run_that_was_not_promoted_is_seen(state: RunState) -> None:
    """A rollback, resume or deletion that promoted nothing fails the demo."""
    with pytest.raises(DemoFailed):
        check_promoted(run(state, 1))


def readings(*pairs: tuple[int, str]) -> list[Reading]:
    return [Reading(seq, (text,)) for seq, text in pairs]


@pytest.mark.parametrize(
    "seen",
    [
        readings((2, "four crowns")),
        readings((2, "four crowns"), (3, "four crowns")),
        readings((2, "six crowns"), (3, "six crowns")),
        readings((2, "four crowns"), (3, "nothing")),
        [*readings((3, "six crowns")), Reading(2, ("four crowns", "six crowns"))],
    ],
    ids=["no flip", "old after it", "new before it", "neither", "both"],
)
def test_a_mixed_or_early_answer_is_seen(seen: list[Reading]) -> None:
    """The reader must see the old answer before the flip and the new one after it."""
    check_readings(
        manifest().change, readings((2, "four crowns"), (3, "six crowns")), before=2, after=3
    )
    with pytest.raises(DemoFailed):
        check_readings(manifest().change, seen, before=2, after=3)


def test_a_deleted_document_that_is_still_found_is_seen() -> None:
    """One hit of the deleted document fails the demo."""
    deletion = manifest().deletion
    check_absent(deletion, SearchAnswer(hits=(hit("other.md", "x"),)))
    with pytest.raises(DemoFailed):
        check_absent(deletion, SearchAnswer(hits=(hit(deletion.document, "x"),)))


@pytest.mark.parametrize("step", ["outcomes", "questions", "change", "deletion"])
def test_a_demo_that_is_not_so_ends_with_status_1(tmp_path: Path, step: str) -> None:
    """The program itself, on a corpus whose manifest is wrong in one place, fails with one
    sentence."""
    corpus = tmp_path / "corpus"
    shutil.copytree(CORPUS, corpus)
    path = corpus / "MANIFEST.json"
    wrong = json.loads(path.read_text())
    if step == "outcomes":
        wrong["failures"]["handbook/fares.md"] = "CorruptDocument"
    elif step == "questions":
        wrong["questions"][0]["phrase"] = "words that nobody wrote"
    elif step == "change":
        wrong["change"]["after"] = "nine crowns"
    else:
        wrong["deletion"]["phrase"] = "words that nobody wrote"
    path.write_text(json.dumps(wrong))
    finished = subprocess.run(
        [str(SLUICE), "demo", "--corpus", str(corpus)],
        env=environment(tmp_path / "unused"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEMO_BOUND,
        check=False,
    )
    assert finished.returncode == 1, finished.stderr[-2_000:]
    assert "Traceback" not in finished.stderr
    assert finished.stderr.strip()
