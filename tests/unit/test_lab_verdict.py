"""Verdicts: findings compared with the expectation, and reports of the differences."""

from __future__ import annotations

import msgspec
import pytest
from diagnosed import diagnosis, finding
from story import Story

from critiqor.lab.batch import LabResult, LeftOut, ScenarioResult
from critiqor.lab.report import lab_lines, lab_markdown, summary
from critiqor.lab.scenario import Expectation, ModelStep, Scenario, Turn
from critiqor.lab.verdict import Verdict, find_mismatches, summarize_diagnosis
from critiqor.model import Coverage, SessionDiagnosis, TaskOutcome
from critiqor.model.timeline import RepeatedFigures

LOOP, CLAIM = finding("tool_loop:exec", "high", 30), finding("false_success_claim:tests", "critical", 50)


def scenario(**expect: object) -> Scenario:
    turn = Turn(message="Go.", steps=(ModelStep(text="Gone."),))
    return Scenario(name="any", description="Something.", turns=(turn,), expect=Expectation(**expect))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expect", "missed"),
    [
        ({"primary": "false_success_claim", "findings": ("tool_loop",), "absent": ("*",)}, []),
        ({"primary": "false_success_claim", "severity": ("critical",), "trust": (0, 20), "outcome": "completed"}, []),
        ({"primary": "tool_loop"}, ["the primary diagnosis is false_success_claim, expected tool_loop"]),
        (
            {"primary": "false_success_claim", "severity": ("low", "medium")},
            ["its severity is critical, expected low or medium"],
        ),
        ({"primary": "false_success_claim", "findings": ("timeout",)}, ["timeout was not found"]),
        ({"primary": "false_success_claim", "absent": ("tool_loop",)}, ["tool_loop was found, but must not be"]),
        ({"primary": "false_success_claim", "absent": ("*",)}, ["tool_loop was found, but must not be"]),
        ({"primary": "false_success_claim", "trust": (50, 60)}, ["trust is 20, expected 50 to 60"]),
        ({"primary": "false_success_claim", "outcome": "failed"}, ["the outcome is completed, expected failed"]),
        (
            {"primary": "false_success_claim", "coverage": {"missing_records": 1, "recorder_attached": False}},
            ["coverage.missing_records is 0, expected 1"],
        ),
        (
            {},
            [
                "the primary diagnosis is false_success_claim, expected none",
                "false_success_claim was found, but must not be",
                "tool_loop was found, but must not be",
            ],
        ),
    ],
)
def test_every_difference_from_the_expectation_is_named(expect: dict[str, object], missed: list[str]) -> None:
    found = diagnosis("run_001", CLAIM, LOOP, trust=20)
    assert find_mismatches(scenario(**expect), found, Coverage()) == missed


def test_a_clean_run_is_as_expected_only_where_nothing_is_expected() -> None:
    clean = diagnosis("run_001", trust=100)
    assert find_mismatches(scenario(trust=(100, 100)), clean, Coverage()) == []
    assert find_mismatches(scenario(primary="timeout"), clean, Coverage()) == [
        "the primary diagnosis is none, expected timeout"
    ]


def test_an_unknown_trust_is_in_no_range() -> None:
    blind = diagnosis("run_001", trust=None)
    assert find_mismatches(scenario(trust=(0, 100)), blind, Coverage()) == ["trust is unknown, expected 0 to 100"]


def test_findings_that_a_busy_machine_causes_count_only_if_named() -> None:
    busy = diagnosis("run_001", LOOP, finding("latency_stall:x", "low", 5), trust=65)
    assert find_mismatches(scenario(primary="tool_loop", absent=("*",), trust=(70, 70)), busy, Coverage()) == []
    named = find_mismatches(scenario(primary="tool_loop", absent=("latency_stall",)), busy, Coverage())
    assert named == ["latency_stall was found, but must not be"]
    stall = diagnosis("run_001", finding("latency_stall:x", "low", 5), trust=95)
    assert find_mismatches(scenario(), stall, Coverage()) == []
    assert find_mismatches(scenario(primary="latency_stall"), stall, Coverage()) == []


