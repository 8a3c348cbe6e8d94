"""Claims of long recordings: what is kept of them is bounded, and nothing is missing from the findings."""

from __future__ import annotations

import gc

import pytest
from story import Story

from critiqor.diagnosis import Diagnoser
from critiqor.diagnosis.claims import claim_checker
from critiqor.diagnosis.claims.claim_checker import ClaimChecker
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.drafts import merging
from critiqor.model import Coverage, Scope
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TESTS_FAIL = "FAILED test_a.py::test_it - assert 1 == 2\n2 failed, 10 passed in 0.31s"


def lies(count: int) -> Story:
    """A session in which the agent claims again and again that failed tests pass."""
    story = Story().starts()
    for number in range(count):
        story.turns_to(f"run-{number + 1}").user(f"make the tests of part {number} pass")
        story.runs(f"pytest -q part_{number}", TESTS_FAIL, exit_code=1).says("All tests pass.").finishes()
    return story


def test_problems_that_are_no_longer_listed_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = lies(12).only("false_success_claim")
    monkeypatch.setattr(claim_checker, "MAX_PROBLEMS", 5)
    monkeypatch.setattr(merging, "MAX_JUDGED", 4)
    diagnosis = lies(12).diagnosis()
    assert len(diagnosis.claims) == 5
    [finding] = [each for each in diagnosis.failure_analysis.findings if each.type == "false_success_claim"]
    assert finding.occurrences == everything.occurrences == 12
    assert finding.first_bad_step == everything.first_bad_step
    assert "in 12 agent runs" in finding.explanation


def test_arguments_of_calls_without_a_result_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_checker, "MAX_AWAITED_SIZE", 10_000)
    checker, run = ClaimChecker(), AgentRun(Scope("s", "r"))
    calls = [
        ToolCall(order=number, call=f"evt_{number}", tool="write", kind=Kind.CHANGE, arguments="x", same_call=b"")
        for number in range(100)
    ]
    for call in calls:
        checker.start_call(run, call, "y" * 1_000)
    assert sum(map(len, checker._arguments.values())) == 10_000
    for call in calls:
        checker.end_call(run, call, "ok", None, is_whole=True)
    assert checker._arguments == {}
    assert checker._arguments_size == 0


def test_judged_episodes_leave_nothing_that_only_garbage_collection_frees() -> None:
    """It is paused while a run is finalized, so a circle of references would grow with the recording."""
    story = Story().starts()
    for number in range(8):
        table = "\n".join(f"item{row}  {number * 100 + row * 7}  {row * 31 + number}" for row in range(12))
        story.turns_to(f"run-{number + 1}").user(f"read table {number}").runs(f"cat table_{number}", table)
        story.says(f"item3 has {number * 100 + 22}, and item5 has {number * 100 + 35}.").finishes()
    diagnoser = Diagnoser()
    before = _kept_calls()
    gc.disable()
    try:
        for event in story.events:
            diagnoser.observe(event)
        diagnoser.conclude("run_001", "sha256:0", Coverage(agent_events=len(story.events)), "")
        assert _kept_calls() == before
    finally:
        gc.enable()


def _kept_calls() -> int:
    return sum(isinstance(each, EpisodeCall) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("your tram: 0月8日 07:12 Harbour", "The tram leaves at 07:12 on 9 June."),
        ("skipped: ²", "All rows are in."),
        ("① skipped", "All rows are in."),
        ("ok", f"I ran the test {'9' * 400} times, and it passed."),
    ],
)
def test_numbers_that_are_none_do_not_prevent_a_verdict(output: str, answer: str) -> None:
    story = Story().user("When does it leave?").calls("mail_read", {"id": "m4"}, output).says(answer).finishes()
    assert isinstance(story.types(), list)


def test_an_error_in_a_check_costs_that_check_and_is_in_the_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> list[object]:
        raise ValueError("a text that nobody thought of")

    monkeypatch.setattr(claim_checker, "RAISES_ERRORS", False)
    monkeypatch.setattr(claim_checker, "check_episode", fail)
    story = Story().user("Run the tests.").runs("pytest -q", "1 failed in 0.1s", exit_code=1)
    diagnosis = story.says("They still fail.").finishes().diagnosis()
    assert diagnosis.coverage.answers_not_checked == 1
    assert "1 answer could not be checked" in diagnosis.coverage.notes[0]
    assert diagnosis.confidence_score <= 90
