"""Invariants of every diagnosis: points, ids, chains, sums, order, and the same bytes from the same evidence."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from math import isclose
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from diagnosed import finding as finding_of
from hypothesis import given, settings
from hypothesis import strategies as st
from story import Story, diagnose
from test_detector_properties import CASES

from critiqor.cli.texts.show import cost_text
from critiqor.diagnosis import FAILURE_TYPES, Diagnoser
from critiqor.diagnosis.causal_graph import LEADS_TO
from critiqor.diagnosis.detection import MAX_IDLE_EVENTS
from critiqor.diagnosis.drafts.draft import RUN_AGAIN
from critiqor.diagnosis.playbook import playbook
from critiqor.diagnosis.scoring import MAX_AGENT_RUNS, POINTS, RECORDER_TYPES, confidence_lost, readiness
from critiqor.model import SEVERITIES, Coverage, Diagnosis, Event, Finding, Usage, event_id_for, iso_from_ms
from critiqor.model.diagnosis import CausalGraph, GraphEdge, GraphNode, Relation


def gateway(kinds: list[str] | None = None) -> list[Event]:
    """Return the events of a gateway with one session for each kind of failure."""
    events: list[Event] = []
    for number, kind in enumerate(kinds if kinds is not None else CASES):
        of_agent = [event for event in CASES[kind]().events if event.source_layer != "supervisor"]
        events += [
            msgspec.structs.replace(event, session_key=f"agent:{number}:main", agent_run_id=f"run-{number}")
            for event in of_agent
        ]
    return in_order(events)


def in_order(events: list[Event]) -> list[Event]:
    """The same events, one second after the other."""
    moments = [1_794_000_000_000 + 1000 * number for number in range(len(events))]
    return [
        msgspec.structs.replace(event, event_id=event_id_for(moment, "story", 1), timestamp=iso_from_ms(moment))
        for moment, event in zip(moments, events, strict=True)
    ]


def findings_of(diagnosis: Diagnosis) -> list[Finding]:
    return diagnosis.failure_analysis.findings


EXAMPLES: dict[str, list[Event]] = {
    **{kind: CASES[kind]().events for kind in CASES},
    "everything": gateway(),
    "everything twice": in_order([*gateway(), *gateway()]),
    "nothing": [],
}


def check(diagnosis: Diagnosis, events: list[Event]) -> None:
    """What holds for every diagnosis."""
    check_scores(diagnosis)
    check_references(diagnosis, {event.event_id for event in events})
    check_graph(diagnosis)
    check_playbook(diagnosis)
    check_sums(diagnosis)
    encoded = msgspec.json.encode(diagnosis)
    assert msgspec.json.encode(msgspec.json.decode(encoded, type=Diagnosis)) == encoded


def check_scores(diagnosis: Diagnosis) -> None:
    findings = {finding.id: finding for finding in findings_of(diagnosis)}
    for session in diagnosis.sessions:
        left = 100
        counting = sorted((findings[name] for name in session.findings), key=lambda each: not each.is_of_recording)
        for finding in counting:
            counts = finding.type not in RECORDER_TYPES
            assert finding.impact.trust_points == (min(left, POINTS[finding.severity]) if counts else 0)
            left -= finding.impact.trust_points
        assert session.trust_score in (None, left)
        assert left >= 0
    scores = [session.trust_score for session in diagnosis.sessions if session.trust_score is not None]
    assert diagnosis.trust_score in (None, min(scores, default=100))
    assert {finding.session_key for finding in findings.values()} <= {
        None,
        *(session.session_key for session in diagnosis.sessions),
    }
    assert diagnosis.confidence_score == 100 - sum(diagnosis.confidence_lost.values())
    assert 0 <= diagnosis.confidence_score <= 100


def check_references(diagnosis: Diagnosis, observed: set[str]) -> None:
    findings = findings_of(diagnosis)
    assert [finding.id for finding in findings] == [f"finding_{number:03d}" for number in range(1, len(findings) + 1)]
    assert len({(finding.cause, finding.session_key) for finding in findings}) == len(findings)
    gravity = [(SEVERITIES.index(finding.severity), list(FAILURE_TYPES).index(finding.type)) for finding in findings]
    assert gravity == sorted(gravity)
    primary = diagnosis.primary_diagnosis
    worst = next((session.findings for session in diagnosis.sessions), [finding.id for finding in findings])
    assert (primary.finding_id if primary else None) == next(iter(worst), None)
    for finding in findings:
        assert finding.evidence == sorted(set(finding.evidence))
        assert set(finding.evidence) <= observed
        assert {step.event_id for step in finding.causal_chain} <= observed
        assert finding.first_bad_step is None or finding.first_bad_step in observed
        assert finding.evidence or not observed
        assert (finding.occurrences, 0 < finding.confidence <= 100) >= (1, True)
        assert [step.relation is None for step in finding.causal_chain[:1]] == [True] * bool(finding.causal_chain)
        for text in (finding.title, finding.explanation, finding.recommendation, finding.verification, finding.cause):
            assert text and is_plain(text), text


def check_graph(diagnosis: Diagnosis) -> None:
    graph = diagnosis.causal_graph
    nodes = {node.id for node in graph.nodes}
    assert len(nodes) == len(graph.nodes)
    for edge in graph.edges:
        assert {edge.source, edge.target} <= nodes
        assert edge.source != edge.target
        assert edge.relation in get_args(Relation)


def check_playbook(diagnosis: Diagnosis) -> None:
    plan = diagnosis.playbook
    assert (plan.prompt is None) == all(change.change == RUN_AGAIN for change in plan.changes)
    assert plan.prompt is None or is_plain(plan.prompt.replace("\n", " "))
    place = {change.finding_id: number for number, change in enumerate(plan.changes)}
    for edge in diagnosis.causal_graph.edges:
        if edge.source in place and edge.target in place:
            assert place[edge.source] < place[edge.target], "the cause comes before its effect"


def check_sums(diagnosis: Diagnosis) -> None:
    cost = diagnosis.cost_analysis
    for parts in (cost.per_model, cost.per_turn):
        assert len(parts) <= 100
        if len(parts) < 100:
            for name in Usage.__struct_fields__:
                known = [value for part in parts if (value := getattr(part, name)) is not None]
                assert isclose(sum(known), getattr(cost, name) or 0, abs_tol=1e-5), name
    assert sum(tool.calls for tool in cost.per_tool) == cost.tool_calls
    assert sum(tool.failed for tool in cost.per_tool) == cost.failed_tool_calls
    assert sum(tool.repeated for tool in cost.per_tool) == cost.repeated_tool_calls
    assert sum(tool.cost_usd or 0 for tool in cost.per_tool) <= (cost.cost_usd or 0) + 1e-5
    assert len(cost.per_turn) == 100 or sum(turn.tool_calls for turn in cost.per_turn) == cost.tool_calls


def is_plain(text: str) -> bool:
    """Whether a text neither controls a terminal nor turns its direction nor ends a line."""
    return not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or sign in TURNING for sign in text)


TURNING = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize("name", EXAMPLES)
def test_invariants_hold_for_every_kind_of_failure(name: str) -> None:
    check(diagnose(EXAMPLES[name]), EXAMPLES[name])


# Scores.


def test_trust_is_never_negative() -> None:
    events = [msgspec.structs.replace(event, session_key="agent:main:main") for event in EXAMPLES["everything"]]
    diagnosis = diagnose(events)
    assert diagnosis.trust_score == 0
    points = [finding.impact.trust_points for finding in findings_of(diagnosis)]
    assert sum(points) == 100
    assert 0 in points, "the last ones find no point left to take"


@pytest.mark.parametrize("kind", CASES)
def test_damage_to_the_collector_lowers_confidence_and_never_trust(kind: str) -> None:
    events = CASES[kind]().events
    whole = diagnose(events)
    damaged = diagnose(events, damaged_records=5, missing_records=7, values_cut=3, results_without_calls=2)
    assert damaged.trust_score == whole.trust_score
    assert damaged.confidence_score < whole.confidence_score
    causes = [finding.cause for finding in findings_of(damaged) if finding.type not in RECORDER_TYPES]
    assert causes == [finding.cause for finding in findings_of(whole) if finding.type not in RECORDER_TYPES]


counts = st.integers(0, 10**6)
coverages = st.builds(
    Coverage,
    imported_from=st.none() | st.just("spans"),
    entries_not_understood=counts,
    agent_events=counts,
    sources=st.dictionaries(st.sampled_from(["hooks", "transcript"]), st.booleans()),
    damaged_records=counts,
    missing_records=counts,
    requests_without_responses=counts,
    calls_without_results=counts,
    results_without_calls=counts,
    values_cut=counts,
    sealed_while_running=st.booleans(),
)


@given(coverages, st.booleans())
def test_lost_confidence_adds_up(coverage: Coverage, hollow: bool) -> None:
    lost = confidence_lost(coverage, hollow=hollow)
    assert all(points > 0 for points in lost.values())
    assert sum(lost.values()) <= 100
    assert (sum(lost.values()) == 100) >= (coverage.agent_events == 0)


@pytest.mark.parametrize(
    ("trust", "sure", "kinds", "expected"),
    [
        (None, 100, [], "unknown"),
        (100, 49, [], "unknown"),
        (100, 50, [], "ready"),
        (85, 100, ["low"], "ready"),
        (84, 100, ["low"], "review"),
        (85, 100, ["medium"], "review"),
        (70, 100, ["high"], "unsafe"),
        (50, 100, ["critical"], "unsafe"),
        (49, 100, ["low"], "unsafe"),
        (100, 80, ["info"], "ready"),
    ],
)
def test_readiness_follows_from_trust_confidence_and_the_worst_finding(
    trust: int | None, sure: int, kinds: list[str], expected: str
) -> None:
    findings = [made(severity=kind) for kind in kinds]
    assert readiness(trust, sure, findings) == expected


def test_problems_of_the_recorder_alone_never_make_a_run_unsafe() -> None:
    assert readiness(100, 60, [made("inspection_incomplete", "high")]) == "review"


def made(type_: str = "tool_loop", severity: str = "low") -> Finding:
    texts = {"title": "t", "explanation": "e", "recommendation": "r", "verification": "v"}
    return Finding(type=type_, cause=type_, severity=severity, confidence=90, evidence=[], **texts)  # type: ignore[arg-type]


# One cause, one finding.


def looping(story: Story, times: int) -> Story:
    for _ in range(times):
        story.model().calls("read", {"path": "a.txt"}, "apples")
    return story


def test_one_cause_in_several_agent_runs_is_one_finding() -> None:
    story = looping(looping(Story(), 4).turns_to("run-2"), 9)
    finding = story.only("tool_loop")
    assert (finding.occurrences, finding.severity) == (11, "high")
    assert (finding.session_key, finding.agent_run_id) == ("agent:main:main", "run-2")
    assert finding.first_bad_step is not None and finding.first_bad_step < story.events[12].event_id
    assert finding.impact.wasted_tokens == 11 * 1020
    assert story.diagnosis().cost_analysis.wasted_tokens == 11 * 1020


def test_several_causes_stay_several_findings() -> None:
    story = looping(Story(), 4)
    for _ in range(4):
        story.calls("list_files", {"folder": "b"}, "pears")
    assert len([finding for finding in story.findings() if finding.type == "tool_loop"]) == 2


def test_model_call_that_two_findings_name_is_wasted_once() -> None:
    story = Story().starts()
    for _ in range(6):
        story.model(error="HTTP 503", usage={"input": 100, "output": 1}).finishes(error="HTTP 503")
    diagnosis = story.diagnosis()
    assert {finding.type for finding in findings_of(diagnosis)} == {"provider_failure", "retry_storm"}
    assert diagnosis.cost_analysis.wasted_tokens == 606


def test_findings_beyond_the_limit_are_counted_and_not_listed() -> None:
    story = Story()
    for number in range(300):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        story.turns_to(f"run-{number}").starts().model().finishes(error=f"the {name} is on fire")
    diagnosis = story.diagnosis()
    assert len(findings_of(diagnosis)) == 200
    assert diagnosis.failure_analysis.left_out == 100
    assert diagnosis.trust_score == 0
    check(diagnosis, story.events)


# Causes and effects.


def test_no_failure_type_leads_to_itself() -> None:
    def ways(kind: str) -> Iterator[str]:
        for effect in LEADS_TO.get(kind, ()):
            yield effect
            yield from ways(effect)

    for kind in LEADS_TO:
        assert kind not in ways(kind)
        assert {kind, *ways(kind)} <= set(FAILURE_TYPES)


def test_cause_comes_before_its_effect_in_the_playbook() -> None:
    story = Story()
    for _ in range(12):
        story.model(input=50_000).calls("read", {"path": "a.txt"}, "apples")
    diagnosis = story.diagnosis()
    assert [change.finding_id for change in diagnosis.playbook.changes] == ["finding_001", "finding_002"]
    assert [finding.type for finding in findings_of(diagnosis)] == ["tool_loop", "cost_explosion"]
    assert ("finding_001", "finding_002", "exhausted") in {
        (edge.source, edge.target, edge.relation) for edge in diagnosis.causal_graph.edges
    }


def test_change_before_that_of_the_primary_diagnosis_says_why() -> None:
    story = Story().user("deploy it")
    for _ in range(6):
        story.model().fails("exec", {"command": "make deploy"}, "make: error 2")
    diagnosis = story.model().says("Done: the deployment succeeded.").finishes().diagnosis()
    primary = diagnosis.primary_diagnosis
    assert primary is not None and primary.type == "false_success_claim"
    first, second = diagnosis.playbook.changes[:2]
    assert first.reason == f"Fix this first: it caused {primary.finding_id}, the main problem."
    assert (second.finding_id, second.reason) == (primary.finding_id, None)


def test_change_that_has_nothing_to_do_with_the_primary_diagnosis_comes_after_it() -> None:
    graph = CausalGraph(
        [GraphNode(name, "finding", name) for name in ("finding_001", "finding_002", "finding_003")],
        [GraphEdge("finding_002", "finding_001", "caused")],
    )
    findings = [
        finding_of(name, severity, id=name, recommendation=name)
        for name, severity in (("finding_001", "high"), ("finding_002", "low"), ("finding_003", "medium"))
    ]
    changes = playbook("run_001", findings, findings[0], graph).changes
    assert [change.finding_id for change in changes] == ["finding_002", "finding_001", "finding_003"]
    assert [change.reason is None for change in changes] == [False, True, True]


def test_nothing_to_change_gives_no_prompt() -> None:
    diagnosis = Story().user("hello").model().says("Hello.").finishes().diagnosis()
    assert (diagnosis.playbook.changes, diagnosis.playbook.prompt) == ([], None)


def test_what_tools_print_cannot_reach_the_terminal_as_control_characters() -> None:
    nasty = "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x07 \x00\x08\x9b \u202etxt.exe\u2066 \r\n\t end\u2028"
    story = Story()
    for _ in range(3):
        story.fails(f"exec{nasty}", {"command": nasty}, f"failed: {nasty}", nasty)
    story.user(nasty).remembers(nasty, "error").model(error=nasty).says(f"Done. {nasty}").finishes(error=nasty)
    story.process(1, error=nasty)
    diagnosis = story.diagnosis()
    assert len(findings_of(diagnosis)) >= 3
    check(diagnosis, story.events)
    prompt = diagnosis.playbook.prompt or ""
    assert all(is_plain(text) for text in texts_in(msgspec.to_builtins(diagnosis)) if text != prompt)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


# Cost.


def test_unknown_price_is_not_zero() -> None:
    cost = Story().model(cost=None).says("Hello.").finishes().diagnosis().cost_analysis
    assert (cost.cost_usd, cost.input_tokens) == (None, 1000)
    assert [model.cost_usd for model in cost.per_model] == [None]


def test_price_of_zero_for_used_tokens_is_an_unknown_price() -> None:
    free = Story().model(cost=0.0).model(cost=0.0).says("Hello.").finishes().diagnosis().cost_analysis
    assert (free.model_calls, free.input_tokens, free.cost_usd) == (2, 2000, None)
    assert [model.cost_usd for model in free.per_model] == [None]
    assert free.unknown_cost == "no price is known"
    assert cost_text(free).startswith("no price known, 2,000 tokens in")
    mixed = Story().model(cost=0.0, model="local").model(cost=0.25).says("Hello.").finishes().diagnosis().cost_analysis
    assert mixed.cost_usd == 0.25
    assert mixed.unknown_cost == "no price is known for local"
    assert cost_text(mixed).startswith("at least $0.2500, ")
    unused = Story().model(cost=0.0, input=0, output=0).says("Hello.").finishes().diagnosis().cost_analysis
    assert unused.cost_usd == 0


def test_cost_is_listed_by_model_and_by_agent_run() -> None:
    story = Story().model(provider="a", model="x", cost=0.5).model(provider="b", model="y", cost=None)
    story.turns_to("run-2").model(provider="a", model="x", cost=1.5).calls("read", {"path": "a"}, "b")
    cost = story.diagnosis().cost_analysis
    assert [(model.provider, model.cost_usd) for model in cost.per_model] == [("a", 2.0), ("b", None)]
    assert [(turn.scope.agent_run_id, turn.cost_usd, turn.tool_calls) for turn in cost.per_turn] == [
        ("run-2", 1.5, 1),
        ("run-1", 0.5, 0),
    ]


def test_agent_runs_that_are_over_are_counted_and_not_kept() -> None:
    runs, story = 2500, Story()
    for number in range(runs):
        story.turns_to(f"run-{number}").starts().model(cost=0.5 if number == 3 else 0.01).says("Hello.").finishes()
    diagnoser = Diagnoser()
    for event in story.events:
        diagnoser.observe(event)
    assert len(story.events) > 2 * MAX_IDLE_EVENTS
    assert len(diagnoser._recording.runs) < runs * MAX_IDLE_EVENTS * 1.5 / len(story.events)
    found = diagnoser.conclude("run_001", "", Coverage(agent_events=len(story.events), recorder_attached=True), "")
    [session] = found.sessions
    assert session.agent_runs_total == runs
    expected = [*range(MAX_AGENT_RUNS // 2), *range(runs - MAX_AGENT_RUNS // 2, runs)]
    assert session.agent_runs == [f"run-{number}" for number in expected]
    assert isclose(found.cost_analysis.cost_usd or 0, 0.5 + 0.01 * (runs - 1))
    assert [turn.scope.agent_run_id for turn in found.cost_analysis.per_turn[:3]] == ["run-3", "run-0", "run-1"]
    assert found.outcome.state == "completed"


def test_agent_run_with_a_price_comes_before_one_with_more_tokens_and_no_price() -> None:
    story = Story().model(input=10**6, cost=None).turns_to("run-2").model(input=10, cost=0.01)
    assert [turn.scope.agent_run_id for turn in story.diagnosis().cost_analysis.per_turn] == ["run-2", "run-1"]


def test_usage_reported_at_the_end_is_attributed_to_the_model_that_used_it() -> None:
    usage = {"input": 5, "output": 7, "cost": {"total": 0.5}}
    story = Story().model(usage=None, turn=1, provider="a", model="x").model(turn=2, provider="b", model="y")
    story.finishes(recovered_usage=[{"turn": 1, "usage": usage}])
    cost = story.diagnosis().cost_analysis
    assert [(model.provider, model.input_tokens, model.model_calls_without_usage) for model in cost.per_model] == [
        ("a", 5, 0),
        ("b", 1000, 0),
    ]
    check_sums(story.diagnosis())


def test_time_of_agents_does_not_include_the_program_around_them() -> None:
    story = Story().event("recorder_attached").event("gateway_start").waits(60_000).model().says("Hi.").finishes()
    story.waits(60_000).event("session_end").event("gateway_stop")
    assert story.diagnosis().latency_analysis.wall_ms == 2000


# Always the same.


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
import msgspec
from story import diagnose
from test_engine import EXAMPLES
for name in EXAMPLES:
    sys.stdout.buffer.write(msgspec.json.encode(diagnose(EXAMPLES[name])) + b"\\n")
"""
ENVIRONMENTS = {
    "plain": {},
    "another seed": {"PYTHONHASHSEED": "1"},
    "a third seed": {"PYTHONHASHSEED": "4294967295"},
    "far away": {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
    "another language": {"TZ": "America/Los_Angeles", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "7"},
}


def bytes_of(environment: dict[str, str]) -> bytes:
    here = Path(__file__).parent
    command = [sys.executable, "-c", PROGRAM, str(here), str(here.parent)]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHASHSEED", "TZ", "LC_ALL")}
    return subprocess.run(command, env={**kept, **environment}, capture_output=True, check=True).stdout


def test_same_evidence_gives_the_same_bytes_in_any_environment() -> None:
    outputs = {name: bytes_of(environment) for name, environment in ENVIRONMENTS.items()}
    assert outputs["plain"].count(b"\n") == len(EXAMPLES)
    assert set(outputs.values()) == {outputs["plain"]}


@given(st.data())
@settings(max_examples=40)
def test_findings_do_not_depend_on_how_sessions_interleave(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(CASES)), min_size=2, max_size=5, unique=True))
    waiting: dict[str, list[Event]] = {}
    for event in gateway(kinds):
        waiting.setdefault(event.session_key or "", []).append(event)
    one_by_one = in_order([event for events in waiting.values() for event in events])
    turns = data.draw(st.permutations([key for key, events in waiting.items() for _ in events]))
    mixed = in_order([waiting[key].pop(0) for key in turns])
    assert summary(diagnose(mixed)) == summary(diagnose(one_by_one))


