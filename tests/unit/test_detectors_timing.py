"""Findings about time: what the timeline proves, and what it must not be read to prove."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from story import Story, diagnose
from timelines import START, Line, end, in_order, line, request, sample, span, summary_of

from critiqor.model import Finding, iso_from_ms
from critiqor.model.timeline import TimelineSummary, line_of_id


def found(timing: TimelineSummary, story: Story | None = None) -> list[Finding]:
    events = (story or Story().model().says("Done.").finishes()).events
    return diagnose(events, timing).failure_analysis.findings


def only(timing: TimelineSummary, kind: str, story: Story | None = None) -> Finding:
    (finding,) = found(timing, story)
    assert finding.type == kind
    return finding


def working_gateway(*lines: Line) -> list[Line]:
    """A gateway that came up in a second, and what happened then."""
    ready = line("mark", "gateway.ready", 1_000, durationMs=1_000)
    return in_order(*span("config.load", "a", 0, 900, phase="startup"), ready, *lines)


def test_a_stall_is_found_with_the_span_that_held_the_loop_and_the_line_that_proves_it() -> None:
    lines = working_gateway(*span("plugins.reload", "b", 60_000, 63_000), sample(2_900, 63_001))
    finding = only(summary_of(*lines), "latency_stall")
    assert finding.cause == "latency_stall:plugins.reload"
    assert finding.severity == "low"
    assert "2.90 s" in finding.title
    assert finding.evidence == [finding.first_bad_step] == ["timeline_0000006"]
    assert lines[(line_of_id(finding.evidence[0]) or 0) - 1]["type"] == "eventLoop.sample"


def test_many_stalls_of_one_cause_are_one_graver_finding() -> None:
    stalls = [
        part
        for number in range(4)
        for part in (
            *span("plugins.reload", f"s{number}", 60_000 + number * 10_000, 63_000 + number * 10_000),
            sample(2_950, 63_001 + number * 10_000),
        )
    ]
    finding = only(summary_of(*working_gateway(*stalls)), "latency_stall")
    assert (finding.severity, finding.occurrences, len(finding.evidence)) == ("medium", 4, 4)


@pytest.mark.parametrize("delay", [150, 1_900])
def test_a_delay_that_nobody_takes_for_a_hang_is_no_finding(delay: float) -> None:
    assert found(summary_of(*working_gateway(sample(delay, 63_000)))) == []


def test_a_delay_while_the_process_comes_up_is_no_finding_unless_it_is_very_long() -> None:
    ready = line("mark", "gateway.ready", 30_000, durationMs=30_000)

    def starting(delay: float) -> list[Line]:
        return in_order(*span("plugins.load", "a", 0, 29_000, phase="startup"), sample(delay, 29_500), ready)

    assert found(summary_of(*starting(4_000))) == []
    assert only(summary_of(*starting(12_000)), "latency_stall").severity == "medium"


def test_a_start_up_of_more_than_a_minute_is_found_with_its_slowest_step() -> None:
    ready = line("mark", "gateway.ready", 90_000, durationMs=90_000)
    load = span("plugins.load", "b", 10_000, 85_000, phase="startup")
    steps = in_order(*span("config.load", "a", 0, 10_000, phase="startup"), *load, ready)
    finding = only(summary_of(*steps), "slow_startup")
    assert finding.cause == "slow_startup:gateway:plugins.load"
    assert "90.00 s" in finding.title
    assert "`plugins.load`" in finding.explanation
    assert steps[(line_of_id(finding.evidence[0]) or 0) - 1]["name"] == "plugins.load"


def test_a_start_up_within_a_minute_is_no_finding() -> None:
    ready = line("mark", "gateway.ready", 50_000, durationMs=50_000)
    steps = in_order(*span("config.load", "a", 0, 49_000, phase="startup"), ready)
    assert found(summary_of(*steps)) == []


def test_a_profiled_run_is_not_called_slow() -> None:
    ready = line("mark", "gateway.ready", 90_000, durationMs=90_000)
    steps = in_order(*span("config.load", "a", 0, 89_000, phase="startup"), ready, sample(30_000, 200_000))
    profiled = msgspec.structs.replace(summary_of(*steps), profiled=True)
    assert found(profiled) == []
    assert found(summary_of(*steps)) != []


def test_a_model_that_is_silent_for_long_is_a_slow_provider_and_a_long_answer_is_not() -> None:
    slow = Story().model(timeToFirstByteMs=31_000, durationMs=33_000).says("Here it is.").finishes()
    assert slow.only("slow_provider").severity == "low"
    quick = Story().model(timeToFirstByteMs=12_000).says("Here it is.").finishes()
    assert "slow_provider" not in quick.types()


def test_slow_words_are_told_by_the_tokens_they_make() -> None:
    def answered(tokens: int) -> list[str]:
        story = Story()
        usage = {"input": 1000, "output": tokens}
        story.event("token_usage", duration_ms=90_000, payload={"provider": "lab", "model": "x", "usage": usage})
        return story.says("Here it is.").finishes().types()

    assert answered(300) == ["slow_provider"]
    assert answered(4_000) == []


def test_a_failed_call_is_told_as_a_failure_and_not_as_slow() -> None:
    story = Story().model(error="HTTP 503 overloaded", timeToFirstByteMs=60_000).model().says("Fine.").finishes()
    assert story.types() == ["provider_failure"]


def test_a_slow_request_that_only_the_timeline_shows_is_found_once() -> None:
    listing = line(
        "provider.request", "provider.request", 0, provider="lab", operation="models.list", durationMs=70_000
    )
    finding = only(summary_of(listing), "slow_provider")
    assert "models.list" in finding.title
    assert finding.evidence == ["timeline_0000001"]
    story = Story().model(timeToFirstByteMs=65_000).says("Here it is.").finishes()
    both = found(summary_of(request("run-1", 1, 0, 70_000)), story)
    assert [finding.type for finding in both] == ["slow_provider"]
    assert both[0].evidence[0].startswith("evt_")


def exited(at: float, **fields: Any) -> Line:
    return line("childProcess.exit", "childProcess.exit", at, command="/usr/bin/mcp-server --key x", **fields)


def test_a_child_process_that_failed_is_found_by_its_program_without_its_arguments() -> None:
    finding = only(summary_of(exited(0, exitCode=3)), "child_process_failure")
    assert (finding.cause, finding.severity) == ("child_process_failure:mcp-server", "low")
    assert "exit code 3" in finding.title
    assert "--key" not in msgspec.json.encode(finding).decode()


def test_a_child_process_that_does_not_stay_is_graver() -> None:
    lines = [exited(number * 60_000, exitCode=1) for number in range(3)]
    finding = only(summary_of(*lines), "child_process_failure")
    assert (finding.severity, finding.occurrences) == ("medium", 3)


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_child_process_that_was_asked_to_stop_did_not_fail(signal: str) -> None:
    assert found(summary_of(exited(0, exitCode=None, signal=signal))) == []


def test_a_command_of_the_agent_is_judged_as_its_tool_and_not_as_a_child_process() -> None:
    story = Story().runs("make", "no rule", exit_code=2).says("The build failed: there is no rule for it.").finishes()
    ended = next(event.timestamp for event in story.events if event.event_type == "tool_output")
    same = {**exited(0, exitCode=2), "timestamp": ended}
    later = exited(0, exitCode=2) | {"timestamp": iso_from_ms(START + 3_600_000)}
    assert [finding.type for finding in found(summary_of(same), story)] == []
    search = Story().calls("exec", {"command": "grep x a.txt"}, "(no output)").says("It is not in there.").finishes()
    ended = next(event.timestamp for event in search.events if event.event_type == "tool_output")
    assert found(summary_of({**exited(0, exitCode=1), "timestamp": ended}), search) == []
    assert [finding.type for finding in found(summary_of(later), story)] == ["child_process_failure"]


def test_a_command_that_says_whose_it_is_needs_no_clock_to_be_known() -> None:
    told = exited(3_600_000, exitCode=2, attributes={"runId": "run-1"})
    assert found(summary_of(told)) == []


def test_a_child_process_that_dies_while_a_file_is_read_is_found() -> None:
    story = Story().calls("read", {"path": "a.txt"}, "apples").says("It says apples.").finishes()
    ended = next(event.timestamp for event in story.events if event.event_type == "tool_output")
    assert only(summary_of({**exited(0, exitCode=3), "timestamp": ended}), "child_process_failure", story)


def test_a_span_that_ends_in_an_error_is_no_finding_by_itself() -> None:
    lines = working_gateway(end("models.catalog", "x", 5_000, 100))
    failed = [{**each, "type": "span.error"} if each["name"] == "models.catalog" else each for each in lines]
    assert found(summary_of(*failed)) == []


def test_a_long_answer_of_unknown_length_is_not_worth_a_medium() -> None:
    def answered(tokens: int) -> str:
        story = Story()
        for _ in range(6):
            usage = {"input": tokens, "output": tokens}
            story.event("token_usage", duration_ms=90_000, payload={"provider": "lab", "model": "x", "usage": usage})
        return story.says("Here it is.").finishes().only("slow_provider").severity

    assert answered(0) == "low"
    assert answered(30) == "medium"
