"""Turns of agents: what belongs to one, and where its time went."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story
from timelines import START, Line, end, in_order, line, real_events, real_timeline, request, span, start, summary_of

from critiqor.model.timeline import SpanNode, Turn
from critiqor.timeline import attribute_turns, read_timeline

REAL = ["2026.9.6-local", "2026.9.6-chat", "2026.9.6-gateway", "2026.9.6-gateway-chat", "2026.9.6-killed"]
REAL += ["2026.9.6-retry", "2026.6.1-gateway"]


def step(stage: str, begin: float, finish: float, name: str = "agent.prepare", **fields: Any) -> list[Line]:
    """Return one span of preparing a turn."""
    return span(name, f"{stage} {begin}", begin, finish, phase=name, attributes={"stage": stage}, **fields)


def decided(run: str, at: float, decision: str = "rejected") -> Line:
    return line("mark", "model.recovery.decision", at, runId=run, attributes={"decision": decision})


def only(turns: list[Turn]) -> Turn:
    (turn,) = turns
    return turn


def names(node: SpanNode) -> list[str]:
    return [f"{child.name} {child.detail or ''}".strip() for child in node.children]


def recorded(run: str = "run-a", start_at: float = 0) -> Story:
    """Return the recorded events of a run, from a moment of the timeline on."""
    return Story(run=run, start=START + int(start_at))


def test_requests_of_one_run_are_a_turn_and_claim_what_was_prepared_for_it() -> None:
    prepared = [*step("session-state", 0, 200, "agent.startup"), *step("attempt.setup", 250, 300)]
    lines = [*prepared, request("run-a", 1, 400, 600), request("run-a", 2, 1500, 500), decided("run-a", 2050)]
    turn = only(summary_of(*lines).turns)
    assert (turn.agent_run_id, turn.duration_ms, turn.ended, turn.requests) == ("run-a", 2050, True, 2)
    assert names(turn.tree) == [
        "agent.startup session-state",
        "agent.prepare attempt.setup",
        "provider.request",
        "provider.request",
    ]
    assert turn.split.before_provider_ms == 400
    assert turn.split.with_provider_ms == 1100
    assert turn.split.after_ms == 50
    assert turn.split.unattributed_ms == 500, "without the recorder nobody knows what went on between two requests"


def test_a_retried_request_has_the_preparation_of_its_second_attempt_and_the_wait_is_shown() -> None:
    turn = only(
        summary_of(
            *step("attempt.setup", 0, 50),
            request("run-a", 1, 100, 60, ok=False),
            decided("run-a", 1500, "accepted"),
            *step("attempt.setup", 1510, 1550),
            request("run-a", 1, 1600, 400),
            decided("run-a", 2020),
        ).turns
    )
    assert (turn.requests, turn.failed_requests) == (2, 1)
    assert turn.split.retrying_ms == 1600 - 160
    assert turn.split.unattributed_ms == 0
    assert names(turn.tree).count("agent.prepare attempt.setup") == 2
    assert turn.tree.children[1].failed


def test_turns_prepared_at_the_same_time_are_marked_as_overlapping() -> None:
    lines = in_order(
        step("session-state", 0, 100, "agent.startup"),
        step("session-state", 10, 110, "agent.startup"),
        request("run-a", 1, 200, 50),
        request("run-b", 1, 210, 50),
    )
    first, second = summary_of(*lines).turns
    assert (first.agent_run_id, first.overlapped) == ("run-a", True)
    assert (second.agent_run_id, second.duration_ms) == ("run-b", 250)


def test_old_preparation_belongs_to_no_turn() -> None:
    lines = [*step("session-state", 0, 100), *step("attempt.setup", 60_000, 60_100), request("run-a", 1, 60_200, 300)]
    assert only(summary_of(*lines).turns).duration_ms == 500


def test_what_a_command_does_before_it_looks_for_a_session_is_start_up() -> None:
    lines = [
        *step("secrets-snapshot", 0, 90, "agent.startup"),
        *step("session-state", 5000, 5100, "agent.startup"),
        request("run-a", 1, 5200, 300),
    ]
    summary = summary_of(*lines)
    assert only(summary.turns).duration_ms == 500
    assert names(summary.startups[0].path) == ["agent.startup secrets-snapshot"]


def test_a_turn_that_is_a_span_of_its_own_holds_everything_inside_it() -> None:
    inside = [*span("agent.cleanup", "3", 80, 90, parentSpanId="2"), end("reply.run", "2", 95, 85, parentSpanId="1")]
    turn = only(
        summary_of(
            start("gateway.chat_send.dispatch_inbound", "1", 0, phase="agent-turn", attributes={"runId": "run-a"}),
            start("reply.run", "2", 10, parentSpanId="1", phase="agent-turn"),
            request("run-a", 1, 20, 40),
            *inside,
            end("gateway.chat_send.dispatch_inbound", "1", 100, 100, phase="agent-turn", attributes={"runId": "run-a"}),
        ).turns
    )
    assert (turn.agent_run_id, turn.duration_ms, turn.ended) == ("run-a", 100, True)
    (root,) = turn.tree.children
    assert names(root) == ["reply.run"]
    assert names(root.children[0]) == ["provider.request", "agent.cleanup"]
    assert root.children[0].children[0].by_time, "a request does not say what it is inside of"
    assert root.children[0].self_ms == 85 - 40 - 10


def test_the_turn_span_of_the_contract_finds_its_requests_by_time() -> None:
    asked = line("provider.request", "provider.request", 30, durationMs=20, ok=True, provider="lab")
    turn = only(summary_of(start("agent.turn", "1", 0), asked, end("agent.turn", "1", 100, 100)).turns)
    assert (turn.agent_run_id, turn.requests, turn.duration_ms) == (None, 1, 100)
    assert (turn.split.before_provider_ms, turn.split.with_provider_ms, turn.split.after_ms) == (30, 20, 50)
    named = summary_of(start("agent.turn", "1", 0), request("run-a", 1, 30, 20), end("agent.turn", "1", 100, 100))
    assert only(named.turns).agent_run_id == "run-a"


def test_an_open_turn_lasts_until_the_last_line_of_its_process() -> None:
    turn = only(summary_of(start("agent.turn", "1", 0), request("run-a", 1, 30, 20), line("mark", "m", 400)).turns)
    assert (turn.ended, turn.duration_ms) == (False, 400)
    assert turn.split.after_ms == 0
    assert turn.split.unattributed_ms == 350


def test_several_open_turns_are_summarized_in_order_of_start_whatever_their_ids_are() -> None:
    found = set()
    for number in range(30):
        opened = [start("agent.turn", f"{letter}{number}", 10 * place) for place, letter in enumerate("abc")]
        turns = summary_of(*opened, request("run-a", 1, 50, 20), line("mark", "m", 400)).turns
        found.add(tuple((turn.agent_run_id, turn.duration_ms, len(turn.tree.children)) for turn in turns))
    assert len(found) == 1


def test_only_the_slowest_turns_are_kept_and_all_are_counted() -> None:
    lines = [request(f"run-{number:03d}", 1, number * 100, number) for number in range(1, 101)]
    summary = summary_of(*lines)
    assert summary.turns_total == 100
    assert [turn.duration_ms for turn in summary.turns] == list(range(100, 80, -1))


def test_the_recorder_adds_tools_and_the_end() -> None:
    story = recorded(start_at=300)
    tool: dict[str, Any] = {"layer": "tool_hooks", "tool_name": "exec", "tool_call_id": "call_1"}
    story.event("agent_start", after=0).event("before_provider_request", after=100)
    story.event("token_usage", after=600, duration_ms=600)
    story.event("tool_call", after=10, **tool).event("tool_output", after=480, duration_ms=480, **tool)
    story.event("agent_end", after=610)
    lines = [*step("attempt.setup", 0, 300), request("run-a", 1, 400, 600), request("run-a", 2, 1500, 500)]

    turn = only(attribute_turns(summary_of(*lines).turns, story.events))
    split = turn.split
    assert (turn.duration_ms, turn.ended, turn.tools, turn.sources) == (2100, True, 1, ["timeline", "recorder"])
    assert (split.before_provider_ms, split.with_provider_ms, split.in_tools_ms) == (400, 1100, 480)
    assert (split.after_ms, split.between_ms, split.unattributed_ms) == (100, 20, 0)
    assert names(turn.tree) == ["agent.prepare attempt.setup", "provider.request", "tool exec", "provider.request"]


def test_a_turn_that_only_the_recorder_saw_is_included() -> None:
    story = recorded()
    story.event("agent_start", after=10).event("before_provider_request", after=90)
    story.event("token_usage", after=500, duration_ms=500).event("agent_end", after=5)
    turn = only(attribute_turns([], story.events))
    assert (turn.sources, turn.duration_ms, turn.pid) == (["recorder"], 595, None)
    assert (turn.split.before_provider_ms, turn.split.with_provider_ms, turn.split.after_ms) == (90, 500, 5)


def test_what_was_under_way_when_the_process_was_killed_took_the_time_until_then() -> None:
    story = recorded()
    story.event("agent_start", after=0).event("before_provider_request", after=100)
    story.event("token_usage", after=50, duration_ms=50)
    story.begins("exec")
    story.event("process_end", layer="supervisor", after=2000)
    turn = only(attribute_turns([], story.events))
    assert not turn.ended
    assert turn.split.in_tools_ms == 2000
    assert turn.tree.children[-1].failed


def test_a_run_that_never_ended_is_over_when_its_session_goes_on() -> None:
    story = recorded("run-a")
    story.event("agent_start", after=0)
    story.begins("exec")
    later = recorded("run-b", start_at=5000)
    later.event("agent_start", after=0).event("agent_end", after=60_000)
    turns = attribute_turns([], [*story.events, *later.events])
    assert {turn.agent_run_id: turn.duration_ms for turn in turns} == {"run-a": 5000, "run-b": 60_000}


def test_time_of_a_tool_beside_a_request_counts_once() -> None:
    story = recorded()
    story.event("agent_start", after=0)
    call = story.begins("background")
    story.event("before_provider_request", after=100)
    story.event("token_usage", after=300, duration_ms=300)
    ended = {"tool_name": "background", "tool_call_id": call, "duration_ms": 500}
    story.event("tool_output", layer="tool_hooks", after=100, **ended)
    story.event("agent_end", after=0)
    split = only(attribute_turns([], story.events)).split
    assert (split.with_provider_ms, split.in_tools_ms, split.unattributed_ms) == (300, 200, 0)


def test_a_message_of_the_next_turn_does_not_make_the_last_one_longer() -> None:
    story = recorded()
    story.event("agent_start", after=0).event("before_provider_request", after=10)
    story.event("token_usage", after=100, duration_ms=100).event("agent_end", after=10).user("and once more")
    assert only(attribute_turns([], story.events)).duration_ms == 120


def test_a_turn_without_a_run_id_is_that_of_the_run_within_it() -> None:
    nameless = summary_of(*span("agent.turn", "1", 0, 1000)).turns
    story = recorded(start_at=100)
    story.event("agent_start", after=0).event("before_provider_request", after=100)
    story.event("token_usage", after=500, duration_ms=500).event("agent_end", after=100)
    turn = only(attribute_turns(nameless, story.events))
    assert (turn.agent_run_id, turn.duration_ms, turn.sources) == ("run-a", 1000, ["timeline", "recorder"])


@pytest.mark.parametrize("name", REAL)
def test_the_time_of_every_real_turn_is_attributed_but_for_a_tenth(name: str) -> None:
    summary = read_timeline(real_timeline(name))
    assert (summary.parse_errors, summary.irregular, summary.open_spans_total) == (0, [], 0)
    turns = attribute_turns(summary.turns, real_events(name))
    assert turns
    for turn in turns:
        assert turn.split.unattributed_ms <= 0.1 * turn.duration_ms
        assert turn.ended == (name != "2026.9.6-killed")
        assert ("timeline" in turn.sources) == name.startswith("2026.9.6")


def test_a_request_in_the_terminal_ui_is_as_long_as_the_timeline_knows() -> None:
    events = real_events("2026.9.6-chat")
    seen = sum(event.duration_ms or 0 for event in events if event.event_type == "token_usage")
    turn = only(attribute_turns(read_timeline(real_timeline("2026.9.6-chat")).turns, events))
    assert seen < 100, "the recorder sees the stream only from its first byte on"
    assert turn.split.with_provider_ms > 1500
    assert (turn.requests, turn.tools) == (3, 2)


def test_the_wait_for_a_retry_of_a_real_turn_is_shown() -> None:
    turn = only(attribute_turns(read_timeline(real_timeline("2026.9.6-retry")).turns, real_events("2026.9.6-retry")))
    assert (turn.requests, turn.failed_requests) == (3, 1)
    assert turn.split.retrying_ms > 1000