def summary(diagnosis: Diagnosis) -> list[tuple[str, str, int]]:
    return sorted((finding.cause, finding.severity, finding.occurrences) for finding in findings_of(diagnosis))


# Arbitrary events.

NAMES = [
    *(
        "arguments",
        "args",
        "result",
        "output",
        "content",
        "text",
        "role",
        "tool_calls",
        "stop_reason",
        "usage",
        "input",
    ),
    *("cacheRead", "cacheWrite", "cost", "total", "provider", "model", "turn", "contextTokenBudget", "durationMs"),
    *(
        "requestPayloadBytes",
        "timeToFirstByteMs",
        "errorCategory",
        "failure_kind",
        "failover_reason",
        "lookup",
        "query",
    ),
    *("key", "parent_tool_call_id", "recovered_usage", "success", "aborted", "outcome", "status", "reason", "trigger"),
    *("exit_code", "childSessionKey", "targetSessionKey", "compactedCount", "cut", "size", "excerpt", "digest", "plan"),
    *("details", "value", "messages"),
]
TYPES = [
    *("tool_call", "tool_output", "token_usage", "memory_event", "message_end", "input", "before_provider_request"),
    *("agent_start", "agent_end", "provider_retry", "compaction_start", "compaction_end", "subagent_spawned", "error"),
    *("subagent_ended", "before_reset", "session_end", "gateway_stop", "recorder_attached", "process_start"),
    *("process_end", "error_event", "run_imported", "state_transition", "turn_end"),
]
WORDS = ["exec", "read", "memory_search", "sessions_spawn", "update_plan", "found", "empty", "error", "ok", "user"]
TEXTS = [
    "assistant",
    "All tests pass, done.",
    "I will now do it.",
    "[redacted:jwt:ab]",
    "HTTP 401",
    "timed out",
    "1e308",
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.sampled_from(WORDS + TEXTS + [".", ""])
    | st.text(max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
anything = st.builds(
    Event,
    event_type=st.sampled_from(TYPES) | st.text(max_size=8),
    timestamp=st.sampled_from(["", "2026-11-15T00:00:00.000Z", "yesterday"]),
    source_layer=st.sampled_from(["extension_api", "tool_hooks", "supervisor", "supervisor"]),
    session_key=st.none() | st.sampled_from(["agent:main:main", "agent:main:subagent:1"]),
    agent_run_id=st.none() | st.sampled_from(["run-1", "run-2"]),
    tool_name=st.none() | st.sampled_from(WORDS) | st.text(max_size=5),
    tool_call_id=st.none() | st.sampled_from(["c1", "c2", "tool_search_code:c1:x:1"]),
    status=st.sampled_from(["ok", "error", "", "huh"]),
    error=st.none() | st.sampled_from(TEXTS) | st.text(max_size=12),
    duration_ms=st.none() | st.integers(-(2**63), 2**64) | st.floats(),
    payload=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), values, max_size=5),
)


