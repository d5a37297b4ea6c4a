"""The gate's rules: pure functions from checks and policy to a decision."""

from contracts.gate import CheckReport, Decision, GateDecision
from contracts.sources import GatePolicy


def decide(report: CheckReport, policy: GatePolicy) -> GateDecision:
    """What the gate says of a run whose stores agree with the catalog.

    A full crawl that found nothing, and a run that would empty its source, are rejected whatever
    the policy: emptying on purpose is a command of its own.
    """
    if report.listed_documents == 0 and report.had_documents:
        return _reject(
            "a full crawl found no document where some are live: check the bucket, the prefix and "
            "the credentials"
        )
    if report.had_documents and not report.has_documents:
        return _reject(
            "the run would empty the source of all its documents: if that is meant, remove the "
            "source"
        )
    failed = tuple(check.name for check in report.checks if not check.passed)
    if failed:
        return GateDecision(
            decision=Decision.REJECT, reason=_sentence(report), failed_checks=failed
        )
    if policy is GatePolicy.AUTO:
        return GateDecision(decision=Decision.PROMOTE, reason="every check passed")
    return GateDecision(decision=Decision.WAIT, reason="a person decides")


def _reject(reason: str) -> GateDecision:
    return GateDecision(decision=Decision.REJECT, reason=reason)


def _sentence(report: CheckReport) -> str:
    wrong = [
        f"{check.name}: expected {check.expected}, found {check.found}"
        for check in report.checks
        if not check.passed
    ]
    return "; ".join(wrong)
