"""The gate's rules: pure functions from checks and policy to a decision."""

from collections.abc import Sequence

from contracts.gate import CheckReport, Decision, GateDecision, Verdict
from contracts.sources import GatePolicy


def decide(report: CheckReport, policy: GatePolicy) -> GateDecision:
    """What the gate says of a run.

    A full crawl that found nothing, and a run that would empty its source, are rejected whatever
    the policy: emptying on purpose is a command of its own. MANUAL leaves what passes the checks
    to a person; STRICT rejects it as long as a document fails and nobody has accepted that; AUTO
    promotes it.
    """
    if report.listed_documents == 0 and report.had_documents:
        return _reject(
            "a full crawl found no document where some are live: check the bucket, the prefix and "
            "the credentials"
        )
    if report.had_documents and not report.has_documents:
        return _reject(
            "the run would empty the source of all its documents: if that is meant, "
            "`sluice source empty` does it"
        )
    failed = tuple(check.name for check in report.checks if not check.passed)
    if failed:
        return GateDecision(
            decision=Decision.REJECT, reason=_sentence(report), failed_checks=failed
        )
    if policy is GatePolicy.MANUAL:
        return GateDecision(decision=Decision.WAIT, reason="a person decides")
    if policy is GatePolicy.STRICT and report.unacknowledged:
        return _reject(
            f"{report.unacknowledged} documents fail and nobody has accepted that"
            f"{_named(report.examples)}: mend them, or `sluice document acknowledge` them"
        )
    return GateDecision(decision=Decision.PROMOTE, reason="every check passed")


def overdue(seconds: float) -> GateDecision:
    """What a run comes to that nobody decided on."""
    return _reject(f"nobody decided within {seconds / 86_400:g} days")


def refused(verdict: Verdict | None) -> GateDecision:
    """What a person's no means."""
    actor = verdict.actor if verdict is not None else "policy"
    reason = (verdict.reason if verdict is not None else "") or "no reason was given"
    return GateDecision(
        decision=Decision.REJECT, actor=actor, reason=f"rejected by {actor}: {reason}"
    )


def approved(verdict: Verdict, seen: CheckReport, now: CheckReport) -> GateDecision:
    """What a person's yes means, if the stores still hold what was looked at."""
    decision = decide(now, GatePolicy.AUTO)
    if decision.decision is not Decision.PROMOTE:
        return decision
    if now.manifest_digest != seen.manifest_digest:
        return GateDecision(
            decision=Decision.REJECT,
            reason="what is staged has changed since it was approved",
            failed_checks=("manifest digest",),
        )
    return GateDecision(
        decision=Decision.PROMOTE, actor=verdict.actor, reason=verdict.reason or "approved"
    )


def _reject(reason: str) -> GateDecision:
    return GateDecision(decision=Decision.REJECT, reason=reason)


def _named(examples: Sequence[str]) -> str:
    return f" ({', '.join(examples)} …)" if examples else ""


def _sentence(report: CheckReport) -> str:
    wrong = [
        f"{check.name}: expected {check.expected}, found {check.found}"
        for check in report.checks
        if not check.passed
    ]
    return "; ".join(wrong)
