"""The gate: checks with figures, and the decision on a run."""

from enum import StrEnum

from pydantic import Field

from contracts.wire import WireModel


class Decision(StrEnum):
    """What the gate says."""

    PROMOTE = "promote"
    REJECT = "reject"
    WAIT = "wait"  # a person decides


class Check(WireModel):
    """One check with its figures."""

    name: str  # for example `vectors: opened ids`
    passed: bool
    expected: str = ""
    found: str = ""


class CheckReport(WireModel):
    """Every check of a run. The digest names exactly what was looked at."""

    checks: tuple[Check, ...] = ()
    manifest_digest: str = ""
    opened: int = 0  # chunks that the run opens
    closed: int = 0  # chunks that the run closes
    has_documents: bool = True  # at the run's sequence
    had_documents: bool = False  # at its base
    listed_documents: int | None = None  # what a full crawl saw; None if it was none
    unacknowledged: int = 0  # documents whose failure nobody has accepted
    examples: tuple[str, ...] = ()  # some of their keys

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


class Verdict(WireModel):
    """What a person says of a run that waits: update `decide` or signal `decided` of the run."""

    approve: bool
    manifest_digest: str  # of what was looked at; another one is refused
    actor: str
    reason: str = ""


class GateDecision(WireModel):
    """A decision with its author."""

    decision: Decision
    actor: str = "policy"
    reason: str = ""
    failed_checks: tuple[str, ...] = Field(default_factory=tuple)
