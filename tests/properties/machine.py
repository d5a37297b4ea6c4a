"""Random histories: runs, failures, retries, late writers, rejections, rollbacks, retirements."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contracts.errors import Fenced, PromotionRefused, RollbackRefused, SluiceError
from contracts.runs import RunState, RunTicket
from contracts.search import SearchAnswer
from contracts.visibility import StoreWrite
from tests.properties.model import Contents, InvariantBroken, Model, lines
from tests.properties.system import GRACE, LATE, System, merged, shown

Changes = Mapping[str, tuple[str, ...] | None]
Result = TypeVar("Result")

DONE = 3  # how far a stage reaches that comes to its end
TEXTS = ("red apple", "green pear", "old plum", "sour cherry", "wild quince", "late medlar")
keys = st.sampled_from(("a", "b", "c"))
texts = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3).map(tuple)
changes = st.dictionaries(keys, st.one_of(texts, texts, st.none()), min_size=1, max_size=3)


class Histories(RuleBasedStateMachine):
    """One source's life. `runner` and `system` are given by the test that runs it."""

    runner: ClassVar[asyncio.Runner]
    new_system: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.system: System = type(self).new_system()
        self.model = Model(retain=1)
        self.ticket: RunTicket | None = None
        self.staged: Contents = {}  # what the open run's sequence is to show
        self.strays: list[tuple[RunTicket, StoreWrite]] = []  # writes of runs that have ended
        self.question = TEXTS[0]  # what a stray is the best answer to, if there is one
        self.stray_marks = False  # one of those that landed hides something that is visible
        self.stray_landed = False  # one of them has reached a store, and no purge has followed
        self.pinned = False
        self.unfinished: dict[str, tuple[str, ...] | None] = {}  # what a dead worker has left
        self.rollbacks = 0

    def do(self, work: Awaitable[Result]) -> Result:
        async def now() -> Result:
            return await work

        return self.runner.run(now())

    @initialize(retain=st.integers(1, 2), first=changes, second=changes)
    def begin(self, retain: int, first: Changes, second: Changes) -> None:
        """A source with two promoted runs."""
        self.model.retain = retain
        self.do(self.system.add(retain))
        for change in (first, second):
            self.whole_run(change)

    # --- runs ----------------------------------------------------------------------------------

    @precondition(lambda self: self.ticket is None)
    @rule()
    def open(self) -> None:
        """A run, unless one must not begin now."""
        self.ticket = self.do(self.system.open())
        self.staged = dict(self.model.shown[self.model.live])
        self.unfinished = {}
        if self.pinned and self.ticket is not None:
            raise InvariantBroken("I2", "a pinned source began a run")

    @precondition(lambda self: self.ticket is None and not self.pinned)
    @rule(change=changes)
    def whole_run(self, change: Changes) -> None:
        """Nothing comes between."""
        self.open()
        if self.ticket is not None:
            self.stage(change, DONE, again=False)
            self.promote(twice=False)

    @precondition(lambda self: self.ticket is not None)
    @rule(change=changes, reach=st.sampled_from((3, 3, 3, 0, 1, 2)), again=st.booleans())
    def stage(self, change: Changes, reach: int, again: bool) -> None:
        """A batch of documents, as far as the worker comes, perhaps twice. A retry may see other
        versions than the attempt before."""
        assert self.ticket is not None
        changed = {k: v for k, v in change.items() if v is not None or k in self.staged}
        changed = self.unfinished | changed  # a stage isn't left before all of it is done
        if not changed:
            return
        try:
            for _ in range(2 if again else 1):
                write = self.do(self.system.stage(self.ticket, changed, reach))
        except SluiceError as error:
            raise InvariantBroken("I2", f"a run could not stage: {error}") from error
        self.strays.append((self.ticket, write))
        self.staged = merged(self.staged, changed)
        self.unfinished = changed if reach < DONE else {}

    @precondition(lambda self: self.ticket is not None and not self.unfinished)
    @rule(twice=st.booleans())
    def promote(self, twice: bool) -> None:
        """Checks, and the flip if they pass; a second one of the same changes nothing."""
        assert self.ticket is not None
        report = self.do(self.system.check(self.ticket))
        if not report.passed:
            failed = [check for check in report.checks if not check.passed]
            raise InvariantBroken("I4", f"the stores can't be brought in line: {failed}")
        for _ in range(2 if twice else 1):
            self.do(self.system.promote(self.ticket, report.manifest_digest))
        self.model.promote(self.ticket.seq, self.staged)
        self.ticket = None

    @precondition(lambda self: self.ticket is not None)
    @rule(change=changes)
    def stage_and_end(self, change: Changes) -> None:
        """A run that is rejected when it is whole."""
        self.stage(change, DONE, again=False)
        self.end(RunState.REJECTED)

    @precondition(lambda self: self.ticket is not None)
    @rule(state=st.sampled_from((RunState.REJECTED, RunState.FAILED, RunState.CANCELLED)))
    def end(self, state: RunState) -> None:
        """Fence, purge, verify; twice, as a retried activity does."""
        assert self.ticket is not None
        for _ in range(2):
            self.do(self.system.end(self.ticket, state))
        self.ticket = None

    @precondition(lambda self: self.strays)
    @rule(data=st.data(), leg=st.sampled_from((0, 0, 1)), marks=st.booleans())
    def late_write(self, data: st.DataObject, leg: int, marks: bool) -> None:
        """What a worker of an ended run still had on its way to a store arrives: all of it, or the
        chunks without the marks."""
        ended = [(t, w) for t, w in self.strays if t.seq not in self.model.shown]
        ended = [(t, w) for t, w in ended if self.ticket is None or t.seq != self.ticket.seq]
        if not ended:
            return
        _, write = data.draw(st.sampled_from(ended))
        self._land(write if marks else StoreWrite(write.view, write.opens), leg)

    def _land(self, write: StoreWrite, leg: int) -> None:
        self.do(self.system.stores[leg].apply(write))
        self.stray_landed = True
        self.question = write.opens[0].text if write.opens else self.question
        self.stray_marks = self.stray_marks or bool(write.closes)

    @precondition(lambda self: self.ticket is None and not self.pinned)
    @rule(stray=changes, change=changes)
    def late_write_after_the_next_run(self, stray: Changes, change: Changes) -> None:
        """A run is rejected, the next one is promoted, and then something of the first arrives."""
        self.open()
        if self.ticket is None:
            return
        seq = self.ticket.seq
        self.stage(stray, DONE, again=False)
        self.end(RunState.REJECTED)
        self.whole_run(change)
        for ticket, write in self.strays:
            if ticket.seq == seq:
                self._land(StoreWrite(write.view, write.opens), 0)

    @precondition(lambda self: self.strays)
    @rule(data=st.data(), change=changes)
    def late_stage(self, data: st.DataObject, change: Changes) -> None:
        """A worker of an ended run that doesn't know it yet tries to stage, and to promote."""
        ended = [t for t, _ in self.strays if self.ticket is None or t.seq != self.ticket.seq]
        if not ended:
            return
        ticket = data.draw(st.sampled_from(ended))
        try:
            self.do(self.system.stage(ticket, change))
        except Fenced:
            pass
        except SluiceError as error:
            raise InvariantBroken("I5", f"a run that has ended could stage: {error}") from error
        if ticket.seq == self.model.live:
            return
        try:
            self.do(self.system.promote(ticket, "late"))
        except PromotionRefused:
            return
        raise InvariantBroken("I4", f"run {ticket.seq} was promoted after its end")

    # --- the ways back, and time ---------------------------------------------------------------

    @precondition(lambda self: self.model.live)
    @rule(data=st.data(), twice=st.booleans())
    def roll_back(self, data: st.DataObject, twice: bool) -> None:
        """To a retained sequence; the same request a second time does nothing."""
        if not self.model.targets:
            try:
                self.do(self.system.roll_back(None, "none"))
            except RollbackRefused:
                return
            raise InvariantBroken("I1", "a rollback went to a sequence that isn't retained")
        target = data.draw(st.sampled_from(self.model.targets))
        self.rollbacks += 1
        for _ in range(2 if twice else 1):
            pointer = self.do(self.system.roll_back(target, f"rollback {self.rollbacks}"))
            if pointer.seq != target:
                raise InvariantBroken("I5", f"{target} was wanted, and {pointer.seq} is live")
        self.model.roll_back(target)
        self.ticket = None
        self.pinned = True

    @precondition(lambda self: self.pinned)
    @rule()
    def resume(self) -> None:
        """Runs may begin again."""
        self.do(self.system.catalog.unpin(self.system.source))
        self.pinned = False

    @rule(much=st.booleans())
    def time_passes(self, much: bool) -> None:
        """The graces of readers, or of late writers too, are over; housekeeping comes by."""
        self.system.now += LATE if much else GRACE
        self.do(self.system.sweep())
        if much:
            self.strays = [(t, w) for t, w in self.strays if self._is_open(t)]
            self.stray_landed = self.stray_marks = False

    def _is_open(self, ticket: RunTicket) -> bool:
        return self.ticket is not None and ticket.seq == self.ticket.seq

    @precondition(lambda self: self.model.live)
    @rule(
        text=st.sampled_from(TEXTS), what=st.sampled_from(("flip", "back", "sweep")), data=st.data()
    )
    def read_across(self, text: str, what: str, data: st.DataObject) -> None:
        """Something moves under a question: it shows one sequence, whole."""
        before = dict(self.model.shown)

        async def between() -> None:
            if what == "flip" and self.ticket is not None and not self.unfinished:
                report = await self.system.check(self.ticket)
                if report.passed:
                    await self.system.promote(self.ticket, report.manifest_digest)
                    self.model.promote(self.ticket.seq, self.staged)
                    self.ticket = None
            elif what == "back" and self.model.targets:
                self.rollbacks += 1
                await self.system.roll_back(self.model.targets[-1], f"rollback {self.rollbacks}")
                self.model.roll_back(self.model.targets[-1])
                self.ticket, self.pinned = None, True
            else:
                self.system.now += GRACE
                await self.system.sweep()

        self.system.judge.between = between
        answer = self.do(self.system.ask(text))
        self.system.judge.between = None
        seq = answer.pinned[self.system.source]
        known = before | self.model.shown
        self._compare("I3", answer, known[seq], seq)

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def every_retained_sequence_shows_what_it_showed(self) -> None:
        """I1 below the live one, I2 at it; and I3: what is hidden takes no place in a short list
        from what is visible."""
        for seq in self.model.retained:
            name = "I2" if seq == self.model.live else "I1"
            self._expect(name, self.model.shown[seq], at=seq)
        for seq in self.model.retained:
            visible = len(lines(self.model.shown[seq]))
            answer = self.do(self.system.ask(self.question, 1, at=seq))
            short = len(answer.hits) < min(1, visible)
            if short and not self._may_miss(answer):
                raise InvariantBroken("I3", f"none of {visible} hits at {seq} is seen")

    @precondition(lambda self: self.ticket is not None and not self.unfinished)
    @invariant()
    def a_staged_run_can_be_previewed(self) -> None:
        """I2 before the flip: what it will show."""
        if self.ticket is not None and self.strays and not self.stray_landed:
            self._expect("I2", self.staged, at=self.ticket.seq)

    @precondition(lambda self: not self.stray_landed and self.ticket is None)
    @invariant()
    def the_stores_are_alike(self) -> None:
        """I2 in every store: at each retained sequence they hold what the catalog says."""
        for seq in self.model.retained:
            view = self.system.view(seq)
            expected = self.do(self.system.catalog.census(view))
            for store in self.system.stores:
                found = self.do(store.census(view))
                if found.visible != expected.visible and not self._owed():
                    raise InvariantBroken(
                        "I2", f"{store.name} shows {found.visible} at {seq}, not {expected.visible}"
                    )

    def _owed(self) -> bool:
        """Whether withdrawn sequences still wait for their purge."""
        sweep = self.do(self.system.catalog.due_sweep(self.system.source, self.system.now + GRACE))
        return bool(sweep.purge)

    def _expect(self, name: str, contents: Contents, at: int) -> None:
        self._compare(name, self.do(self.system.ask("red apple", at=at)), contents, at)

    def _compare(self, name: str, answer: SearchAnswer, contents: Contents, seq: int) -> None:
        """What is seen is what should be; a stray mark may hide something, and that is said."""
        seen, wanted = Counter(shown(answer)), Counter(lines(contents))
        if seen - wanted or (seen != wanted and not self._may_miss(answer)):
            raise InvariantBroken(name, f"{seq} shows {sorted(seen)}, not {sorted(wanted)}")
        if answer.incomplete and not self.stray_marks:
            raise InvariantBroken(name, f"the answer at {seq} is incomplete")

    def _may_miss(self, answer: SearchAnswer) -> bool:
        return self.stray_marks and answer.incomplete
