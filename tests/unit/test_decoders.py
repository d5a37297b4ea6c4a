"""Decoders, on recorded notifications and on cases from public bug reports."""

import json
from pathlib import Path

import pytest

from bridge.decoders import decode
from bridge.decoders.inputs import decode_input
from contracts.events import Action, Decoded, Operation

CASES = Path(__file__).parents[1] / "cases"
KINDS = {"sqs_message", "list_objects_entry"}
# Formats of other producers, which have no decoder here yet.
OTHER_FORMATS = {"ENV-09"}


def cases() -> list[dict[str, object]]:
    lines = (CASES / "events.jsonl").read_text(encoding="utf-8").splitlines()
    known = [json.loads(line) for line in lines]
    return [case for case in known if case["input"]["kind"] in KINDS]


def recorded(name: str) -> list[Decoded]:
    lines = (CASES / "wire" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [decode(line) for line in lines]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_each_case_has_its_right_answer(case: dict[str, dict[str, object]]) -> None:
    """The action is the expected one, and the events have the expected members."""
    decoded = decode_input(json.dumps(case["input"]).encode())
    expected = case["expected"]
    assert decoded.action == expected["action"], decoded.reason
    events = [event.model_dump(mode="json") for event in decoded.events]
    wanted = expected.get("events", [])
    assert len(events) == len(wanted)
    for event, members in zip(events, wanted, strict=True):
        assert {name: event[name] for name in members} == members


def keys(decoded: list[Decoded], operation: Operation) -> list[str]:
    return [e.key for d in decoded for e in d.events if e.op is operation]


PUT = [
    "plain.txt",
    "dir/with space.txt",
    "a+b=c&d.txt",
    "ünï/日本.txt",
    "per%20cent.txt",
    "q'(x)!*~.txt",
    "copied +.txt",
    "mp/big 1.bin",
    "cond",
]


@pytest.mark.parametrize(
    "name", ["ministack-s3-sqs", "ministack-eventbridge", "moto-s3-sqs", "moto-eventbridge"]
)
def test_recorded_notifications_name_every_object(name: str) -> None:
    """Every key that was put is decoded as it was put, and nothing is parked."""
    decoded = recorded(name)
    assert all(d.action is not Action.PARK for d in decoded), [d.reason for d in decoded]
    assert set(PUT) <= set(keys(decoded, Operation.CREATED))


@pytest.mark.parametrize("name", ["ministack-s3-sqs", "ministack-eventbridge"])
def test_recorded_deletions_are_delivered(name: str) -> None:
    """A delete marker and the deletion of an old version are both changes."""
    decoded = recorded(name)
    assert keys(decoded, Operation.DELETE_MARKER)
    assert keys(decoded, Operation.DELETED)


@pytest.mark.parametrize("name", ["ministack-s3-sqs", "moto-s3-sqs", "moto-eventbridge"])
def test_tagging_changes_no_document(name: str) -> None:
    """Each recorded tagging event is dropped."""
    lines = (CASES / "wire" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if "Tagging:" in line or "Object Tags" in line:
            assert decode(line).action is Action.DROP


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b'"text"', b"{}", b'{"Records": 7}', b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "broken", "list", "number", "text", "nothing", "records", "bytes", "deep"],
)
def test_what_nobody_understands_is_parked(body: bytes) -> None:
    """An unknown shape is never the same as an empty list."""
    decoded = decode(body)
    assert decoded.action is Action.PARK
    assert decoded.reason


def test_explicit_nulls_are_absent_members() -> None:
    """Re-emitted records write absent members as null."""
    record = {
        "eventSource": "aws:s3",
        "eventVersion": "2.1",
        "eventName": "ObjectRemoved:Delete",
        "s3": {
            "bucket": {"name": "b"},
            "object": {"key": "k", "size": None, "eTag": None, "versionId": None},
        },
    }
    decoded = decode(json.dumps({"Records": [record]}))
    assert decoded.action is Action.DELIVER
    assert decoded.events[0].size is None


def test_a_key_of_broken_utf8_is_parked() -> None:
    """A key that can't be decoded names no object, so nothing is guessed."""
    record = {
        "eventSource": "aws:s3",
        "eventVersion": "2.1",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "b"}, "object": {"key": "%ff%fe", "size": 1}},
    }
    assert decode(json.dumps({"Records": [record]})).action is Action.PARK
