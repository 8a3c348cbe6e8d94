"""The gate: checking a run against a policy, rule by rule.

An unknown value fails a rule unless the policy allows it: an unknown cost is not zero, and a run that was not observed
may have failures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from critiqor.diagnosis.detectors import CONTRACT_VIOLATION
from critiqor.diagnosis.scoring import judge
from critiqor.model.diagnosis import ContractResult, Diagnosis, Finding, severity_rank
from critiqor.model.formatting import counted, format_place, format_session, format_sessions, list_names
from critiqor.model.report import GateResult, RuleResult
from critiqor.model.verdict import Integrity, why_unobserved
from critiqor.policy.policy_file import ALL_EXTENSIONS, Policy, given_rules, is_counted, normalized


def counting_findings(policy: Policy, diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings that count under a policy."""
    counted_types = (each for each in diagnosis.failure_analysis.findings if each.type not in policy.allowed_types)
    return [each for each in counted_types if each.extension is None or is_counted(policy, each.extension.package)]


def apply_policy(
    policy: Policy, diagnosis: Diagnosis, integrity: Integrity, contracts: Sequence[ContractResult] = ()
) -> GateResult:
    """Check a run against a policy. `integrity` says whether the evidence of the run is still what was sealed.

    `contracts` are the results of the contracts of the policy.
    """
    findings = counting_findings(policy, diagnosis)
    intact = [_intact(integrity)] if policy.require_intact else []
    intact += [_signed(integrity)] if policy.require_signed else []
    rules = (rule for rule in given_rules(policy) if rule in _CHECKS)
    results = [*intact, *(_CHECKS[rule](policy, diagnosis, findings) for rule in rules)]
    if policy.contracts and CONTRACT_VIOLATION not in policy.allowed_types:
        results.append(_contracts(policy, contracts))
    if not integrity.is_intact:
        results = [_unproven(result) if result.rule == "min_trust" else result for result in results]
    return GateResult(
        run_id=diagnosis.run_id,
        passed=all(result.passed for result in results),
        rules=results,
        sessions=format_sessions(diagnosis) if integrity.is_intact else None,
        checks=integrity.checks,
    )


def _contracts(policy: Policy, results: Sequence[ContractResult]) -> RuleResult:
    """Check that every contract is known to hold: one that could not be evaluated may be violated."""
    known = {result.id: result for result in results}
    broken = [each.id for each in policy.contracts if each.id not in known or not known[each.id].holds]
    texts = []
    for name in broken:
        result = known.get(name)
        if result is None:
            texts.append(f"{name} was not checked")
        elif result.violations:
            texts.append(f"{name} is violated {counted(result.violations, 'time')}")
        else:
            texts.append(f"{name} could not be evaluated on {result.problem_event}: {result.problem}")
    total = counted(len(policy.contracts), "contract")
    text = "; ".join(texts) or f"{total} checked, none is violated"
    ids = [each.id for each in policy.contracts]
    return RuleResult(rule="contracts", limit=ids, actual=broken, passed=not broken, explanation=text)


def _intact(integrity: Integrity) -> RuleResult:
    intact, text = integrity.is_intact, integrity.explanation
    return RuleResult(rule="require_intact", limit=True, actual=intact, passed=intact, explanation=text)


def _signed(integrity: Integrity) -> RuleResult:
    signatures = [check for check in integrity.checks if check.name.endswith("_signature")]
    signed = len(signatures) == 2 and all(check.state == "passed" for check in signatures)
    text = "; ".join(check.explanation for check in signatures) or "the signatures were not checked"
    return RuleResult(rule="require_signed", limit=True, actual=signed, passed=signed, explanation=text)


def _unproven(result: RuleResult) -> RuleResult:
    return msgspec.structs.replace(result, explanation=f"not verified: {result.explanation}")


