"""The gate: is a run good enough? A policy says what is wanted, and every rule of it is answered by itself.

What is unknown passes no rule unless the policy says so: an unknown cost is not a small one, and a run that was not
observed is not a clean one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from critiqor.comparison.figures import came_to_its_end, rank
from critiqor.diagnosis.scoring import trust_points
from critiqor.model.diagnosis import SEVERITIES, Diagnosis, Finding, Severity
from critiqor.model.formatting import counted
from critiqor.model.gate import GateResult, RuleResult
from critiqor.model.integrity import Integrity
from critiqor.model.measures import total_tokens, unknown_cost, unknown_usage

Score = Annotated[int, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0)]
# The upper bound keeps infinity out, which TOML can write.
Money = Annotated[float, Meta(ge=0, le=1e12)]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a run must be like. A rule that is left out is not asked."""

    min_trust: Score | None = None
    """The least trust score; what findings of allowed types cost of it does not count."""
    min_confidence: Score | None = None
    """The least confidence score."""
    max_severity: Severity | None = None
    """The worst severity that a finding may have."""
    forbidden_types: tuple[str, ...] = ()
    """Types of which there may be no finding."""
    allowed_types: tuple[str, ...] = ()
    """Types whose findings do not count."""
    max_findings: Count | None = None
    """How many findings there may be."""
    max_cost_usd: Money | None = None
    """How much money it may cost."""
    max_tokens: Count | None = None
    """How many tokens it may use, read and written, cached or not."""
    require_intact: bool = True
    """Whether a run fails whose evidence is not what was sealed: what was concluded from it proves nothing."""
    require_observed: bool = True
    """Whether a run without a trust score fails."""
    require_finished: bool = True
    """Whether a run fails whose end was not seen, or that did not come to it: what would have come is unknown."""
    allow_unknown_cost: bool = False
    """Whether a run whose cost or tokens are unknown passes `max_cost_usd` and `max_tokens`."""


DEFAULT_POLICY = Policy(min_trust=70, min_confidence=50, max_severity="medium")
"""What is asked where no policy is given. Below that confidence too little was seen for a verdict: readiness has the
same limit."""


class PolicyError(ValueError):
    """The policy cannot be used; says which key is wrong, and what would be right."""


