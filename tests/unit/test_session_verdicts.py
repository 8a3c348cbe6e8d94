"""Every session of a recording has its own verdict, and the run has that of the worst session."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from story import START, Story, diagnose

from critiqor.diagnosis import Diagnoser
from critiqor.diagnosis.scoring import MAX_AGENT_RUNS, MAX_FINDINGS, MAX_SESSIONS, judge
from critiqor.model import (
    Claim,
    Diagnosis,
    FailureAnalysis,
    Finding,
    SessionDiagnosis,
    Severity,
    TaskOutcome,
    TaskVerdict,
)
from critiqor.model.diagnosis import ClaimStatus, Readiness
from critiqor.model.formatting import format_claims, format_place, format_sessions, format_task
from critiqor.model.verdict import Integrity, fresh_verdict, verdict_table
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import Policy
from critiqor.privacy.diagnosis import anonymous_diagnosis
from critiqor.privacy.events import anonymous_event
from critiqor.privacy.replacements import Aliases

BAD = "agent:main:telegram:direct:7"


def works(story: Story, session: str, run: str) -> Story:
    """A short agent run without problems."""
    story.turns_to(run, session).starts().user("Say hello.").model(cost=0.5)
    return story.says("Hello.").finishes()


def lies(story: Story, session: str, run: str) -> Story:
    """An agent run that reports success, although its tests failed."""
    story.turns_to(run, session).starts().user("Run the tests.").model(cost=0.25)
    return story.runs("pytest -q", "1 failed", exit_code=1).says("All tests pass.").finishes()


def gateway() -> Story:
    """Five sessions, the third of which fails."""
    story = Story()
    for number in range(5):
        (lies if number == 2 else works)(story, BAD if number == 2 else f"agent:main:{number}", f"run-{number}")
    return story


def session(diagnosis: Diagnosis, key: str | None) -> SessionDiagnosis:
    [found] = [each for each in diagnosis.sessions if each.session_key == key]
    return found


def finding(severity: Severity = "high", key: str | None = "a", run: str | None = "run", **fields: Any) -> Finding:
    known: dict[str, Any] = {
        "cause": "tool_loop:read",
        "title": "t",
        "explanation": "e",
        "evidence": [],
        "confidence": 90,
    }
    known |= {"recommendation": "r", "verification": "v", "type": "tool_loop", **fields}
    return Finding(severity=severity, session_key=key, agent_run_id=run, **known)


def test_a_session_that_fails_is_unsafe_and_the_others_are_ready() -> None:
    diagnosis = gateway().diagnosis()
    assert [(each.session_key, each.readiness) for each in diagnosis.sessions] == [
        (BAD, "unsafe"),
        *((f"agent:main:{number}", "ready") for number in (0, 1, 3, 4)),
    ]
    assert (diagnosis.trust_score, diagnosis.readiness) == (diagnosis.sessions[0].trust_score, "unsafe")
    assert {each.trust_score for each in diagnosis.sessions[1:]} == {100}
    [found] = diagnosis.failure_analysis.findings
    assert (found.session_key, found.agent_run_id) == (BAD, "run-2")
    assert diagnosis.sessions[0].findings == [found.id]
    assert diagnosis.sessions_left_out == {}


def test_a_finding_names_its_session_and_agent_run_as_members_of_its_json() -> None:
    document = msgspec.json.decode(msgspec.json.encode(gateway().diagnosis()))
    [found] = document["failure_analysis"]["findings"]
    assert (found["session_key"], found["agent_run_id"]) == (BAD, "run-2")
    assert "scope" not in found


def test_a_diagnosis_of_an_older_version_can_be_read() -> None:
    document = msgspec.to_builtins(gateway().diagnosis())
    for name in ("sessions", "sessions_left_out", "claims"):
        del document[name]
    del document["outcome"]["task"]
    [found] = document["failure_analysis"]["findings"]
    found["scope"] = {"session_key": found.pop("session_key"), "agent_run_id": found.pop("agent_run_id")}
    older = msgspec.json.decode(msgspec.json.encode(document), type=Diagnosis)
    assert older.sessions == [] and older.readiness == "unsafe"


def test_a_session_has_its_agent_runs_and_its_cost() -> None:
    story = works(lies(works(Story(), "a", "run-1"), "b", "run-2"), "a", "run-3")
    story.turns_to("run-4", "c").starts().model(cost=None).says("Hello.").finishes()
    diagnosis = story.diagnosis()
    first, second, third = (session(diagnosis, key) for key in "abc")
    assert (first.agent_runs, first.agent_runs_total) == (["run-1", "run-3"], 2)
    assert [(each.cost_usd, each.cost_is_partial) for each in (first, second, third)] == [
        (1.0, False),
        (0.25, False),
        (None, True),
    ]


def test_of_many_agent_runs_the_first_and_the_last_are_named() -> None:
    story = Story()
    for number in range(50):
        works(story, "a", f"run-{number}")
    [only] = story.diagnosis().sessions
    assert only.agent_runs_total == 50 and len(only.agent_runs) == MAX_AGENT_RUNS
    assert (only.agent_runs[0], only.agent_runs[-1]) == ("run-0", "run-49")


def test_one_cause_in_several_sessions_is_a_finding_of_each() -> None:
    diagnosis = lies(lies(lies(Story(), "a", "run-1"), "b", "run-2"), "a", "run-3").diagnosis()
    found = diagnosis.failure_analysis.findings
    assert sorted((each.session_key or "", each.occurrences) for each in found) == [("a", 2), ("b", 1)]
    assert len({each.cause for each in found}) == 1
    assert "2 agent runs" in next(each.explanation for each in found if each.session_key == "a")


def test_a_failure_of_the_process_counts_for_every_session() -> None:
    diagnosis = gateway().process(1, error="it crashed").diagnosis()
    [crash] = [each for each in diagnosis.failure_analysis.findings if each.type == "process_failure"]
    assert (crash.session_key, crash.agent_run_id) == (None, None)
    assert all(crash.id in each.findings for each in diagnosis.sessions)
    assert {each.readiness for each in diagnosis.sessions} == {"unsafe"}
    assert session(diagnosis, "agent:main:0").trust_score == 100 - crash.impact.trust_points


def test_agent_runs_without_a_session_are_a_session_of_their_own() -> None:
    story = works(Story(), "a", "run-1")
    events = [msgspec.structs.replace(event, session_key=None) for event in lies(Story(), "b", "run-2").events]
    story.events += events
    diagnosis = story.diagnosis()
    assert [(each.session_key, each.readiness) for each in diagnosis.sessions] == [(None, "unsafe"), ("a", "ready")]


def test_stray_events_without_a_session_are_no_session() -> None:
    story = works(Story(), "a", "run-1").event("model_change")
    story.events[-1] = msgspec.structs.replace(story.events[-1], session_key=None, agent_run_id=None)
    assert [each.session_key for each in story.diagnosis().sessions] == ["a"]


def test_only_the_session_that_was_cut_off_needs_a_review() -> None:
    story = works(Story(), "a", "run-1").turns_to("run-2", "b").starts().user("Go on.").model()
    diagnosis = story.diagnosis()
    assert [(each.session_key, each.readiness) for each in diagnosis.sessions] == [("b", "review"), ("a", "ready")]
    assert diagnosis.readiness == "review"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [("achieved", "ready"), ("unknown", "ready"), ("partly", "review"), ("not_achieved", "review")],
)
def test_a_session_that_did_not_do_its_task_is_not_ready(verdict: TaskVerdict, expected: str) -> None:
    story = works(Story(), "a", "run-1").turns_to("run-2", "b").starts().user("Fix the bug.").model()
    if verdict == "partly":
        story.calls("edit", {"path": "a.py", "newText": "x"}, "Successfully replaced 1 block(s) in a.py.")
    if verdict == "achieved":
        story.runs("pytest -q", "12 passed in 0.31s").says("All tests pass.").finishes()
    elif verdict == "unknown":
        story.says("What is the bug?").finishes()
    else:
        story.runs("pytest -q", "1 failed, 11 passed in 0.31s", exit_code=1).says("One test still fails.").finishes()
    diagnosis = story.diagnosis()
    judged = session(diagnosis, "b")
    assert (judged.task.verdict, judged.readiness, judged.trust_score) == (verdict, expected, 100)
    assert session(diagnosis, "a").readiness == "ready"
    assert diagnosis.readiness == expected
    if expected == "review":
        assert diagnosis.sessions[0] == judged and diagnosis.outcome.task == judged.task


def test_a_task_that_was_not_done_does_not_make_a_bad_session_better() -> None:
    task = TaskOutcome(verdict="not_achieved")
    assert judge([finding("critical")], tasks={"a": task}).readiness == "unsafe"


def test_sessions_are_ordered_by_trust_then_readiness_then_their_worst_finding_then_their_start() -> None:
    lows = [finding("low", "d", cause=str(number)) for number in range(2)]
    infos = [finding("info", "c")]
    tasks: dict[str | None, TaskOutcome] = {"b": TaskOutcome(verdict="partly")}
    story = Story()
    for key in "eabcd":
        works(story, key, f"run-{key}")
    diagnoser = Diagnoser()
    for event in story.events:
        diagnoser.observe(event)
    facts = diagnoser._session_facts(diagnoser._recording.runs)
    assert [each.session_key for each in judge([*lows, *infos], facts, tasks=tasks).sessions] == list("dbcea")


def test_the_run_is_never_judged_better_than_any_of_its_sessions() -> None:
    many = [finding("low", "a", cause=str(number)) for number in range(8)]
    result = judge([finding("high", "b"), *many])
    assert [(each.session_key, each.trust_score, each.readiness) for each in result.sessions] == [
        ("a", 60, "review"),
        ("b", 70, "unsafe"),
    ]
    assert (result.trust, result.readiness) == (60, "unsafe")


def test_the_problem_to_look_at_first_is_one_of_the_worst_session() -> None:
    result = judge([finding("critical", "a"), *(finding("high", "b", cause=str(number)) for number in range(3))])
    assert result.sessions[0].session_key == "b"
    assert result.main is not None and result.main.session_key == "b"


@pytest.mark.parametrize("seed", range(20))
def test_points_of_the_findings_of_a_session_add_up_to_what_it_lost(seed: int) -> None:
    chance = random.Random(seed)
    severities: list[Severity] = ["critical", "high", "medium", "low", "info"]
    findings = [
        finding(severity, key, None if key is None else "run", cause=f"c{number}")
        for number, severity in enumerate(
            sorted((chance.choice(severities) for _ in range(chance.choice([5, 40, 600]))), key=severities.index)
        )
        for key in [chance.choice([None, *(f"s{one}" for one in range(chance.choice([1, 5, 300])))])]
    ]
    result = judge(findings)
    points = {each.id: each.impact.trust_points for each in result.findings}
    assert list(points) == [f"finding_{number:03d}" for number in range(1, len(points) + 1)]
    for each in result.sessions:
        assert each.trust_score == 100 - sum(points[name] for name in each.findings)
    assert len(result.findings) + result.left_out == len(findings)
    if result.sessions:
        assert result.trust == min(each.trust_score or 0 for each in result.sessions)


def test_no_session_loses_its_worst_finding_to_the_limit() -> None:
    loud = [finding("critical", "loud", cause=str(number)) for number in range(2 * MAX_FINDINGS)]
    quiet = [finding("info", f"quiet-{number}") for number in range(MAX_FINDINGS)]
    result = judge([*loud, *quiet])
    assert {each.session_key for each in result.findings} == {"loud", *(each.session_key for each in quiet)}
    assert all(each.findings for each in result.sessions)
    assert result.left_out > 0


def test_of_thousands_of_sessions_the_worst_are_listed_and_the_others_counted() -> None:
    story = Story(start=START)
    for number in range(MAX_SESSIONS + 20):
        works(story, f"agent:main:{number}", f"run-{number}")
    diagnosis = lies(story, BAD, "run-bad").diagnosis()
    assert len(diagnosis.sessions) == MAX_SESSIONS
    assert diagnosis.sessions[0].session_key == BAD
    assert diagnosis.sessions_left_out == {"ready": 21}
    assert diagnosis.readiness == "unsafe"


def test_an_anonymized_diagnosis_names_sessions_as_anonymized_events_do() -> None:
    story = gateway()
    story.events.insert(0, msgspec.structs.replace(story.events[0], event_type="session_start", session_key="unused"))
    diagnosis = story.diagnosis()
    anonymous = anonymous_diagnosis(diagnosis)
    aliases = Aliases()
    names = {event.session_key: anonymous_event(event, aliases).session_key for event in story.events}
    for before, after in zip(diagnosis.sessions, anonymous.sessions, strict=True):
        assert after.session_key == names[before.session_key]
        assert (after.trust_score, after.readiness, after.agent_runs) == (before.trust_score, before.readiness, [])
    [found] = anonymous.failure_analysis.findings
    assert (found.session_key, found.is_of_recording) == (names[BAD], False)
    assert BAD.encode() not in msgspec.json.encode(anonymous)
    assert format_sessions(anonymous) == f"worst session {names[BAD]}; 4 others are ready"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (["ready"], "worst session a; 1 other is ready"),
        (["review", "review"], "worst session a; 2 others need a review"),
        (["ready", "unsafe"], "worst session a; of 2 others 1 is unsafe and 1 is ready"),
        (
            ["unsafe", "review", "ready", "ready"],
            "worst session a; of 4 others 1 is unsafe, 1 needs a review and 2 are ready",
        ),
    ],
)
def test_one_sentence_says_which_session_is_the_worst_and_how_the_others_are(
    others: list[Readiness], expected: str
) -> None:
    diagnosis = gateway().diagnosis()
    diagnosis.sessions = [
        SessionDiagnosis(session_key=key, agent_runs=[], trust_score=50, readiness=readiness)
        for key, readiness in zip("abcdef", ["unsafe", *others], strict=False)
    ]
    assert format_sessions(diagnosis) == expected
    diagnosis.sessions = diagnosis.sessions[:1]
    assert format_sessions(diagnosis) is None
    assert format_place(diagnosis.failure_analysis.findings[0], diagnosis) == ""


def test_sessions_that_are_not_shown_are_counted() -> None:
    diagnosis = gateway().diagnosis()
    diagnosis.sessions_left_out = {"ready": 1000, "review": 2}
    table = verdict_table(diagnosis, fresh_verdict(diagnosis), 3)
    assert len(table.rows) == 3
    assert table.more == "and 1,004 more sessions: 2 review, 1,002 ready"
    assert "of 1,006 others 2 need a review and 1,004 are ready" in (format_sessions(diagnosis) or "")


def test_a_name_from_the_recording_is_shown_on_one_line_of_limited_length() -> None:
    story = works(works(Story(), "a", "run-1"), "x\nsession b\x1b[31m" + "y" * 500, "run-2")
    table = verdict_table(story.diagnosis(), fresh_verdict(story.diagnosis()))
    assert all(len(row.name) <= 120 and row.name.isprintable() for row in table.rows)


def test_task_outcome_and_claims_are_formatted_in_a_few_words() -> None:
    statuses: list[ClaimStatus] = ["supported", "supported", "supported", "contradicted", "unsupported"]
    claims = [
        Claim(event_id="", start=0, end=0, text="", kind="check", status=status, reason="") for status in statuses
    ]
    assert format_claims(claims) == "5 checked, 1 contradicted, 1 unsupported"
    assert format_claims([]) is None
    assert format_task(TaskOutcome()) is None
    task = TaskOutcome(verdict="not_achieved", known_from="the file was not written")
    assert format_task(task) == "not achieved (the file was not written)"


def test_a_policy_judges_the_worst_session_and_names_it() -> None:
    diagnosis = gateway().diagnosis()
    intact = Integrity(state="intact", explanation="unchanged")
    policy = Policy(min_trust=70, max_severity="medium", forbidden_types=("false_success_claim",))
    result = apply_policy(policy, diagnosis, intact)
    failed = {rule.rule: rule.explanation for rule in result.rules if not rule.passed}
    assert failed["min_trust"] == f"trust is 50 in session {BAD}, the worst of 5, at least 70 required"
    assert failed["max_severity"].endswith(f"(session {BAD}, agent run run-2)")
    assert failed["forbidden_types"] == f"found forbidden types: false_success_claim (session {BAD})"
    assert result.sessions == f"worst session {BAD}; 4 others are ready"
    changed = Integrity(state="changed", explanation="it was changed")
    assert apply_policy(policy, diagnosis, changed).sessions is None


def test_without_findings_of_allowed_types_another_session_can_be_the_worst() -> None:
    diagnosis = gateway().diagnosis()
    findings = [finding("critical", "a", type="timeout"), finding("high", "b"), finding("low", "b", cause="x")]
    judged = judge(findings)
    diagnosis.failure_analysis = FailureAnalysis(judged.findings)
    diagnosis.sessions, diagnosis.trust_score = judged.sessions, judged.trust
    [rule] = [
        rule
        for rule in apply_policy(
            Policy(min_trust=70, allowed_types=("timeout",)), diagnosis, Integrity(state="intact", explanation="")
        ).rules
        if rule.rule == "min_trust"
    ]
    assert (rule.actual, rule.passed) == (65, False)
    assert rule.explanation.startswith(
        "trust is 65 in session b, the worst of 2, without findings of allowed types, 50"
    )


def test_a_request_that_was_saved_before_its_agent_run_was_known_is_no_agent_run() -> None:
    story = Story().user("Look.").model().says("It is fine.").finishes()
    early = msgspec.structs.replace(Story().user("Look.").events[0], agent_run_id=None)
    [session] = diagnose([early, *story.events]).sessions
    assert (session.agent_runs, session.agent_runs_total) == (["run-1"], 1)