def _observed(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    seen = diagnosis.trust_score is not None
    text = "the agent was observed" if seen else f"{why_unobserved(diagnosis)}, so there is no trust score"
    return RuleResult(rule="require_observed", limit=True, actual=seen, passed=seen, explanation=text)


def _finished(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    state, cut_short = diagnosis.outcome.state, diagnosis.outcome.cut_short
    finished = diagnosis.outcome.has_finished
    how = f"{state.replace('_', ' ')}, {diagnosis.outcome.known_from}"
    if finished:
        text = f"the run finished: {how}"
    elif state == "unknown":
        text = f"the end of the run was not observed: {diagnosis.outcome.known_from}"
    else:
        text = f"{'an agent was still working' if cut_short else 'the run did not finish'}: {how}"
    return RuleResult(rule="require_finished", limit=True, actual=finished, passed=finished, explanation=text)


def _trust(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, trust = policy.min_trust or 0, diagnosis.trust_score
    if trust is None:
        text = f"trust is unknown: {why_unobserved(diagnosis)}"
        passed = not policy.require_observed
        return RuleResult(rule="min_trust", limit=limit, actual=None, passed=passed, explanation=text)
    text, sessions = "", diagnosis.sessions
    if findings != diagnosis.failure_analysis.own_findings:
        # Computed again from the severities: once trust is 0, further findings cost fewer points than their severity
        # implies.
        judgement = judge(findings)
        counted_own = sum(finding.extension is None for finding in findings)
        left_out = counted_own < len(diagnosis.failure_analysis.own_findings)
        added = counted_own < len(findings)
        how = [*(["without findings of allowed types"] * left_out), *(["with findings of extensions"] * added)]
        text = f" {' and '.join(how)}, {trust} {'without them' if added else 'with them'}"
        trust, sessions = judgement.trust or 0, judgement.sessions
    if diagnosis.has_several_sessions and sessions:
        worst = f" in session {format_session(sessions[0].session_key)}, the worst of {diagnosis.sessions_total}"
        text = f"{worst},{text}" if text else worst
    text = f"trust is {trust}{text}, at least {limit} required"
    return RuleResult(rule="min_trust", limit=limit, actual=trust, passed=trust >= limit, explanation=text)


def _confidence(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, confidence = policy.min_confidence or 0, diagnosis.confidence_score
    text = f"confidence is {confidence}, at least {limit} required"
    passed = confidence >= limit
    return RuleResult(rule="min_confidence", limit=limit, actual=confidence, passed=passed, explanation=text)


def _severity(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit = policy.max_severity or "critical"
    beyond = [finding for finding in findings if severity_rank(finding.severity) < severity_rank(limit)]
    worst = min(findings, key=lambda finding: severity_rank(finding.severity), default=None)
    if beyond and worst:
        number = f"{counted(len(beyond), 'finding')} above {limit}"
        place = format_place(worst, diagnosis)
        text = f"{number}, the most severe is {worst.severity}: {worst.type}, {worst.title}" + f" ({place})" * bool(
            place
        )
    else:
        text = f"no finding is above {limit}"
    actual = worst.severity if worst else None
    return RuleResult(rule="max_severity", limit=limit, actual=actual, passed=not beyond, explanation=text)


def _forbidden(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    found = sorted({finding.type for finding in findings} & set(policy.forbidden_types))
    named = [f"{type_}{_sessions_with(type_, diagnosis, findings)}" for type_ in found]
    text = f"found forbidden types: {', '.join(named)}" if found else "no finding of a forbidden type"
    limit = list(policy.forbidden_types)
    return RuleResult(rule="forbidden_types", limit=limit, actual=found, passed=not found, explanation=text)


def _sessions_with(type_: str, diagnosis: Diagnosis, findings: list[Finding]) -> str:
    """Return the sessions with a type of finding, for a text; empty if there are not several sessions."""
    sessions = dict.fromkeys(
        format_session(finding.session_key)
        for finding in findings
        if finding.type == type_ and not finding.is_of_recording
    )
    return f" (session {list_names(sessions)})" if diagnosis.has_several_sessions and sessions else ""


def _extensions(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    """Check that the detectors of counted extensions have run: without them, their findings are unknown."""
    counted_runs = [run for run in diagnosis.extensions if is_counted(policy, run.package)]
    ran = {normalized(run.package) for run in counted_runs}
    missing = [name for name in policy.count_extensions if name != ALL_EXTENSIONS and normalized(name) not in ran]
    problems = [
        *(f"{name} did not take part in this diagnosis" for name in missing),
        *(run.problem for run in counted_runs if run.problem is not None),
    ]
    text = "; ".join(problems) or f"{counted(len(counted_runs), 'detector')} of extensions ran"
    return RuleResult(
        rule="count_extensions",
        limit=list(policy.count_extensions),
        actual=sorted({run.package for run in counted_runs if run.problem is None}),
        passed=not problems,
        explanation=text,
    )


def _findings(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, number = policy.max_findings or 0, len(findings)
    text = f"{counted(number, 'finding')}, at most {limit} allowed"
    return RuleResult(rule="max_findings", limit=limit, actual=number, passed=number <= limit, explanation=text)


def _cost(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    cost = diagnosis.cost_analysis
    result = _spent("max_cost_usd", policy.max_cost_usd or 0, cost.cost_usd, cost.unknown_cost, policy)
    if not cost.cost_is_estimated or result.actual is None:
        return result
    text = f"{result.explanation}; estimated from list prices of {cost.list_prices_date}"
    return msgspec.structs.replace(result, explanation=text, is_estimated=True)


def _tokens(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    cost = diagnosis.cost_analysis
    return _spent("max_tokens", policy.max_tokens or 0, cost.total_tokens, cost.unknown_usage, policy)


def _spent(rule: str, limit: float, reported: float | None, unknown: str | None, policy: Policy) -> RuleResult:
    """Check a limit on cost or tokens. If a part of the amount is unknown, the reported amount is a lower bound."""
    what, formatted = ("cost", _dollars) if rule == "max_cost_usd" else ("tokens", str)
    if reported is not None and (reported > limit or not unknown):
        lower_bound = "at least " if unknown else ""
        text = f"{what}: {lower_bound}{formatted(reported)}, at most {formatted(limit)} allowed"
        return RuleResult(rule=rule, limit=limit, actual=reported, passed=reported <= limit, explanation=text)
    passed = policy.allow_unknown_cost
    verdict = (
        "the policy allows unknown values" if passed else "an unknown value fails this rule (see allow_unknown_cost)"
    )
    text = f"{what}: unknown, because {unknown}; {verdict}"
    return RuleResult(rule=rule, limit=limit, actual=None, passed=passed, explanation=text)


def _dollars(amount: float) -> str:
    return f"${amount:.6f}".rstrip("0").rstrip(".")


_CHECKS: dict[str, Callable[[Policy, Diagnosis, list[Finding]], RuleResult]] = {
    "require_observed": _observed,
    "require_finished": _finished,
    "count_extensions": _extensions,
    "min_trust": _trust,
    "min_confidence": _confidence,
    "max_severity": _severity,
    "forbidden_types": _forbidden,
    "max_findings": _findings,
    "max_cost_usd": _cost,
    "max_tokens": _tokens,
}
"""The check of every rule about the diagnosis. `require_intact` and `require_signed` are checked before them."""