def test_every_session_is_compared_with_its_expected_readiness() -> None:
    story = Story("agent:main:first", "run-1").starts().user("Hello.").model().says("Hello.").finishes()
    story.turns_to("run-2", "agent:main:second").starts().user("Run the tests.").model()
    found = story.runs("pytest -q", "1 failed", exit_code=1).says("All tests pass.").finishes().diagnosis()
    right = {"first": "ready", "second": "unsafe"}
    assert find_mismatches(scenario(primary="false_success_claim", sessions=right), found, Coverage()) == []
    wrong = {"first": "unsafe", "third": "ready"}
    assert find_mismatches(scenario(primary="false_success_claim", sessions=wrong), found, Coverage()) == [
        "session first is ready, expected unsafe",
        "session third is not recorded, expected ready",
    ]


def test_a_stall_of_a_busy_machine_changes_no_readiness() -> None:
    stall = msgspec.structs.replace(finding("latency_stall:x", "medium", 15), session_key=None, agent_run_id=None)
    busy = diagnosis("run_001", stall, trust=85)
    busy.readiness = "review"
    busy.sessions = [
        SessionDiagnosis(session_key="agent:main:main", agent_runs=[], trust_score=85, readiness="review", findings=[])
    ]
    ready = scenario(readiness="ready", trust=(100, 100), sessions={"main": "ready"})
    assert find_mismatches(ready, busy, Coverage()) == []
    busy.sessions[0] = msgspec.structs.replace(busy.sessions[0], task=TaskOutcome(verdict="not_achieved"))
    assert find_mismatches(scenario(readiness="review", sessions={"main": "review"}), busy, Coverage()) == []


def result(name: str, passed: bool, **fields: object) -> ScenarioResult:
    verdict = Verdict(
        scenario=name,
        on="embedded",
        passed=passed,
        missed=[] if passed else ["tool_loop was not found"],
        seen=summarize_diagnosis(diagnosis("run_001", CLAIM, trust=50)),
        seconds=1.25,
        run=None if passed else "/where/it/lies",
    )
    return ScenarioResult(
        **{
            "scenario": name,
            "description": "Somebody | says `it`\n<b>works</b>.",
            "expected": "tool_loop",
            "passed": passed,
            "plays": [verdict],
            "same_diagnosis": True,
            **fields,
        }  # type: ignore[arg-type]
    )


def lab(*results: ScenarioResult) -> LabResult:
    left = [LeftOut(scenario="other", because="It needs a plugin.")]
    passed = all(one.passed for one in results)
    return LabResult(on="embedded", repeat=1, passed=passed, results=list(results), left_out=left)


def test_a_report_has_faults_findings_and_mismatches_and_escapes_markup() -> None:
    report = lab_markdown(lab(result("good", True), result("bad", False)))
    assert "1 of 2 scenarios as expected on the embedded loop, 1 do not apply there." in report
    row = next(line for line in report.splitlines() if line.startswith("| bad |"))
    injected = "Somebody \\| says \\`it\\` \\<b\\>works\\</b\\>."
    assert row == f"| bad | {injected} | tool\\_loop | false\\_success\\_claim | 50 | NO | 1.2 |"
    assert "- tool\\_loop was not found\n- its files are kept in /where/it/lies" in report
    assert "| other | It needs a plugin. |" in report


def test_a_report_without_mismatches_says_so() -> None:
    assert "## Missed\n\nNothing." in lab_markdown(lab(result("good", True)))


def test_lines_for_a_terminal_have_every_scenario_and_what_failed_below() -> None:
    lines = lab_lines(lab(result("good", True), result("bad", False)))
    assert lines[0] == "ok  good  false_success_claim, trust 50 (1.2 s)"
    assert lines[1].startswith("NO  bad ")
    assert lines[2] == "--  other: does not apply here. It needs a plugin."
    assert "  tool_loop was not found" in lines
    assert lines[-1] == summary(lab(result("good", True), result("bad", False)))


def test_times_of_repeated_plays_are_shown_with_whether_the_diagnoses_are_equal() -> None:
    figures = RepeatedFigures(kind="turn", name="turn", runs=3, median_ms=10, p95_ms=20, max_ms=20, variance_ms2=4)
    repeated = result("again", False, timings=[figures], same_diagnosis=False)
    assert "Times of again: 1 repetitions, different diagnoses" in lab_markdown(lab(repeated))
    assert "  repeated runs gave different diagnoses" in lab_lines(lab(repeated))
