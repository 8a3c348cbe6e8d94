"""How things ended: the process, its time, its silence, the agent run itself, and the eyes of the recorder."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, diagnose

from critiqor.model.evidence import WitnessFacts

MINUTE = 60_000


def working(**how: Any) -> Story:
    """An agent that is in the middle of something."""
    return Story().event("process_start", layer="supervisor").starts(**how).user("build it").model()


# The process.


@pytest.mark.parametrize(
    ("code", "error", "severity"),
    [(1, "exit code 1", "high"), (139, "ended by signal 11", "critical"), (137, "ended by signal 9", "critical")],
)
def test_process_that_died_is_found(code: int, error: str, severity: str) -> None:
    finding = working().process(code, error=error).only("process_failure")
    assert (finding.severity, finding.title) == (severity, f"OpenClaw failed: {error}")


def test_call_that_was_running_when_the_process_died_is_named_and_not_blamed() -> None:
    story = working()
    story.begins("exec", {"command": "sleep 600"})
    finding = story.process(137, error="ended by signal 9").only("process_failure")
    assert story.types() == ["process_failure"]
    assert "`exec` was running" in finding.explanation
    assert "out of memory" in finding.explanation


def test_call_behind_a_wrapper_is_named_by_its_own_name() -> None:
    story = working()
    outer = story.begins("tool_call", {"id": "web_fetch"})
    story.begins("web_fetch", {"url": "x"}, parent_tool_call_id=outer)
    finding = story.process(139, error="ended by signal 11").only("process_failure")
    assert "`web_fetch` was running" in finding.explanation


def test_last_lines_that_openclaw_printed_are_quoted_and_cited() -> None:
    printed = {
        "text": "starting\n" + "noise\n" * 50 + "Error: port 18789 is in use\n\nRun openclaw doctor.\n",
        "bytes": 400,
    }
    story = working().event("process_output", layer="supervisor", payload=printed)
    finding = story.process(1, error="exit code 1").only("process_failure")
    assert "“noise / Error: port 18789 is in use / Run openclaw doctor.”" in finding.explanation
    assert any(event.event_id in finding.evidence for event in story.events if event.event_type == "process_output")
    stopped = working().event("process_output", layer="supervisor", payload=printed).process(143, error="stopped")
    assert "noise" not in stopped.only("process_failure").explanation


def test_node_that_ran_out_of_memory_is_explained() -> None:
    assert "heap is full" in working().process(134, error="ended by signal 6").only("process_failure").explanation


def test_launch_that_failed_is_found() -> None:
    story = Story().event("error_event", layer="supervisor", error="no such file", payload={"reason": "launch_failed"})
    diagnosis = story.diagnosis(agent_events=0)
    assert [finding.type for finding in diagnosis.failure_analysis.findings] == [
        "inspection_incomplete",
        "process_failure",
    ]
    assert diagnosis.headline == "The agent was not observed; OpenClaw failed: no such file"


def test_where_nothing_was_observed_that_comes_first_and_no_points_are_taken() -> None:
    story = Story().event("process_start", layer="supervisor").process(1, error="exit code 1")
    diagnosis = story.diagnosis(agent_events=0)
    first, second = diagnosis.failure_analysis.findings
    assert (first.id, first.title) == ("finding_001", "The agent was not observed; OpenClaw failed: exit code 1")
    assert (diagnosis.trust_score, second.type, second.impact.trust_points) == (None, "process_failure", 0)
    assert "OpenClaw's output is not recorded" in second.explanation
    assert "memory" not in second.recommendation


def test_memory_is_named_only_where_the_exit_code_speaks_of_it() -> None:
    died = working().process(1, error="exit code 1").only("process_failure")
    killed = working().process(137, error="ended by signal 9").only("process_failure")
    assert "memory of the machine" not in died.recommendation
    assert "memory of the machine" in killed.recommendation


@pytest.mark.parametrize(
    ("code", "reason"), [(130, "interrupted"), (143, "nonzero_exit"), (129, "nonzero_exit"), (130, "nonzero_exit")]
)
def test_stopping_an_idle_program_is_no_failure(code: int, reason: str) -> None:
    story = working().says("It is built.").finishes().process(code, error="it was stopped", reason=reason)
    assert story.types() == []
    assert story.diagnosis().outcome.state == "interrupted"
    assert story.diagnosis().trust_score == 100


def test_stopping_an_agent_at_work_weighs_little_and_asks_only_to_run_it_again() -> None:
    story = working().process(130, error="interrupted from the keyboard", reason="interrupted")
    finding = story.only("process_failure")
    assert finding.severity == "low"
    playbook = story.diagnosis().playbook
    assert [change.change.split(" and ")[0] for change in playbook.changes] == ["Run the task again"]
    assert playbook.prompt is None, "there is nothing for a coding assistant to change"


def test_process_that_ended_well_is_none() -> None:
    assert working().says("It is built.").finishes().process(0).types() == []


@pytest.mark.parametrize("code", [None, "1", True, [], {"a": 1}, 10**30, -11])
def test_exit_code_that_is_none_does_no_harm(code: Any) -> None:
    story = working().process(code, error="gone")
    assert story.only("process_failure").severity in ("high", "critical")


# Time.


def test_limit_of_the_monitor_is_found_with_what_was_running() -> None:
    story = working()
    story.begins("exec", {"command": "make all"})
    story.process(124, error="ended after 60 seconds", reason="timeout")
    finding = story.only("timeout")
    assert story.types() == ["timeout"]
    assert story.diagnosis().outcome.state == "timed_out"
    assert "`exec`" in finding.explanation
    assert finding.first_bad_step == story.events[-3].event_id


def test_limit_that_cut_off_a_silence_is_told_once() -> None:
    story = working().asks().waits(20 * MINUTE).process(124, error="ended after 1200 seconds", reason="timeout")
    assert story.types() == ["timeout"]


def test_agent_run_that_timed_out_is_found_in_its_scope() -> None:
    error = "Request timed out before a response was generated. Please try again."
    story = Story().starts().user("build it").model().finishes(error=error, aborted=True)
    assert story.only("timeout").agent_run_id == "run-1"
    assert story.diagnosis().outcome.state == "timed_out"


def test_request_that_a_time_limit_cut_off_is_told_as_a_timeout() -> None:
    story = working().model(error="Request was aborted.").finishes(error="agent run timed out", aborted=True)
    assert story.types() == ["timeout"]


def test_model_that_fell_silent_is_told_as_the_provider_and_not_once_more() -> None:
    error = "The model did not produce a response before the model idle timeout."
    story = working().model(error=error).finishes(error=error)
    assert [finding.cause for finding in story.findings()] == ["provider_failure:stall"]


def test_attempt_that_timed_out_and_was_repeated_with_success_is_none() -> None:
    story = working().finishes(error="timed out").starts().model().says("It is built.").finishes()
    assert story.types() == []


# Silence.


def test_tool_that_never_came_back_is_found() -> None:
    story = working()
    story.begins("exec", {"command": "make all"})
    finding = story.waits(6 * MINUTE).process(1, error="exit code 1").only("stuck_session")
    assert finding.severity == "high"
    assert "`exec`" in finding.title


def test_model_that_never_answered_is_found() -> None:
    story = working().asks().waits(6 * MINUTE).process(1, error="exit code 1")
    assert story.only("stuck_session").cause == "stuck_session:the model"


def test_agent_that_did_nothing_with_a_result_is_found() -> None:
    story = working().runs("ls", "a b").waits(6 * MINUTE).process(1, error="exit code 1")
    assert story.only("stuck_session").cause == "stuck_session:the agent itself"


def test_user_who_gave_up_on_a_stuck_agent_is_not_the_problem() -> None:
    story = working().asks().waits(10 * MINUTE).process(130, error="interrupted", reason="interrupted")
    assert story.types() == ["stuck_session"]


def test_one_stuck_session_of_a_busy_gateway_is_found() -> None:
    story = working()
    story.begins("exec", {"command": "make all"})
    for number in range(30):
        story.turns_to(f"run-{number + 2}", f"agent:other:{number}").starts().model().says("Hi.").finishes()
        story.waits(MINUTE)
    story.event("session_end", payload={"reason": "shutdown"}).event("gateway_stop")
    finding = story.process(143, error="ended by signal 15").only("stuck_session")
    assert finding.agent_run_id == "run-1"


def test_user_who_keeps_asking_is_no_sign_of_life() -> None:
    story = working().asks()
    for _ in range(10):
        story.event("message_received", after=MINUTE, payload={"content": "are you there?"})
    assert story.process(1, error="exit code 1").only("stuck_session").severity == "high"


def test_stuck_session_shows_also_where_the_recording_was_sealed_meanwhile() -> None:
    story = working()
    story.begins("exec", {"command": "make all"})
    story.waits(10 * MINUTE).event("state_transition", layer="supervisor", payload={"to": "FINALIZING"})
    finding = story.only("stuck_session", sealed_while_running=True)
    assert finding.severity == "medium"


@pytest.mark.parametrize(
    "story",
    [
        working().waits(2 * MINUTE).process(1, error="exit code 1"),
        working().says("It is built.").finishes().waits(60 * MINUTE).process(0),
        working().says("It is built.").finishes().event("session_end").waits(60 * MINUTE).event("gateway_stop"),
        Story().starts().model().event("run_imported", layer="supervisor", after=86_400_000),
        working().model(error="HTTP 500").finishes(error="HTTP 500").waits(60 * MINUTE).process(0),
    ],
    ids=["not long", "at rest", "idle gateway", "imported a day later", "failed long ago"],
)
def test_silence_that_nobody_waits_in_is_none(story: Story) -> None:
    assert "stuck_session" not in story.types()


def test_run_that_was_sealed_while_it_worked_is_not_stuck_and_is_to_be_run_again() -> None:
    story = working().event("state_transition", layer="supervisor", payload={"to": "FINALIZING"})
    diagnosis = story.diagnosis(sealed_while_running=True)
    (finding,) = diagnosis.failure_analysis.findings
    assert (finding.cause, finding.severity) == ("inspection_incomplete:cut", "low")
    assert (diagnosis.trust_score, diagnosis.readiness) == (100, "review")
    assert diagnosis.playbook.changes[0].change.startswith("Run the task again and let it finish")
    assert diagnosis.outcome.state == "still_running"
    assert diagnosis.confidence_lost == {"sealed while the process ran": 10}


# The agent run.


def test_agent_run_that_failed_by_itself_is_found() -> None:
    finding = working().finishes(error="the session file is locked").only("agent_failure")
    assert (finding.severity, finding.agent_run_id) == ("high", "run-1")


def test_exit_code_of_a_run_that_failed_by_itself_is_not_told_twice() -> None:
    story = working().finishes(error="the session file is locked").process(1, error="exit code 1")
    assert story.types() == ["agent_failure"]


def test_failed_attempt_that_was_repeated_with_success_is_none() -> None:
    story = working().finishes(error="overloaded").starts().model().says("It is built.").finishes()
    assert story.types() == []


@pytest.mark.parametrize("error", ["aborted", "Request was aborted.", "This operation was aborted", "run cancelled"])
def test_agent_run_that_the_user_aborted_is_none(error: str) -> None:
    assert working().finishes(error=error).types() == []
    assert working().finishes(error="something else", aborted=True).types() == []


def test_agent_run_that_failed_because_something_in_it_was_aborted_is_found() -> None:
    assert working().finishes(error="Compaction aborted: the disk is full").types() == ["agent_failure"]


# The recorder.


def test_recording_without_an_agent_is_no_clean_bill() -> None:
    story = Story().event("gateway_start").event("session_start").event("gateway_stop")
    diagnosis = story.diagnosis(agent_events=0)
    (finding,) = diagnosis.failure_analysis.findings
    assert (finding.cause, finding.severity) == ("inspection_incomplete:idle", "low")
    assert (diagnosis.trust_score, diagnosis.confidence_score, diagnosis.readiness) == (None, 0, "unknown")
    assert diagnosis.headline == "No agent run took place"
    lossy = story.diagnosis(agent_events=0, missing_records=5)
    assert lossy.headline == "The agent was not observed"
    assert [finding.type for finding in lossy.failure_analysis.findings] == ["inspection_incomplete", "records_lost"]


def test_reason_why_nothing_was_recorded_is_told() -> None:
    why = "OpenClaw did not load the recorder: `plugins.deny` names critiqor"
    story = Story().event("error_event", layer="supervisor", error=why, payload={"reason": "recorder_not_attached"})
    diagnosis = story.diagnosis(agent_events=0)
    assert diagnosis.failure_analysis.findings[0].explanation == why
    assert diagnosis.headline == "The agent was not observed"


def test_agent_of_which_only_start_and_end_were_seen_is_no_clean_bill() -> None:
    diagnosis = Story().starts().finishes().diagnosis()
    (finding,) = diagnosis.failure_analysis.findings
    assert finding.cause == "inspection_incomplete:hollow"
    assert (diagnosis.trust_score, diagnosis.confidence_score, diagnosis.readiness) == (100, 40, "unknown")


def test_lost_records_are_reported_and_cost_no_trust() -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(missing_records=3, damaged_records=1)
    (finding,) = diagnosis.failure_analysis.findings
    assert (finding.cause, finding.severity) == ("records_lost:lost", "medium")
    assert (diagnosis.trust_score, diagnosis.readiness) == (100, "review")


def test_a_few_of_very_many_records_are_of_low_severity() -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(missing_records=2, agent_events=1_000)
    (finding,) = diagnosis.failure_analysis.findings
    assert (finding.type, finding.severity) == ("records_lost", "low")


def test_a_recording_that_lost_more_than_it_kept_says_nothing() -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(missing_records=57, agent_events=21)
    assert diagnosis.failure_analysis.findings[0].severity == "high"
    assert (diagnosis.readiness, diagnosis.confidence_score < 50) == ("unknown", True)


def test_records_that_may_be_missing_at_the_end_are_reported() -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(recorders_not_closed=1)
    (finding,) = diagnosis.failure_analysis.findings
    assert (finding.cause, finding.severity) == ("inspection_incomplete:not_closed", "low")


@pytest.mark.parametrize(
    "facts",
    [
        WitnessFacts(changed=1),
        WitnessFacts(removed=2),
        WitnessFacts(inserted=1),
        WitnessFacts(unknown_recorders=1),
        WitnessFacts(silenced_recorders=1),
        WitnessFacts(irregular_reports=1),
        WitnessFacts(lifecycle_changed=1),
        WitnessFacts(altered=["the files of the recorder plugin"]),
    ],
    ids=lambda facts: str(facts)[:60],
)
def test_altered_evidence_is_never_a_clean_bill(facts: WitnessFacts) -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(witness=facts)
    finding = diagnosis.failure_analysis.findings[0]
    assert (finding.type, finding.severity) == ("evidence_tampered", "critical")
    assert diagnosis.readiness != "ready"
    assert diagnosis.confidence_score <= 40


def test_a_witness_that_agrees_is_no_finding() -> None:
    diagnosis = working().says("It is built.").finishes().diagnosis(witness=WitnessFacts(recorders=1, produced=9))
    assert diagnosis.failure_analysis.findings == []


def test_a_process_that_is_gone_without_a_record_of_its_end_is_not_called_running() -> None:
    story = (
        Story().event("process_start", layer="supervisor", payload={"pid": 1}).user("Build it").starts().runs("make")
    )
    diagnosis = story.diagnosis(end_not_recorded=True)
    assert diagnosis.outcome.state == "unknown"
    assert "process_failure:end_not_recorded" in {finding.cause for finding in diagnosis.failure_analysis.findings}
    assert diagnosis.readiness != "ready"


def test_nothing_at_all_can_be_diagnosed() -> None:
    diagnosis = diagnose([])
    assert diagnosis.trust_score is None
    assert [finding.type for finding in diagnosis.failure_analysis.findings] == ["inspection_incomplete"]
    assert diagnosis.outcome.state == "unknown"


def test_whole_recording_misses_nothing() -> None:
    assert working().says("It is built.").finishes().process(0).types() == []


def test_exit_code_of_an_agent_run_that_timed_out_is_told_as_the_timeout() -> None:
    story = Story().user("build it").model()
    story.begins("exec", {"command": "make"})
    story.finishes(error="agent run timed out after 60 s").process(1, error="exit code 1")
    assert story.types() == ["timeout"]


def test_an_agent_that_was_stopped_with_its_process_did_not_finish() -> None:
    story = Story().user("build it").model()
    story.begins("exec", {"command": "make"})
    story.finishes(error="aborted", aborted=True).process(130, error="interrupted", reason="interrupted")
    finding = story.only("process_failure")
    assert (finding.severity, finding.title) == ("low", "OpenClaw was interrupted while the agent was working")
    assert story.diagnosis().readiness == "review"


def test_a_program_that_is_stopped_when_its_agents_are_done_is_ready() -> None:
    story = Story().user("hello").model().says("Hello.").finishes()
    diagnosis = story.process(130, error="interrupted", reason="interrupted").diagnosis()
    assert (diagnosis.failure_analysis.findings, diagnosis.readiness) == ([], "ready")


def test_a_run_that_is_sealed_while_its_agent_works_is_not_called_ready() -> None:
    story = Story().user("build it").event("agent_start").model()
    story.begins("exec", {"command": "make"})
    assert story.diagnosis().readiness == "review"


def test_a_run_that_a_limit_ended_is_explained_by_the_limit_and_not_by_its_aborted_agent() -> None:
    story = Story().starts().calls("read", {"path": "a"}, "apples")
    exceeded = story.events[-1].event_id
    story.finishes(error="ended without success").process(exit_code=3)
    about = {"reason": "limit", "limit": "repeats", "event_id": exceeded}
    story.event("error_event", layer="supervisor", error="limits.repeats: 9 repeats", status="error", payload=about)
    diagnosis = story.diagnosis()
    assert (diagnosis.outcome.state, diagnosis.headline) == (
        "interrupted",
        "Critiqor stopped the run: limits.repeats: 9 repeats",
    )
    [finding] = diagnosis.failure_analysis.findings
    assert (finding.type, finding.severity, finding.first_bad_step) == ("process_failure", "medium", exceeded)


def test_an_agent_run_of_a_gateway_that_was_aborted_names_its_limit_in_its_session() -> None:
    story = Story().starts().calls("read", {"path": "a"}, "apples")
    exceeded = story.events[-1].event_id
    story.finishes(error="ended without success")
    about = {"limit": "repeats", "event_id": exceeded, "result": "Critiqor had its agent run aborted"}
    about |= {"session_key": "agent:main:main", "agent_run_id": "run-1"}
    story.event("limit_exceeded", layer="supervisor", error="limits.repeats: 9 repeats", payload=about)
    [finding] = story.findings()
    assert (finding.type, finding.cause, finding.session_key) == (
        "agent_failure",
        "agent_failure:limit:repeats",
        "agent:main:main",
    )
    assert "limits.repeats: 9 repeats" in finding.title and "aborted" in finding.explanation
