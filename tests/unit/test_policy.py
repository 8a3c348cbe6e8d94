from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from diagnosed import diagnoses, diagnosis, finding
from hypothesis import given
from reports import CHANGED, INTACT

from critiqor.model.diagnosis import ContractResult, Diagnosis, Outcome, OutcomeState
from critiqor.model.report import RuleResult
from critiqor.model.usage import ModelUsage
from critiqor.policy.contract import Contract
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import DEFAULT_POLICY, TABLES, Policy, PolicyError, parse_policy

NOTHING_REQUIRED = "require_intact = false\nrequire_observed = false\nrequire_finished = false"
TYPES = {"process_failure": "…", "tool_failure": "…", "loop": "…"}


def answer(run: Diagnosis, **policy: Any) -> RuleResult:
    """Return the result of the last rule of a policy, which is the one under test."""
    return apply_policy(Policy(**policy), run, INTACT).rules[-1]


def parsed(text: str | bytes, form: Literal["toml", "json"] = "toml") -> Policy:
    return parse_policy(text.encode() if isinstance(text, str) else text, form, TYPES)


def test_policy_is_read_from_toml_and_json() -> None:
    settings = {
        "min_trust": 80,
        "min_confidence": 0,
        "max_severity": "low",
        "forbidden_types": ["loop"],
        "allowed_types": ["tool_failure"],
        "max_findings": 0,
        "max_cost_usd": 1,
        "max_tokens": 5000,
        "require_intact": False,
        "require_signed": False,
        "require_observed": False,
        "require_finished": False,
        "allow_unknown_cost": True,
        "count_extensions": ["*"],
    }
    assert settings.keys() | set(TABLES) == set(Policy.__struct_fields__)
    toml = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    policy = parsed(toml)
    assert policy == parsed(json.dumps(settings), "json")
    assert (policy.min_trust, policy.max_cost_usd, policy.forbidden_types) == (80, 1.0, ("loop",))
    assert len(apply_policy(policy, diagnosis(), INTACT).rules) == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_truts = 70", "there is no rule 'min_truts' (did you mean 'min_trust'?); the rules are min_trust, "),
        ("xyz = 1", "there is no rule 'xyz'; the rules are"),
        ("min_trust = '70'", "min_trust: expected int, got str"),
        ("min_trust = true", "min_trust: expected int, got bool"),
        ("min_trust = 101", "min_trust: expected int <= 100"),
        ("min_confidence = -1", "min_confidence: expected int >= 0"),
        ("max_cost_usd = inf", "max_cost_usd: expected float <="),
        ("max_cost_usd = nan", "max_cost_usd: expected float >= 0"),
        ("max_tokens = 1.5", "max_tokens: expected int, got float"),
        ("max_severity = 'hihg'", "it must be one of critical, high, medium, low, info"),
        ("forbidden_types = 'loop'", "forbidden_types: expected array, got str"),
        ("forbidden_types = [1]", "forbidden_types[0]: expected str, got int"),
        ("forbidden_types = ['lop']", "forbidden_types: there is no failure type 'lop' (did you mean 'loop'?)"),
        ("allowed_types = ['x']", "allowed_types: there is no failure type 'x'; the types are loop, process_failure"),
        ("forbidden_types = ['loop']\nallowed_types = ['loop']", "loop is both in"),
        ("require_observed = 'yes'", "require_observed: expected bool, got str"),
        (NOTHING_REQUIRED, "has no rules"),
        (
            f"{NOTHING_REQUIRED}\nforbidden_types = []",
            "has no rules",
        ),
        (
            f"{NOTHING_REQUIRED}\nallow_unknown_cost = true",
            "has no rules",
        ),
        ("= nonsense", "cannot be read as TOML"),
        (b"\xff\xfe", "cannot be read as TOML"),
        (b"x = " + b"[" * 20_000, "cannot be read as TOML"),
        (b"max_tokens = " + b"9" * 5000, "cannot be read as TOML"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_mistake_in_a_policy_is_named(text: str | bytes, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        parsed(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "must be a table of rules"),
        ("[" * 20_000, "cannot be read as JSON"),
        ('{"min_trust": null}', "min_trust: it has no value"),
        ('{"max_cost_usd": NaN}', "cannot be read as JSON"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_mistake_in_a_json_policy_is_named(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        parsed(text, "json")
    assert said in str(error.value)


def test_default_policy() -> None:
    assert apply_policy(DEFAULT_POLICY, diagnosis(trust=70), INTACT).passed
    assert not apply_policy(DEFAULT_POLICY, diagnosis("run_001", trust=69), INTACT).passed
    assert apply_policy(DEFAULT_POLICY, diagnosis("run_001", finding(severity="medium"), trust=85), INTACT).passed
    assert not apply_policy(DEFAULT_POLICY, diagnosis("run_001", finding(severity="high"), trust=85), INTACT).passed
    blind = apply_policy(DEFAULT_POLICY, diagnosis(trust=None, confidence=0), INTACT)
    assert [rule.rule for rule in blind.rules if not rule.passed] == ["require_observed", "min_trust", "min_confidence"]
    asked = ["require_intact", "require_observed", "require_finished", "min_trust", "min_confidence", "max_severity"]
    assert [rule.rule for rule in blind.rules] == asked
    assert not apply_policy(DEFAULT_POLICY, diagnosis(confidence=49), INTACT).passed, "nearly nothing was seen"


def test_empty_policy_asks_only_that_the_run_is_proven_and_was_observed_to_its_end() -> None:
    policy = parsed("")
    asked = ["require_intact", "require_observed", "require_finished"]
    assert [rule.rule for rule in apply_policy(policy, diagnosis(trust=0), INTACT).rules] == asked
    assert not apply_policy(policy, diagnosis(trust=None), INTACT).passed


@pytest.mark.parametrize(
    ("state", "cut_short", "finished"),
    [
        ("completed", False, True),
        ("completed", None, True),
        ("completed", True, False),
        ("failed", False, True),
        ("failed", True, False),
        ("interrupted", True, False),
        ("interrupted", None, False),
        ("interrupted", False, True),
        ("still_running", True, False),
        ("still_running", None, False),
        ("still_running", False, True),
        ("timed_out", False, False),
        ("unknown", False, False),
    ],
)
def test_run_whose_end_was_not_seen_or_not_reached_passes_only_where_the_policy_says_so(
    state: OutcomeState, cut_short: bool | None, finished: bool
) -> None:
    run = msgspec.structs.replace(diagnosis(), outcome=Outcome(state, "what was seen", cut_short))
    assert apply_policy(DEFAULT_POLICY, run, INTACT).passed is finished
    rule = apply_policy(DEFAULT_POLICY, run, INTACT).rules[2]
    assert (rule.rule, rule.passed, rule.actual) == ("require_finished", finished, finished)
    assert "what was seen" in rule.explanation
    assert apply_policy(Policy(min_trust=70, require_finished=False), run, INTACT).passed


def test_trust_and_confidence_at_their_limits() -> None:
    assert answer(diagnosis(trust=70), min_trust=70).passed
    low = answer(diagnosis(trust=69), min_trust=70)
    assert (low.passed, low.limit, low.actual) == (False, 70, 69)
    assert low.explanation == "trust is 69, at least 70 required"
    assert answer(diagnosis(trust=0), min_trust=0).passed
    assert not answer(diagnosis(confidence=49), min_confidence=50).passed
    assert answer(diagnosis(confidence=50), min_confidence=50).passed


def test_run_without_trust_score_passes_only_where_the_policy_says_so() -> None:
    assert not answer(diagnosis(trust=None), min_trust=0).passed
    policy = Policy(min_trust=70, require_observed=False, require_finished=False)
    allowed = apply_policy(policy, diagnosis(trust=None), INTACT)
    assert allowed.passed
    assert allowed.rules[-1].actual is None


def test_worst_severity() -> None:
    run = diagnosis("run_001", finding("loop", "medium"), finding("tool_failure:exec", "critical", title="It broke"))
    failed = answer(run, max_severity="medium")
    assert (failed.passed, failed.actual) == (False, "critical")
    assert failed.explanation == "1 finding above medium, the most severe is critical: tool_failure, It broke"
    assert answer(run, max_severity="critical").passed
    none = answer(diagnosis(), max_severity="info")
    assert (none.passed, none.actual) == (True, None)


def test_forbidden_types() -> None:
    run = diagnosis("run_001", finding("loop", "info"), finding("loop:b", "low"))
    failed = answer(run, forbidden_types=("loop", "process_failure"))
    assert (failed.passed, failed.actual, failed.limit) == (False, ["loop"], ["loop", "process_failure"])
    assert answer(run, forbidden_types=("process_failure",)).passed


def test_allowed_types_do_not_count_and_cost_no_trust() -> None:
    run = diagnosis("run_001", finding("tool_failure:x", "high", 30), finding("loop", "low", 5), trust=65)
    policy = Policy(min_trust=90, max_severity="low", max_findings=1, allowed_types=("tool_failure",))
    result = apply_policy(policy, run, INTACT)
    assert result.passed
    trust = next(rule for rule in result.rules if rule.rule == "min_trust")
    assert trust.actual == 95
    assert trust.explanation == "trust is 95 without findings of allowed types, 65 with them, at least 90 required"


def test_trust_is_scored_again_without_allowed_types_even_if_it_was_zero() -> None:
    loops = [finding(f"loop:{number}", "critical", 50) for number in (1, 2)]
    # It took no points because none were left, but it counts once the loops are allowed.
    run = diagnosis("run_001", *loops, finding("tool_failure", "high", 0), trust=0)
    assert answer(run, min_trust=70, allowed_types=("loop",)).actual == 70
    assert not answer(run, min_trust=71, allowed_types=("loop",)).passed
    assert answer(run, min_trust=0, allowed_types=("process_failure",)).actual == 0


def test_number_of_findings() -> None:
    run = diagnosis("run_001", finding("loop"), finding("loop"))
    assert answer(run, max_findings=2).passed
    assert answer(run, max_findings=1).actual == 2
    assert not answer(run, max_findings=1).passed
    assert answer(diagnosis(), max_findings=0).passed


def test_cost_and_tokens() -> None:
    run = diagnosis(cost_usd=0.5, input_tokens=600, output_tokens=100, cache_read_tokens=200, cache_write_tokens=100)
    assert answer(run, max_cost_usd=0.5).passed
    over = answer(run, max_cost_usd=0.25)
    assert (over.passed, over.explanation) == (False, "cost: $0.5, at most $0.25 allowed")
    assert answer(run, max_tokens=1000).actual == 1000
    assert answer(run, max_tokens=1000).passed
    assert not answer(run, max_tokens=999).passed
    assert answer(diagnosis(cost_usd=0.0), max_cost_usd=0.0).passed


def test_large_numbers_are_written_without_exponent() -> None:
    assert (
        "tokens: 12345778, at most 10000000"
        in answer(diagnosis(input_tokens=12345678, output_tokens=100), max_tokens=10_000_000).explanation
    )


def test_unknown_cost_fails_the_limit() -> None:
    unknown = answer(diagnosis(cost_usd=None), max_cost_usd=1000.0)
    assert (unknown.passed, unknown.actual) == (False, None)
    assert (
        unknown.explanation
        == "cost: unknown, because no price is known; an unknown value fails this rule (see allow_unknown_cost)"
    )
    assert answer(diagnosis(cost_usd=None), max_cost_usd=0.0, allow_unknown_cost=True).passed


def test_model_without_a_price_makes_the_cost_unknown() -> None:
    models = [
        ModelUsage(provider="p", model="priced", input_tokens=5, cost_usd=0.1),
        ModelUsage(provider="p", model="free?", input_tokens=5),
        ModelUsage(provider=None, model=None, model_calls=1),
    ]
    run = diagnosis(cost_usd=0.1, per_model=models)
    unknown = answer(run, max_cost_usd=1.0)
    assert (unknown.passed, unknown.actual) == (False, None)
    assert "no price is known for free?" in unknown.explanation
    assert "at least $0.1" in answer(run, max_cost_usd=0.05).explanation
    assert answer(run, max_tokens=100).passed


def test_incomplete_cost_fails_once_its_known_part_is_above_the_limit() -> None:
    half = diagnosis(cost_usd=0.5, input_tokens=500, output_tokens=0, model_calls_without_usage=1)
    for policy in ({"max_cost_usd": 0.4}, {"max_tokens": 400}):
        over = answer(half, allow_unknown_cost=True, **policy)
        assert not over.passed
        assert "at least" in over.explanation
    for policy in ({"max_cost_usd": 0.6}, {"max_tokens": 600}):
        unknown = answer(half, **policy)
        assert (unknown.passed, unknown.actual) == (False, None)
        assert "1 model call reported no usage" in unknown.explanation
        assert answer(half, allow_unknown_cost=True, **policy).passed


STRICT = Policy(min_trust=100, min_confidence=100, max_severity="info", max_findings=0, max_cost_usd=0.0, max_tokens=0)
LOOSE = Policy(
    min_trust=0, min_confidence=0, max_severity="critical", max_findings=9, max_cost_usd=1e6, max_tokens=10**10
)


@given(diagnoses)
def test_what_passes_a_strict_policy_passes_a_loose_one(run: Diagnosis) -> None:
    strict, loose = apply_policy(STRICT, run, INTACT), apply_policy(LOOSE, run, INTACT)
    for one, other in zip(strict.rules, loose.rules, strict=True):
        assert one.rule == other.rule
        assert other.passed or not one.passed
    assert strict.passed == all(rule.passed for rule in strict.rules)


def test_contracts_must_be_known_to_hold() -> None:
    rules = tuple(Contract(id=name, never='call.tool == "x"') for name in ("kept", "broken", "unknown", "gone"))

    def result(name: str, **counts: Any) -> ContractResult:
        return ContractResult(id=name, definition={}, **{"violations": 0, **counts})

    kept, broken = result("kept"), result("broken", violations=2)
    unknown = result("unknown", not_evaluated=3, problem="x: no y", problem_event="evt_1")
    checked = apply_policy(Policy(contracts=rules), diagnosis(), INTACT, [kept, broken, unknown]).rules[-1]
    assert (checked.rule, checked.passed, checked.actual) == ("contracts", False, ["broken", "unknown", "gone"])
    reasons = "broken is violated 2 times; unknown could not be evaluated on evt_1: x: no y; gone was not checked"
    assert checked.explanation == reasons
    only_kept = apply_policy(Policy(contracts=rules[:1]), diagnosis(), INTACT, [kept]).rules[-1]
    assert (only_kept.passed, only_kept.explanation) == (True, "1 contract checked, none is violated")
    assert apply_policy(Policy(contracts=rules, allowed_types=("contract_violation",)), diagnosis(), INTACT).passed


def test_evidence_that_is_not_what_was_sealed_passes_only_where_the_policy_says_so() -> None:
    result = apply_policy(DEFAULT_POLICY, diagnosis(), CHANGED)
    assert not result.passed
    (failed,) = [rule for rule in result.rules if not rule.passed]
    assert (failed.rule, failed.limit, failed.actual) == ("require_intact", True, False)
    assert failed.explanation == "the evidence was changed after sealing: session.json was changed"
    assert apply_policy(Policy(min_trust=70, require_intact=False), diagnosis(), CHANGED).passed
