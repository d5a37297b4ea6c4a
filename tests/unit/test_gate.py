"""The gate's rules."""

from contracts.gate import Check, CheckReport, Decision, Verdict
from contracts.sources import GatePolicy
from workflows.gate import approved, decide, overdue, refused


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
    """The manual policy leaves the decision to a person, failures or not."""
    assert decide(report(), GatePolicy.MANUAL).decision is Decision.WAIT
    assert decide(report(unacknowledged=2), GatePolicy.MANUAL).decision is Decision.WAIT


def test_strict_promotes_what_is_without_failures() -> None:
    """It needs nobody as long as nothing fails, and names what does."""
    assert decide(report(), GatePolicy.STRICT).decision is Decision.PROMOTE
    refused = decide(report(unacknowledged=2, examples=("a", "b")), GatePolicy.STRICT)
    assert refused.decision is Decision.REJECT
    assert "2 documents fail" in refused.reason
    assert "(a, b …)" in refused.reason


def test_an_approval_is_of_what_was_looked_at() -> None:
    """A digest that has changed since, or a check that fails now, outweighs a person's yes."""
    yes = Verdict(approve=True, manifest_digest="one", actor="ann")
    seen = report(manifest_digest="one")
    assert approved(yes, seen, seen).decision is Decision.PROMOTE
    assert approved(yes, seen, seen).actor == "ann"
    other = approved(yes, seen, report(manifest_digest="two"))
    assert (other.decision, other.failed_checks) == (Decision.REJECT, ("manifest digest",))
    wrong = Check(name="x", passed=False)
    assert approved(yes, seen, report(checks=(wrong,))).failed_checks == ("x",)


def test_silence_and_a_no_reject() -> None:
    """Both say who, and why."""
    assert overdue(7 * 86_400.0).reason == "nobody decided within 7 days"
    no = refused(Verdict(approve=False, manifest_digest="one", actor="bob", reason="typos"))
    assert (no.decision, no.actor, no.reason) == (Decision.REJECT, "bob", "rejected by bob: typos")


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
