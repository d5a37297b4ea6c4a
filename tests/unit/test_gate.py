"""The gate's rules."""

from contracts.gate import Check, CheckReport, Decision
from contracts.sources import GatePolicy
from workflows.gate import decide


def report(**fields: object) -> CheckReport:
    known = {
        "has_documents": True,
        "had_documents": True,
        "checks": (Check(name="x", passed=True),),
    }
    return CheckReport.model_validate(known | fields)


def test_auto_promotes_what_passed() -> None:
    """With every check passed the automatic policy promotes."""
    assert decide(report(), GatePolicy.AUTO).decision is Decision.PROMOTE


def test_manual_waits() -> None:
    """Another policy leaves the decision to a person."""
    assert decide(report(), GatePolicy.MANUAL).decision is Decision.WAIT


def test_a_failed_check_rejects_with_both_numbers() -> None:
    """A store that differs is named with what was expected and what was found."""
    wrong = Check(name="vectors: visible chunks", passed=False, expected="7", found="6")
    decision = decide(report(checks=(wrong,)), GatePolicy.AUTO)
    assert decision.decision is Decision.REJECT
    assert decision.failed_checks == ("vectors: visible chunks",)
    assert "expected 7, found 6" in decision.reason


def test_an_empty_crawl_is_rejected_whatever_the_policy() -> None:
    """A full crawl that found nothing never promotes over live documents."""
    for policy in GatePolicy:
        assert decide(report(listed_documents=0), policy).decision is Decision.REJECT


def test_a_run_that_would_empty_the_source_is_rejected() -> None:
    """Deleting the last document isn't promoted."""
    decision = decide(report(has_documents=False), GatePolicy.AUTO)
    assert decision.decision is Decision.REJECT
    assert "empty" in decision.reason


def test_an_empty_first_ingest_is_no_emptying() -> None:
    """Where nothing was live nothing can be emptied."""
    decision = decide(report(had_documents=False, has_documents=False), GatePolicy.AUTO)
    assert decision.decision is Decision.PROMOTE
