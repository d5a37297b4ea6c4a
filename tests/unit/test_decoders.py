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


def put(**members: object) -> str:
    record = {
        "eventSource": "aws:s3",
        "eventVersion": "2.1",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "b"}, "object": {"key": "k", "size": 1, **members}},
    }
    return json.dumps({"Records": [record]})


@pytest.mark.parametrize("size", ["9" * 5_000, int("9" * 4_000), 2**63], ids=["text", "int", "64"])
def test_a_size_that_no_object_has_is_absent(size: object) -> None:
    """A size is a hint; an absurd one neither fails nor is passed on."""
    decoded = decode(put(size=size))
    assert decoded.action is Action.DELIVER
    assert decoded.events[0].size is None


@pytest.mark.parametrize("key", ["k" * 4_097, "half \ud800"], ids=["long", "surrogate"])
def test_a_key_that_no_document_can_have_is_parked(key: str) -> None:
    """A message that would fail further on is kept at once, not tried for ever."""
    decoded = decode(put(key=key))
    assert decoded.action is Action.PARK
    assert decoded.reason


def test_a_reason_can_always_be_written_down() -> None:
    """Names of foreign members are escaped where they are no text."""
    decoded = decode('{"\\ud800": 1}')
    assert decoded.action is Action.PARK
    assert "\\ud800" in decoded.model_dump_json().replace("\\\\", "\\")


def test_a_deep_input_is_parked() -> None:
    """Nesting beyond what can be read fails no command."""
    assert decode_input(b"[" * 100_000).action is Action.PARK
