"""What a coordinator has still to do: dirty keys, coalesced and bounded."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contracts.activities import CoordinatorState, RunReport
from contracts.events import ChangeSignal, DirtyKey

INLINE_BYTES = 12_288  # of keys, beyond which they are spilled into a segment
HARD_BYTES = 20_480  # of keys, beyond which the state just says "crawl" (32 KB in all)
MAX_SEGMENTS = 40  # references, about 6 KB; beyond them the state just says "crawl"
KEY_OVERHEAD_BYTES = 96  # of one key in the state beside the key itself
EVENT_OVERHEAD_BYTES = 144  # of one event of a key beside its texts
RECHECK_BYTES = 4_096  # of keys that are looked at once more
RECHECK_DELAY = 30.0  # seconds; some stores announce before a read shows the change


def _size(key: DirtyKey) -> int:
    size = len(key.key.encode()) + KEY_OVERHEAD_BYTES
    for event in key.events:
        texts = (event.origin, event.name, event.message_id or "")
        size += sum(len(text.encode()) for text in texts) + EVENT_OVERHEAD_BYTES
    return size


def bounded(keys: Iterable[DirtyKey], limit: int) -> tuple[DirtyKey, ...]:
    """As many of the keys, in order, as fit into `limit` bytes."""
    kept: list[DirtyKey] = []
    size = 0
    for key in keys:
        size += _size(key)
        if size > limit:
            break
        kept.append(key)
    return tuple(kept)


@dataclass
class Agenda:
    """Dirty keys of one source. Times are seconds since the epoch."""

    keys: dict[str, DirtyKey] = field(default_factory=dict)
    segments: list[str] = field(default_factory=list)
    crawl: bool = False
    dirty_since: float | None = None
    changed_at: float = 0.0
    rechecks: tuple[DirtyKey, ...] = ()
    recheck_at: float | None = None
    events: int = 0
    size: int = 0  # bytes of the inline keys

    @classmethod
    def restore(cls, state: CoordinatorState) -> "Agenda":
        """The agenda that an earlier execution carried over."""
        agenda = cls(
            segments=list(state.segments),
            crawl=state.crawl,
            dirty_since=state.dirty_since,
            changed_at=state.dirty_since or 0.0,
            rechecks=state.rechecks,
            recheck_at=state.recheck_at,
            events=state.events,
        )
        for key in state.keys:
            agenda._add(key)
        return agenda

    def save(self, state: CoordinatorState) -> CoordinatorState:
        """The state with this agenda in it."""
        return state.model_copy(
            update={
                "keys": tuple(self.keys.values()),
                "segments": tuple(self.segments),
                "crawl": self.crawl,
                "dirty_since": self.dirty_since,
                "rechecks": self.rechecks,
                "recheck_at": self.recheck_at,
                "events": self.events,
            }
        )

    @property
    def collected(self) -> int:
        """Keys that wait for the next run; a segment, which holds many, counts as one."""
        return len(self.keys) + len(self.segments)

    @property
    def dirty(self) -> bool:
        """Whether anything may have changed."""
        return self.crawl or bool(self.keys) or bool(self.segments)

    @property
    def overflowing(self) -> bool:
        """Whether keys should move into a segment."""
        return self.size > INLINE_BYTES

    def note(self, signal: ChangeSignal, now: float) -> None:
        """Take a signal; one without keys only wakes the coordinator."""
        if signal.crawl or signal.keys or signal.segments:
            self._touch(now)
        self.events += signal.events
        self.crawl = self.crawl or signal.crawl
        for key in signal.keys:
            self._add(key)
        for segment in signal.segments:
            self.add_segment(segment)
        self._bound(now)

    def say_crawl(self, now: float) -> None:
        """Forget which keys are dirty: all of them are."""
        self._touch(now)
        self.crawl = True
        self.keys.clear()
        self.segments.clear()
        self.size = 0

    def add_segment(self, segment: str) -> None:
        """Take a reference to keys; too many of them become a crawl."""
        if segment not in self.segments:
            self.segments.append(segment)
        if len(self.segments) > MAX_SEGMENTS:
            self.segments.clear()
            self.crawl = True

    def note_report(self, report: RunReport, now: float) -> None:
        """Take what a run leaves to do."""
        if report.more:
            self._touch(now)
            self.crawl = True
        if report.recheck:
            self.rechecks = bounded((*self.rechecks, *report.recheck), RECHECK_BYTES)
            self.recheck_at = self.recheck_at or now + RECHECK_DELAY

    def wake_rechecks(self, now: float) -> None:
        """Make the keys dirty that are to be looked at once more, if it is time."""
        if self.recheck_at is None or now < self.recheck_at:
            return
        for key in self.rechecks:
            if key.key not in self.keys:
                self._add(key)
        self.rechecks = ()
        self.recheck_at = None
        self._touch(now)
        self._bound(now)

    def ready_at(self, quiet_period: float, max_delay: float) -> float:
        """When a dirty source may run: after silence, or after the maximum delay."""
        since = self.dirty_since if self.dirty_since is not None else self.changed_at
        return min(self.changed_at + quiet_period, since + max_delay)

    def take(self) -> ChangeSignal:
        """Hand all over to a run."""
        taken = ChangeSignal(
            keys=tuple(self.keys.values()), segments=tuple(self.segments), crawl=self.crawl
        )
        self.keys.clear()
        self.segments.clear()
        self.crawl = False
        self.dirty_since = None
        self.size = 0
        return taken

    def take_keys(self) -> tuple[DirtyKey, ...]:
        """Hand the inline keys over, to be put into a segment."""
        keys = tuple(self.keys.values())
        self.keys.clear()
        self.size = 0
        return keys

    def _bound(self, now: float) -> None:
        if self.size > HARD_BYTES:
            self.say_crawl(now)

    def _touch(self, now: float) -> None:
        self.changed_at = now
        if self.dirty_since is None:
            self.dirty_since = now

    def _add(self, key: DirtyKey) -> None:
        if self.crawl:
            return
        known = self.keys.get(key.key)
        if known is not None:
            self.size -= _size(known)
        self.keys[key.key] = key.after(known)
        self.size += _size(self.keys[key.key])