@given(st.lists(anything, max_size=25))
@settings(max_examples=300)
def test_no_event_can_stop_a_diagnosis(events: list[Event]) -> None:
    ordered = in_order(events)
    check(diagnose(ordered), ordered)


@given(st.data())
@settings(max_examples=150)
def test_realistic_runs_with_broken_fields_can_be_diagnosed(data: st.DataObject) -> None:
    events = gateway(data.draw(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4)))
    for _ in range(data.draw(st.integers(1, 6))):
        number = data.draw(st.integers(0, len(events) - 1))
        payload = events[number].payload
        name = data.draw(st.sampled_from(sorted(payload)) if payload else st.sampled_from(NAMES))
        broken = {**payload, name: data.draw(values)}
        events[number] = msgspec.structs.replace(events[number], payload=broken)
    check(diagnose(events), events)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "value", [None, True, -1, 10**400, 1e308, float("nan"), "NaN", [], [[]], {}, {"cost": []}, "x"]
)
def test_wrong_type_in_any_field_does_no_harm(name: str, value: Any) -> None:
    if value == 10**400 and name in ("result", "output", "content", "text", "value", "arguments", "args"):
        value = 10**18  # a number of that size cannot be read from JSON as what a tool said
    story = Story().starts()
    for event_type in TYPES:
        layer = "supervisor" if event_type.startswith(("process", "error", "run_", "state")) else "extension_api"
        story.event(event_type, layer=layer, tool_name="exec", tool_call_id="c", payload={name: value})
    check(story.diagnosis(), story.events)


def test_the_cost_of_a_tool_is_that_of_the_model_calls_that_requested_it() -> None:
    story = Story().starts().model(input=100, cost=0.6).calls("read").calls("exec")
    story.model(input=200, cost=0.5).calls("exec").model(input=300, cost=0.9).says("done").finishes()
    tools = {tool.tool: (tool.tokens, tool.cost_usd) for tool in story.diagnosis().cost_analysis.per_tool}
    assert tools == {"exec": (60 + 220, 0.8), "read": (60, 0.3)}


def test_the_cost_of_a_tool_without_a_model_call_is_unknown() -> None:
    [tool] = Story().starts().calls("read").finishes().diagnosis().cost_analysis.per_tool
    assert (tool.tokens, tool.cost_usd) == (None, None)
