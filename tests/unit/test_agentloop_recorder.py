"""What the recorder of the embedded loop makes of hooks, streams and saved messages: each fact once, and true."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import CONTEXT, MODEL, RUN, USAGE, Recording, Source, sequences
from support import Runs

import critiqor
from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.recording.recorded_runs import MOST_CALLS, MOST_MESSAGES, MOST_RESTING
from critiqor.agentloop.recording.recorder import attach_recorder
from critiqor.model import Event
from critiqor.model.event import place_of
from critiqor.storage.redaction import rules_digest

ENVELOPE = [
    "event_id",
    "event_type",
    "raw_event_type",
    "timestamp",
    "source_layer",
    "session_key",
    "agent_run_id",
    "tool_name",
    "tool_call_id",
    "status",
    "error",
    "duration_ms",
    "payload",
]
OTHER = {**CONTEXT, "runId": "r2", "sessionKey": "agent:main:other"}


@pytest.fixture
def made(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


def test_the_first_record_says_who_records_and_by_which_sources(made: Recording) -> None:
    (attached,) = made.lines()
    assert list(attached) == ENVELOPE
    assert attached["event_type"] == "recorder_attached"
    assert attached["payload"] == {
        "mode": "full",
        "sources": {"hooks": True, "agent_events": True, "transcript": True},
        "plugin_version": critiqor.__version__,
        "redaction": rules_digest(),
        "openclaw_version": f"critiqor-agentloop {critiqor.__version__}",
        "node_version": None,
        "python_version": platform.python_version(),
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "event_source": "openclaw",
    }


def test_a_turn_has_the_names_and_the_order_of_the_plugin(made: Recording) -> None:
    made.hook("before_agent_run", prompt="do it")
    made.stream("lifecycle", phase="start")
    made.saved("user", "do it")
    made.hook("llm_input", systemPrompt="You are", tools=[{"name": "exec"}], historyMessages=[{}])
    made.answer([{"type": "text", "text": "I start."}, {"type": "toolCall", "id": "call_0", "name": "exec"}])
    made.tool("call_0", result={"content": [{"type": "text", "text": "hello"}], "details": {"exitCode": 0}})
    made.answer([{"type": "text", "text": "Done."}])
    made.ended()
    turn = ["turn_start", "before_provider_request", "after_provider_response", "message_end"]
    tools = ["tool_call", "tool_result"]
    assert made.kinds() == ["agent_start", "input", *turn, *tools, "turn_end", *turn, "turn_end", "agent_end"]
    assert {event["session_key"] for event in made.events()} == {"agent:main:main"}
    assert {event["agent_run_id"] for event in made.events()} == {"r1"}
    start, said = made.events()[:2]
    assert start["payload"] == {"attempt": 1, "agent_id": "main", "trigger": "user"}
    assert said["payload"]["role"] == "user" and said["payload"]["text"] == "do it"
    first, second = made.of("before_provider_request")
    assert first["payload"]["system_prompt"]["size"] == 7
    assert (first["payload"]["tools"]["count"], first["payload"]["history_messages"]) == (1, 1)
    assert "system_prompt" not in second["payload"]
    answered = made.of("after_provider_response")[0]
    assert (answered["duration_ms"], answered["payload"]["usage"], answered["payload"]["turn"]) == (5, USAGE, 1)
    assert made.of("message_end")[0]["payload"]["tool_calls"] == [{"id": "call_0", "name": "exec"}]
    (end,) = made.of("agent_end")
    assert (end["status"], end["duration_ms"]) == ("ok", 9)
    assert end["payload"] == {
        "attempt": 1,
        "stopReason": "stop",
        "aborted": False,
        "success": True,
        "durationMs": 9,
        "messages": 2,
        "usage_total": {"input": 1000, "output": 20, "total": 1020},
        **MODEL,
    }


def test_a_prompt_is_digested_and_not_copied(made: Recording) -> None:
    made.hook("llm_input", systemPrompt="You are helpful. " * 9000, tools=[], historyMessages=[])
    made.hook("model_call_started", **MODEL)
    assert made.of("before_provider_request")[0]["payload"]["system_prompt"]["size"] == 153_000
    assert b"helpful" not in made.paths.journal_path(RUN).read_bytes()


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ({"result": {"details": {"exitCode": 0}}}, None),
        ({"result": {"details": {"exitCode": 3}}}, "exit code 3"),
        ({"result": {"details": {"exitCode": None, "exitSignal": "SIGKILL"}}}, "ended by SIGKILL"),
        ({"result": {"details": {"timedOut": True}}}, "timed out"),
        ({"result": {"details": {"status": "failed", "error": "no room"}}}, "no room"),
        ({"error": "File not found: a.txt.", "result": {"content": []}}, "File not found: a.txt."),
        ({"error": {"message": "broken"}}, "broken"),
        ({"result": {"content": [{"type": "text", "text": "fine"}]}}, None),
        ({}, None),
    ],
)
def test_what_counts_as_a_failed_tool_call(end: dict[str, Any], error: str | None, made: Recording) -> None:
    made.tool("c", **end)
    (result,) = made.of("tool_result")
    assert (result["status"], result["error"]) == ("ok" if error is None else "error", error)
    assert result["duration_ms"] == 3


def test_a_call_that_both_sources_tell_of_is_one_pair_even_when_its_id_repeats(made: Recording) -> None:
    made.answer()
    for code in (0, 1, 2):
        made.tool("call_0", params={"n": code}, result={"details": {"exitCode": code}})
    calls, results = made.of("tool_call"), made.of("tool_result")
    assert [call["payload"]["arguments"]["n"] for call in calls] == [0, 1, 2]
    assert [result["payload"]["exit_code"] for result in results] == [0, 1, 2]
    assert all(call["payload"]["source"] == "tool:start" and call["duration_ms"] is None for call in calls)
    assert all(result["payload"]["source"] == "after_tool_call" for result in results)


def test_a_tool_that_does_not_exist_has_a_call_without_its_first_hook(made: Recording) -> None:
    made.stream("tool", phase="start", toolCallId="c", name="nope", args={"x": 1})
    made.hook("after_tool_call", toolCallId="c", toolName="nope", params={"x": 1}, error="Tool nope not found")
    call, result = made.events()
    assert (call["payload"]["arguments"], result["error"]) == ({"x": 1}, "Tool nope not found")


def test_a_result_without_its_call_gets_one_at_its_beginning(made: Recording) -> None:
    made.tick(100)
    made.hook("after_tool_call", toolCallId="c", toolName="exec", params={}, result={}, durationMs=40)
    call, result = made.events()
    assert call["event_type"] == "tool_call"
    places = [place_of(event["event_id"]) for event in (call, result)]
    assert places[0] and places[1] and places[1].milliseconds - places[0].milliseconds == 40


def test_a_result_that_only_the_stream_tells_is_written_within_its_turn(made: Recording) -> None:
    made.answer()
    made.stream("tool", phase="start", toolCallId="c", name="exec", args={})
    made.stream("command_output", phase="delta", toolCallId="c", output="x")
    made.stream("tool", phase="update", toolCallId="c", name="exec")
    made.tick(30)
    made.stream("tool", phase="result", toolCallId="c", name="exec", isError=False, result={"details": {}})
    made.stream("command_output", phase="end", toolCallId="c", exitCode=2)
    assert made.of("tool_result") == []
    made.answer()
    (result,) = made.of("tool_result")
    assert (result["error"], result["duration_ms"], result["payload"]["updates"]) == ("exit code 2", 30, 1)
    assert made.kinds().index("tool_result") < made.kinds().index("turn_end")


def test_several_tools_at_a_time_keep_their_own_results(made: Recording) -> None:
    made.answer()
    for call_id in ("a", "b"):
        made.stream("tool", phase="start", toolCallId=call_id, name="exec", args={"command": call_id})
    made.tick(10)
    made.hook("after_tool_call", toolCallId="b", toolName="exec", params={}, result={"details": {"exitCode": 1}})
    made.tick(10)
    made.hook("after_tool_call", toolCallId="a", toolName="exec", params={}, result={"details": {"exitCode": 0}})
    told = [(event["tool_call_id"], event["status"], event["duration_ms"]) for event in made.of("tool_result")]
    assert told == [("b", "error", 10), ("a", "ok", 20)]


@pytest.mark.parametrize(
    ("name", "params", "result", "lookup"),
    [
        ("memory_search", {"query": "plan"}, {"details": {"results": [{"path": "a"}]}}, "found"),
        ("memory_search", {"query": "plan"}, {"details": {"results": []}}, "empty"),
        ("memory_search", {"query": "plan"}, {"details": {"results": [], "disabled": True}}, "error"),
        ("memory_get", {"path": "MEMORY.md"}, {"details": {"text": " "}}, "empty"),
        ("memory_get", {"path": "MEMORY.md"}, {"content": [{"type": "text", "text": "notes"}]}, "found"),
    ],
)
def test_a_memory_lookup_is_the_same_record_once_more(
    name: str, params: dict[str, str], result: dict[str, Any], lookup: str, made: Recording
) -> None:
    made.tool("m", name, params=params, result=result)
    called, pending, ended, found = made.events()
    for record, again, told in ((called, pending, "pending"), (ended, found, lookup)):
        asked = {"query": params.get("query"), "key": params.get("path"), "lookup": told}
        payload = {**record["payload"], "observed_as": record["event_type"], **asked}
        names = {"event_id": again["event_id"], "event_type": name, "raw_event_type": name}
        assert again == {**record, **names, "payload": payload}


def test_a_failed_model_call_has_the_words_that_the_stream_adds(made: Recording) -> None:
    made.hook("before_agent_run")
    made.hook("model_call_started", **MODEL)
    made.hook("model_call_ended", **MODEL, outcome="error", errorCategory="server")
    assert made.of("after_provider_response") == []
    seen = {"failoverReason": "overloaded", "providerRuntimeFailureKind": "server"}
    made.stream("lifecycle", phase="finishing", error="HTTP 500: no", errorObservation=seen)
    made.hook("agent_end", success=True, messages=[])
    made.hook("llm_output", **MODEL)
    made.stream("run_status", phase="retrying", retryAttempt=1, delayMs=20)
    made.hook("before_agent_run")
    made.answer("fine")
    made.ended()
    failed, worked = made.of("after_provider_response")
    assert (failed["status"], failed["error"]) == ("error", "HTTP 500: no")
    assert failed["payload"]["failover_reason"] == "overloaded"
    assert worked["status"] == "ok"
    assert [(end["status"], end["payload"]["attempt"]) for end in made.of("agent_end")] == [("error", 1), ("ok", 2)]
    assert [end["status"] for end in made.of("turn_end")] == ["error", "ok"]
    assert made.of("provider_retry")[0]["payload"]["delayMs"] == 20


def test_a_failure_that_only_the_saved_answer_tells_is_a_failure(made: Recording) -> None:
    made.hook("model_call_started", **MODEL)
    made.hook("model_call_ended", **MODEL, outcome="completed")
    made.saved("assistant", [], stopReason="error", errorMessage="connection refused")
    (response,) = made.of("after_provider_response")
    assert (response["status"], response["error"]) == ("error", "connection refused")
    assert made.of("message_end")[0]["status"] == "error"


def test_usage_is_found_also_where_the_answer_was_saved_before_the_call_ended(made: Recording) -> None:
    made.hook("model_call_started", **MODEL)
    made.saved("assistant", "ok", usage=USAGE)
    made.hook("model_call_ended", **MODEL, outcome="completed")
    assert made.of("after_provider_response")[0]["payload"]["usage"] == USAGE


def test_output_tokens_of_a_run_are_told_call_by_call(made: Recording) -> None:
    for total in (20, 50):
        made.hook("model_call_started", **MODEL)
        made.hook("model_call_ended", **MODEL, outcome="completed")
        made.stream("usage", outputTokens=total)
        made.saved("assistant", "ok", usage=USAGE)
    assert [event["payload"]["outputTokens"] for event in made.of("after_provider_response")] == [20, 30]


def test_a_request_without_an_answer_is_closed_as_unobserved(made: Recording) -> None:
    for _ in range(2):
        made.hook("model_call_started", **MODEL)
    assert made.of("after_provider_response")[0]["payload"]["outcome"] == "unobserved"
    assert made.kinds()[:4] == ["turn_start", "before_provider_request", "after_provider_response", "turn_end"]


def test_words_that_were_never_saved_are_kept_as_partial(made: Recording) -> None:
    made.hook("before_agent_run")
    made.answer("I start.")
    made.stream("assistant", text="I start.", delta="I start.")
    made.hook("model_call_started", **MODEL)
    made.stream("assistant", text="half of a", delta=" a")
    made.hook("model_call_ended", **MODEL, outcome="error", errorCategory="timeout")
    made.stream("lifecycle", phase="error", error="timed out", aborted=True)
    *_, partial = made.of("message_end")
    assert (partial["payload"]["text"], partial["payload"]["partial"]) == ("half of a", True)
    assert len(made.of("message_end")) == 2
    assert made.of("agent_end")[0]["error"] == "timed out"


def test_an_abort_and_a_lack_of_success_are_errors(made: Recording) -> None:
    for context, said in ((CONTEXT, {"aborted": True}), (OTHER, {})):
        made.hook("before_agent_run", context)
        made.stream("lifecycle", context, phase="finishing", **said)
        made.hook("agent_end", context, success=bool(said))
        made.stream("lifecycle", context, phase="end")
    assert [end["error"] for end in made.of("agent_end")] == ["aborted", "ended without success"]


def test_an_agent_that_goes_on_after_its_end_has_one_end(made: Recording) -> None:
    made.hook("before_agent_run")
    made.answer()
    made.stream("lifecycle", phase="finishing")
    made.answer()
    made.ended()
    assert len(made.of("agent_end")) == 1
    assert made.kinds()[-1] == "agent_end"


def test_what_a_tool_gave_back_is_not_recorded_as_a_message_too(made: Recording) -> None:
    made.saved("toolResult", [{"type": "text", "text": "hello"}])
    assert made.events() == []


def test_a_message_that_is_announced_twice_is_recorded_once(made: Recording) -> None:
    for _ in range(2):
        made.saved("user", "hello", messageId="m1")
    assert made.kinds() == ["input"]


def test_compaction_is_recorded_once_whoever_tells_of_it(made: Recording) -> None:
    made.stream("compaction", phase="start", reason="threshold")
    made.hook("before_compaction", messages=[{}, {}], tokenCount=9)
    made.stream("compaction", phase="end", willRetry=False)
    made.hook("after_compaction", messages=[{}])
    assert made.kinds() == ["compaction_start", "compaction_end"]


def test_plain_hooks_keep_their_name_and_say_how_it_went(made: Recording) -> None:
    made.hook("gateway_start", {}, port=1)
    made.hook("session_start", {}, sessionKey="s1")
    made.hook("message_sent", {}, sessionKey="s1", success=False, error="refused")
    child = {"runId": "child", "childSessionKey": "agent:main:subagent:1"}
    made.hook("subagent_spawned", CONTEXT, **child)
    made.hook("subagent_ended", CONTEXT, runId="child", targetSessionKey=child["childSessionKey"], outcome="timeout")
    told = [(event["event_type"], event["session_key"], event["agent_run_id"]) for event in made.events()]
    assert told == [
        ("gateway_start", None, None),
        ("session_start", "s1", None),
        ("message_sent", "s1", None),
        ("subagent_spawned", "agent:main:subagent:1", "child"),
        ("subagent_ended", "agent:main:subagent:1", "child"),
    ]
    assert [event["error"] for event in made.events()] == [None, None, "refused", None, "ended with timeout"]


def test_runs_that_interleave_are_kept_apart(made: Recording) -> None:
    both = (CONTEXT, OTHER)
    for context in both:
        made.hook("before_agent_run", context)
    for context in both:
        made.hook("model_call_started", context, **MODEL)
    for context in both:
        made.hook("model_call_ended", context, **MODEL, outcome="completed")
    for number, context in enumerate(both):
        made.saved("assistant", "ok", context, usage={"output": number})
        made.tool("call_0", context=context, result={"details": {"exitCode": number}})
    for context in both:
        made.ended(context)
    for number, context in enumerate(both):
        own = [event for event in made.events() if event["agent_run_id"] == context["runId"]]
        turn = ["turn_start", "before_provider_request", "after_provider_response", "message_end"]
        assert [event["event_type"] for event in own] == [
            "agent_start",
            *turn,
            "tool_call",
            "tool_result",
            "turn_end",
            "agent_end",
        ]
        assert {event["session_key"] for event in own} == {context["sessionKey"]}
        assert own[3]["payload"]["usage"] == {"output": number}
        assert own[6]["payload"]["exit_code"] == number


def test_a_late_word_of_an_earlier_run_does_not_take_the_session_away(made: Recording) -> None:
    old, new = {**CONTEXT, "runId": "old"}, {**CONTEXT, "runId": "new"}
    made.hook("before_agent_run", old)
    made.ended(old)
    made.hook("before_agent_run", new)
    made.stream("lifecycle", old, phase="end")
    made.saved("user", "hello")
    assert made.of("input")[0]["agent_run_id"] == "new"


def test_what_is_held_back_is_written_when_the_recorder_is_closed(made: Recording) -> None:
    made.hook("before_agent_run")
    made.hook("model_call_started", **MODEL)
    made.hook("model_call_ended", **MODEL, outcome="completed")
    made.stream("tool", OTHER, phase="start", toolCallId="c", name="exec", args={})
    made.stream("tool", OTHER, phase="result", toolCallId="c", name="exec", result={})
    made.hook("agent_end", success=True)
    made.recorder.close()
    made.recorder.close()
    for kind in ("tool_result", "after_provider_response", "turn_end", "agent_end"):
        assert len(made.of(kind)) == 1, kind


def test_a_run_under_way_is_remembered_however_many_end_beside_it(made: Recording) -> None:
    made.hook("before_agent_run")
    made.hook("before_tool_call", toolCallId="c", toolName="exec", params={})
    for number in range(2 * MOST_RESTING):
        context = {"runId": f"short {number}", "sessionKey": f"s{number}"}
        made.hook("before_agent_run", context)
        made.ended(context)
    made.hook("after_tool_call", toolCallId="c", toolName="exec", params={}, result={}, durationMs=9)
    own = [event["event_type"] for event in made.events() if event["agent_run_id"] == "r1"]
    assert own == ["agent_start", "tool_call", "tool_result"]
    assert len(list(made.recorder._runs)) <= MOST_RESTING + 1


def test_a_long_run_does_not_hold_on_to_what_is_over(made: Recording) -> None:
    made.hook("before_agent_run")
    for number in range(MOST_CALLS + 50):
        made.tool(f"call {number}", params={"n": number}, result={"details": {}})
        made.tool("call_0", result={})
        if number < MOST_MESSAGES + 50:
            made.saved("custom", "", messageId=f"m{number}")
    (run,) = list(made.recorder._runs)
    assert len(run._tools) <= MOST_CALLS
    assert len(run._messages) <= MOST_MESSAGES
    assert run.ending == {}
    known = [call for calls in run._tools.values() for call in calls.known]
    assert all(call.arguments is None and call.end == {} for call in known)
    assert len(made.of("tool_result")) == 2 * (MOST_CALLS + 50)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *("runId", "sessionKey", "childSessionKey", "toolCallId", "toolName", "params", "result", "error", "isError"),
    *("durationMs", "messages", "success", "usage", "systemPrompt", "tools", "historyMessages", "outcome", "provider"),
)


@given(told=st.lists(st.tuples(st.integers(0, 30), st.dictionaries(st.sampled_from(FIELDS), ODD)), max_size=12))
def test_whatever_is_told_nothing_fails_and_every_fact_is_a_record_or_a_hole(
    told: list[tuple[int, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = Recording(tmp_path_factory.mktemp("odd"))
    names = sorted(made.hooks)
    for number, event in told:
        if number < len(names):
            made.hook(names[number], {}, **event)
        else:
            data = {"phase": "start", "name": event.get("toolName"), **event}
            data.pop("stream", None)
            made.stream("tool" if number % 2 else "lifecycle", **data)
        made.saved("assistant", event.get("result"), usage=event.get("usage"))
    made.recorder.close()
    kept = sequences(made.lines())
    for line in made.paths.journal_path(RUN).read_bytes().splitlines():
        msgspec.json.decode(line, type=Event)
    assert len(kept) == made.journal.written
    assert set(kept) <= set(range(1, made.journal.written + made.journal.lost + 1))


@pytest.mark.parametrize(
    "environment",
    [{}, {"CRITIQOR_RUN_ID": RUN}, {"CRITIQOR_RUN_ID": "../x", "CRITIQOR_RUNS_DIR": "/nowhere"}],
)
def test_without_a_run_nothing_is_recorded(environment: dict[str, str]) -> None:
    source = Source()
    attach_recorder(source, EventStreams(), source, environment).close()
    assert (source.hooks, source.transcript) == ({}, None)


def test_what_is_recorded_can_be_sealed_and_diagnosed(runs: Runs) -> None:
    run_id = runs.start()
    made = Recording(runs.folder)
    assert run_id == RUN
    made.hook("before_agent_run")
    made.saved("user", "run the tests")
    made.answer([{"type": "toolCall", "id": "call_0", "name": "exec"}])
    result = {"content": [{"type": "text", "text": "1 failed"}], "details": {"exitCode": 1}}
    made.tool("call_0", params={"command": "npm test"}, result=result)
    made.answer("All tests pass.")
    made.ended()
    made.recorder.close()
    record = runs.finalize(run_id)
    coverage = runs.evidence(run_id)["coverage"]
    assert coverage["recorder_attached"]
    for figure in ("damaged_records", "missing_records", "calls_without_results", "responses_without_usage"):
        assert coverage[figure] == 0, figure
    found = record["diagnosis"]["failure_analysis"]["findings"]
    assert "false_success_claim" in {finding["type"] for finding in found}, found
