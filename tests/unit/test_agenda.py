"""The coordinator's agenda: coalescing, debounce, bounds."""

import random

from contracts.activities import CoordinatorState, RunReport
from contracts.events import EVENTS_PER_KEY, ChangeSignal, DirtyKey, EventTrace
from contracts.runs import RunState
from workflows.agenda import (
    HARD_BYTES,
    INLINE_BYTES,
    MAX_SEGMENTS,
    RECHECK_DELAY,
    Agenda,
)

STATE_BYTES = 32_768


def signal(*keys: str, crawl: bool = False) -> ChangeSignal:
    return ChangeSignal(keys=tuple(DirtyKey(key=key) for key in keys), crawl=crawl)


def test_keys_are_coalesced() -> None:
    """Ten events of one key are one dirty key."""
    agenda = Agenda()
    for _ in range(10):
        agenda.note(signal("a"), 1.0)
    assert list(agenda.keys) == ["a"]


def test_a_key_remembers_the_newest_events_that_named_it() -> None:
    """A few, newest last; one that is only said again is kept once, and all count for the size."""
    agenda = Agenda()
    named = [EventTrace(origin="s3", name=f"event {n}") for n in range(EVENTS_PER_KEY + 2)]
    for event in (*named, named[-1]):
        agenda.note(ChangeSignal(keys=(DirtyKey(key="a", events=(event,)),)), 1.0)
    agenda.note(signal("a"), 2.0)
    assert agenda.keys["a"].events == tuple(named[-EVENTS_PER_KEY:])
    size = agenda.size
    agenda.take_keys()
    agenda.note(signal("a"), 3.0)
    assert size > agenda.size + 100 * EVENTS_PER_KEY


def test_a_run_waits_for_silence() -> None:
    """Each change moves the start of the run, as long as the maximum delay allows."""
    agenda = Agenda()
    agenda.note(signal("a"), 100.0)
    agenda.note(signal("b"), 101.5)
    assert agenda.ready_at(quiet_period=2.0, max_delay=30.0) == 103.5


def test_a_steady_stream_runs_after_the_maximum_delay() -> None:
    """A source that is never silent runs all the same."""
    agenda = Agenda()
    for second in range(100):
        agenda.note(signal("a"), 100.0 + second)
    assert agenda.ready_at(quiet_period=2.0, max_delay=30.0) == 130.0


def test_a_signal_without_keys_starts_no_clock() -> None:
    """Waking a coordinator says nothing of changes: the first one still waits for silence."""
    agenda = Agenda()
    agenda.note(signal(), 100.0)
    assert not agenda.dirty
    agenda.note(signal("a"), 200.0)
    assert agenda.ready_at(quiet_period=2.0, max_delay=30.0) == 202.0


def test_taking_leaves_nothing() -> None:
    """What a run has taken is no longer on the agenda."""
    agenda = Agenda()
    agenda.note(signal("a", "b"), 1.0)
    taken = agenda.take()
    assert {key.key for key in taken.keys} == {"a", "b"}
    assert not agenda.dirty
    assert agenda.dirty_since is None


def test_a_crawl_covers_every_key() -> None:
    """Once everything is dirty no key is kept by name."""
    agenda = Agenda()
    agenda.note(signal("a"), 1.0)
    agenda.say_crawl(2.0)
    agenda.note(signal("b"), 3.0)
    assert agenda.crawl
    assert not agenda.keys


def test_many_keys_want_a_segment() -> None:
    """Beyond the inline bound the keys should be spilled, and are handed over for it."""
    agenda = Agenda()
    number = 0
    while not agenda.overflowing:
        agenda.note(signal(f"folder/{number:06}"), 1.0)
        number += 1
    assert agenda.size > INLINE_BYTES
    assert len(agenda.take_keys()) == number
    assert agenda.size == 0


def test_too_many_segments_become_a_crawl() -> None:
    """Beyond the bound on references the state just says crawl."""
    agenda = Agenda()
    for number in range(MAX_SEGMENTS + 1):
        agenda.add_segment(f"segments/s/{number}.json")
    assert agenda.crawl
    assert not agenda.segments


def test_the_state_stays_below_its_bound_whatever_comes() -> None:
    """Random signals of long and short keys never make the carried state larger than 32 KB."""
    seed = 20_261_201
    randomness = random.Random(seed)
    agenda = Agenda()
    for step in range(3_000):
        keys = [
            "k" * randomness.choice([1, 30, 900]) + str(randomness.random())
            for _ in range(randomness.randint(0, 20))
        ]
        agenda.note(signal(*keys), float(step))
        if randomness.random() < 0.02:
            agenda.add_segment(f"segments/{'s' * 63}/{randomness.getrandbits(256):064x}.json")
        if randomness.random() < 0.01:
            agenda.take()
        rechecks = tuple(DirtyKey(key=key, recheck=True) for key in keys)
        report = RunReport(seq=1, state=RunState.NO_CHANGE, recheck=rechecks)
        agenda.note_report(report, float(step))
        size = len(agenda.save(CoordinatorState(source_id="s")).model_dump_json())
        assert size <= STATE_BYTES, f"seed {seed}, step {step}: {size} bytes"
        assert agenda.size <= HARD_BYTES


def test_the_state_survives_continue_as_new() -> None:
    """What is saved and restored is the same agenda."""
    agenda = Agenda()
    agenda.note(signal("a", "b"), 5.0)
    agenda.add_segment("segments/s/1.json")
    restored = Agenda.restore(agenda.save(CoordinatorState(source_id="s")))
    assert restored.take() == agenda.take()


def test_a_hint_without_a_change_is_looked_at_once_more() -> None:
    """A recheck becomes dirty after its delay, and only then."""
    agenda = Agenda()
    report = RunReport(seq=1, state=RunState.NO_CHANGE, recheck=(DirtyKey(key="a", recheck=True),))
    agenda.note_report(report, 10.0)
    agenda.wake_rechecks(10.0 + RECHECK_DELAY - 1)
    assert not agenda.dirty
    agenda.wake_rechecks(10.0 + RECHECK_DELAY)
    assert agenda.keys["a"].recheck


def test_a_cut_crawl_goes_on() -> None:
    """A run that says there is more makes the source dirty again."""
    agenda = Agenda()
    agenda.note_report(RunReport(seq=1, state=RunState.PROMOTED, more=True), 1.0)
    assert agenda.crawl