def parse_policy(content: bytes, form: Literal["toml", "json"], known_types: Collection[str]) -> Policy:
    """A policy from the content of its file. Raises `PolicyError`."""
    try:
        document = tomllib.loads(content.decode()) if form == "toml" else msgspec.json.decode(content)
    # ValueError: neither TOML nor JSON, not UTF-8, or a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"it cannot be read as {form.upper()}: {error}") from error
    if not isinstance(document, dict):
        raise PolicyError("it must be a table of rules")
    _check_keys(document)
    try:
        policy = msgspec.convert(document, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(_plainly(error)) from error
    _check_types(policy, known_types)
    if not _rules(policy):
        raise PolicyError("it asks nothing, so every run would pass")
    return policy


def counting_findings(policy: Policy, diagnosis: Diagnosis) -> list[Finding]:
    """The findings that the rules of a policy look at."""
    return [finding for finding in diagnosis.failure_analysis.findings if finding.type not in policy.allowed_types]


def apply_policy(policy: Policy, diagnosis: Diagnosis, integrity: Integrity) -> GateResult:
    """Hold a run against a policy; `integrity` says whether its evidence is still what was sealed."""
    findings = counting_findings(policy, diagnosis)
    intact = [_intact(integrity)] if policy.require_intact else []
    asked = (rule for rule in _rules(policy) if rule in _ANSWERS)
    results = [*intact, *(_ANSWERS[rule](policy, diagnosis, findings) for rule in asked)]
    if not integrity.is_intact:
        results = [_unproven(result) if result.rule == "min_trust" else result for result in results]
    return GateResult(run_id=diagnosis.run_id, passed=all(result.passed for result in results), rules=results)


def _rules(policy: Policy) -> list[str]:
    """The rules that a policy asks. A limit of 0 is one; `false` and an empty list are none."""
    asked = ((rule, getattr(policy, rule)) for rule in ("require_intact", *_ANSWERS))
    return [rule for rule, limit in asked if limit is not None and limit is not False and limit != ()]


def _check_keys(document: Mapping[str, Any]) -> None:
    known = Policy.__struct_fields__
    for key, value in document.items():
        if key not in known:
            raise PolicyError(f"there is no rule {key!r}{_meant(key, known)}; the rules are {', '.join(known)}")
        # An empty limit, as a template leaves it, must not switch a rule off.
        if value is None:
            raise PolicyError(f"{key} has no value; leave it out where it is not wanted")


def _check_types(policy: Policy, known: Collection[str]) -> None:
    for key in ("forbidden_types", "allowed_types"):
        for name in getattr(policy, key):
            if name not in known:
                types = ", ".join(sorted(known))
                raise PolicyError(
                    f"{key}: there is no failure type {name!r}{_meant(name, known)}; the types are {types}"
                )
    if both := sorted(set(policy.forbidden_types) & set(policy.allowed_types)):
        raise PolicyError(f"{both[0]} is both in forbidden_types and in allowed_types")


def _meant(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _plainly(error: msgspec.ValidationError) -> str:
    what, _, where = str(error).replace("`", "").replace(" | null", "").partition(" - at $.")
    choice = f"; it is one of {', '.join(SEVERITIES)}" if where == "max_severity" else ""
    return f"{where}: {what[:1].lower()}{what[1:]}{choice}"


def _intact(integrity: Integrity) -> RuleResult:
    intact, told = integrity.is_intact, integrity.explanation
    return RuleResult(rule="require_intact", limit=True, actual=intact, passed=intact, explanation=told)


def _unproven(result: RuleResult) -> RuleResult:
    return msgspec.structs.replace(result, explanation=f"not proven: {result.explanation}")


def _observed(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    seen = diagnosis.trust_score is not None
    told = "the agent was observed" if seen else "the agent was not observed, so there is no trust score"
    return RuleResult(rule="require_observed", limit=True, actual=seen, passed=seen, explanation=told)


def _finished(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    state, cut_short = diagnosis.outcome.state, diagnosis.outcome.cut_short
    finished = came_to_its_end(diagnosis.outcome)
    how = f"{state.replace('_', ' ')}, {diagnosis.outcome.known_from}"
    if finished:
        told = f"it came to its end: {how}"
    elif state == "unknown":
        told = f"its end was not seen: {diagnosis.outcome.known_from}"
    else:
        told = f"{'an agent was still at work' if cut_short else 'it did not come to its end'}: {how}"
    return RuleResult(rule="require_finished", limit=True, actual=finished, passed=finished, explanation=told)


def _trust(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, trust = policy.min_trust or 0, diagnosis.trust_score
    if trust is None:
        told = "trust is unknown: the agent was not observed"
        passed = not policy.require_observed
        return RuleResult(rule="min_trust", limit=limit, actual=None, passed=passed, explanation=told)
    told = ""
    if len(findings) < len(diagnosis.failure_analysis.findings):
        # Scored anew: where trust was used up, a finding took fewer points than it costs by itself.
        lost = sum(trust_points(finding.type, finding.severity, 100) for finding in findings)
        told = f" without allowed types, {trust} with them"
        trust = max(0, 100 - lost)
    told = f"trust is {trust}{told}; at least {limit} is wanted"
    return RuleResult(rule="min_trust", limit=limit, actual=trust, passed=trust >= limit, explanation=told)


def _confidence(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, confidence = policy.min_confidence or 0, diagnosis.confidence_score
    told = f"confidence is {confidence}, at least {limit} is wanted"
    passed = confidence >= limit
    return RuleResult(rule="min_confidence", limit=limit, actual=confidence, passed=passed, explanation=told)


def _severity(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit = policy.max_severity or "critical"
    beyond = [finding for finding in findings if rank(finding.severity) < rank(limit)]
    worst = min(findings, key=lambda finding: rank(finding.severity), default=None)
    if beyond and worst:
        number = f"{counted(len(beyond), 'finding')} worse than {limit}"
        told = f"{number}, the worst is {worst.severity}: {worst.type}, {worst.title}"
    else:
        told = f"no finding is worse than {limit}"
    actual = worst.severity if worst else None
    return RuleResult(rule="max_severity", limit=limit, actual=actual, passed=not beyond, explanation=told)


def _forbidden(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    found = sorted({finding.type for finding in findings} & set(policy.forbidden_types))
    told = f"there are findings of {', '.join(found)}" if found else "there is no finding of a forbidden type"
    limit = list(policy.forbidden_types)
    return RuleResult(rule="forbidden_types", limit=limit, actual=found, passed=not found, explanation=told)


def _findings(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    limit, number = policy.max_findings or 0, len(findings)
    told = f"{counted(number, 'finding')}, at most {limit} may be"
    return RuleResult(rule="max_findings", limit=limit, actual=number, passed=number <= limit, explanation=told)


def _cost(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    cost = diagnosis.cost_analysis
    return _spent("max_cost_usd", policy.max_cost_usd or 0, cost.cost_usd, unknown_cost(cost), policy)


def _tokens(policy: Policy, diagnosis: Diagnosis, findings: list[Finding]) -> RuleResult:
    cost = diagnosis.cost_analysis
    return _spent("max_tokens", policy.max_tokens or 0, total_tokens(cost), unknown_usage(cost), policy)


def _spent(rule: str, limit: float, told: float | None, untold: str | None, policy: Policy) -> RuleResult:
    """A rule about what was spent. What was told is the least that it can have been where a part was not told."""
    what, written = ("cost", _dollars) if rule == "max_cost_usd" else ("tokens", str)
    if told is not None and (told > limit or not untold):
        words = f"{what}: {'at least ' if untold else ''}{written(told)}, at most {written(limit)} allowed"
        return RuleResult(rule=rule, limit=limit, actual=told, passed=told <= limit, explanation=words)
    passed = policy.allow_unknown_cost
    words = f"{what}: unknown, because {untold}; {'the policy allows that' if passed else 'that is not 0'}"
    return RuleResult(rule=rule, limit=limit, actual=None, passed=passed, explanation=words)


def _dollars(amount: float) -> str:
    return f"${amount:.6f}".rstrip("0").rstrip(".")


_ANSWERS: dict[str, Callable[[Policy, Diagnosis, list[Finding]], RuleResult]] = {
    "require_observed": _observed,
    "require_finished": _finished,
    "min_trust": _trust,
    "min_confidence": _confidence,
    "max_severity": _severity,
    "forbidden_types": _forbidden,
    "max_findings": _findings,
    "max_cost_usd": _cost,
    "max_tokens": _tokens,
}
"""Every rule about the diagnosis in the order in which it is answered; before them it is asked whether the diagnosis
can be proven. The other keys of a policy only say how."""
