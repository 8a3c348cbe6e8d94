"""Records that the recorder of the embedded loop writes for what the loop reports."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import CONTEXT, MODEL, RUN, USAGE, Recording, Source, sequences
from support import Fields, Runs

import critiqor
from critiqor.agentloop.recording.recorder import MAX_SESSIONS, attach_recorder
from critiqor.agentloop.recording.run_recording import (
    NOT_RECORDED,
    AttemptEnd,
    AttemptTotals,
    ModelCallEnd,
    ToolCallEnd,
)
from critiqor.model import Event
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
TURN = ["turn_start", "before_provider_request", "after_provider_response", "message_end"]


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
    made.run.attempt_started("main", "user")
    made.saved("user", "do it")
    made.run.prompt_built("You are", ["exec"], 1)
    made.answer([{"type": "text", "text": "I start."}, {"type": "toolCall", "id": "call_0", "name": "exec"}])
    made.tool("call_0", result={"content": [{"type": "text", "text": "hello"}], "details": {"exitCode": 0}})
    made.answer([{"type": "text", "text": "Done."}])
    made.ended()
    tools = ["tool_call", "tool_result"]
    assert made.kinds() == ["agent_start", "input", *TURN, *tools, "turn_end", *TURN, "turn_end", "agent_end"]
    assert {event["session_key"] for event in made.events()} == {"agent:main:main"}
    assert {event["agent_run_id"] for event in made.events()} == {"r1"}
    start, question = made.events()[:2]
    assert start["payload"] == {"attempt": 1, "agent_id": "main", "trigger": "user"}
    assert question["payload"]["role"] == "user" and question["payload"]["text"] == "do it"
    first, second = made.of("before_provider_request")
    assert first["payload"]["system_prompt"]["size"] == 7
    assert (first["payload"]["tools"]["count"], first["payload"]["history_messages"]) == (1, 1)
    assert first["payload"]["tools"]["names"] == ["exec"]
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
        "usage_total": {"input": 1000},
        **MODEL,
    }


def test_a_prompt_is_digested_and_not_copied(made: Recording) -> None:
    made.run.prompt_built("You are helpful. " * 9000, [], 0)
    made.run.model_call_started(MODEL)
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
        ({"is_error": True, "result": {"details": {"error": "broken"}}}, "broken"),
        ({"result": {"content": [{"type": "text", "text": "fine"}]}}, None),
        ({}, None),
    ],
)
def test_what_counts_as_a_failed_tool_call(end: dict[str, Any], error: str | None, made: Recording) -> None:
    made.tool("c", **end)
    (result,) = made.of("tool_result")
    assert (result["status"], result["error"]) == ("ok" if error is None else "error", error)
    assert result["duration_ms"] == 3


def test_calls_that_share_an_id_are_separate_pairs(made: Recording) -> None:
    made.answer()
    for code in (0, 1, 2):
        made.tool("call_0", arguments={"n": code}, result={"details": {"exitCode": code}})
    calls, results = made.of("tool_call"), made.of("tool_result")
    assert [call["payload"]["arguments"]["n"] for call in calls] == [0, 1, 2]
    assert [result["payload"]["exit_code"] for result in results] == [0, 1, 2]
    assert all(call["payload"]["source"] == "tool:start" and call["duration_ms"] is None for call in calls)
    assert all(result["payload"]["source"] == "after_tool_call" for result in results)


def test_progress_reports_of_a_tool_are_counted_in_its_result(made: Recording) -> None:
    made.run.tool_call_started("c", "exec", {})
    for call_id in ("c", "c", "unknown"):
        made.run.tool_call_updated(call_id)
    made.run.tool_call_ended("c", ToolCallEnd({}, None, False, 1))
    made.tool("c")
    assert [result["payload"].get("updates") for result in made.of("tool_result")] == [2, None]


def test_a_result_without_its_call_is_a_gap_in_the_numbering(made: Recording) -> None:
    made.run.tool_call_ended("c", ToolCallEnd({}, None, False, 1))
    made.tool("d")
    assert made.recorder.lost == 1
    assert sequences(made.lines()) == [1, 3, 4]


def test_a_result_after_the_end_of_its_run_is_recorded(made: Recording) -> None:
    made.run.attempt_started("main")
    made.run.tool_call_started("c", "exec", {})
    made.run.run_ended("main", AttemptEnd("left behind", "aborted", True))
    made.run.tool_call_ended("c", ToolCallEnd({}, None, False, 1))
    made.run.run_ended("main", AttemptEnd(None, None, False))
    assert made.kinds() == ["agent_start", "tool_call", "agent_end", "tool_result"]


def test_several_tools_at_a_time_keep_their_own_results(made: Recording) -> None:
    made.answer()
    for call_id in ("a", "b"):
        made.run.tool_call_started(call_id, "exec", {"command": call_id})
    for call_id, code in (("b", 1), ("a", 0)):
        made.tick(10)
        made.run.tool_call_ended(call_id, ToolCallEnd({"details": {"exitCode": code}}, None, False, 10 + code))
    ends = [(event["tool_call_id"], event["status"], event["duration_ms"]) for event in made.of("tool_result")]
    assert ends == [("b", "error", 11), ("a", "ok", 10)]


@pytest.mark.parametrize(
    ("name", "arguments", "result", "lookup"),
    [
        ("memory_search", {"query": "plan"}, {"details": {"results": [{"path": "a"}]}}, "found"),
        ("memory_search", {"query": "plan"}, {"details": {"results": []}}, "empty"),
        ("memory_search", {"query": "plan"}, {"details": {"results": [], "disabled": True}}, "error"),
        ("memory_get", {"path": "MEMORY.md"}, {"details": {"text": " "}}, "empty"),
        ("memory_get", {"path": "MEMORY.md"}, {"content": [{"type": "text", "text": "notes"}]}, "found"),
    ],
)
def test_a_memory_lookup_is_the_same_record_once_more(
    name: str, arguments: dict[str, str], result: dict[str, Any], lookup: str, made: Recording
) -> None:
    made.tool("m", name, arguments=arguments, result=result)
    called, pending, ended, found = made.events()
    for record, again, outcome in ((called, pending, "pending"), (ended, found, lookup)):
        wanted = {"query": arguments.get("query"), "key": arguments.get("path"), "lookup": outcome}
        payload = {**record["payload"], "observed_as": record["event_type"], **wanted}
        names = {"event_id": again["event_id"], "event_type": name, "raw_event_type": name}
        assert again == {**record, **names, "payload": payload}


def test_a_failed_model_call_makes_its_turn_and_its_attempt_fail(made: Recording) -> None:
    made.run.attempt_started("main")
    made.response(outcome="error", errorCategory="server", failover_reason="overloaded", error="HTTP 500: no")
    made.run.attempt_ended(AttemptEnd(None, None, False))
    made.run.provider_retry({"phase": "retrying", "retryAttempt": 1, "delayMs": 20})
    made.run.attempt_started("main")
    made.answer("fine")
    made.ended()
    failed, worked = made.of("after_provider_response")
    assert (failed["status"], failed["error"]) == ("error", "HTTP 500: no")
    assert failed["payload"]["failover_reason"] == "overloaded"
    assert worked["status"] == "ok"
    assert [(end["status"], end["payload"]["attempt"]) for end in made.of("agent_end")] == [("error", 1), ("ok", 2)]
    assert [end["status"] for end in made.of("turn_end")] == ["error", "ok"]
    assert made.of("provider_retry")[0]["payload"]["delayMs"] == 20


def test_a_failure_without_a_text_is_named_by_its_category(made: Recording) -> None:
    made.response(outcome="error", errorCategory="aborted")
    made.response(outcome="error")
    assert [event["error"] for event in made.of("after_provider_response")] == ["aborted", "model call failed"]


@pytest.mark.parametrize(("stop_reason", "error"), [("error", "connection refused"), ("aborted", "aborted")])
def test_an_answer_that_was_saved_as_failed_is_an_error(stop_reason: str, error: str, made: Recording) -> None:
    text: Fields = {"errorMessage": error} if stop_reason == "error" else {}
    made.saved("assistant", [], stopReason=stop_reason, **text)
    (message,) = made.of("message_end")
    assert (message["status"], message["error"]) == ("error", error)


def test_a_request_without_an_answer_is_closed_as_unobserved(made: Recording) -> None:
    for _ in range(2):
        made.run.model_call_started(MODEL)
    assert made.of("after_provider_response")[0]["payload"]["outcome"] == "unobserved"
    assert made.kinds()[:4] == ["turn_start", "before_provider_request", "after_provider_response", "turn_end"]


def test_text_that_was_never_saved_is_kept_as_partial(made: Recording) -> None:
    made.run.attempt_started("main")
    made.run.text_streamed("I start.")
    made.answer("I start.")
    made.run.model_call_started(MODEL)
    made.run.text_streamed("half of a")
    made.run.model_call_ended(ModelCallEnd({"outcome": "error", "errorCategory": "timeout"}, None, "timed out"))
    made.run.run_ended("main", AttemptEnd("timed out", "aborted", True))
    *_, partial = made.of("message_end")
    assert (partial["payload"]["text"], partial["payload"]["partial"]) == ("half of a", True)
    assert len(made.of("message_end")) == 2
    assert made.of("agent_end")[0]["error"] == "timed out"


def test_the_end_of_an_attempt_is_its_last_record_however_long_writing_takes(made: Recording) -> None:
    def tick() -> int:
        made.tick(1)
        return made.now

    made.run.attempt_started("main")
    made.run.model_call_started(MODEL)
    made.run.text_streamed("half of a")
    made.journal._clock = tick
    made.run.run_ended("main", AttemptEnd("gone", "error", False))
    assert made.kinds()[-3:] == ["message_end", "turn_end", "agent_end"]


def test_an_abort_and_an_error_make_the_attempt_fail(made: Recording) -> None:
    for end in (AttemptEnd(None, None, True), AttemptEnd("no key", None, False), AttemptEnd(None, "stop", False)):
        made.run.attempt_started("main")
        made.run.attempt_ended(end)
    assert [end["error"] for end in made.of("agent_end")] == ["aborted", "no key", None]


def test_an_attempt_has_one_end(made: Recording) -> None:
    made.run.attempt_started("main")
    made.answer()
    made.ended()
    made.ended()
    assert len(made.of("agent_end")) == 1
    assert made.kinds()[-1] == "agent_end"


def test_a_run_that_ends_outside_an_attempt_counts_as_one(made: Recording) -> None:
    made.run.run_ended("main", AttemptEnd("the workspace is missing", "error", False))
    start, end = made.events()
    assert start["payload"] == {"attempt": 1, "agent_id": "main"}
    expected = {"attempt": 1, "error": "the workspace is missing", "stopReason": "error", "aborted": False}
    assert (end["event_type"], end["payload"]) == ("agent_end", expected)


def test_a_compaction_is_recorded_with_what_is_known_of_it(made: Recording) -> None:
    made.run.compaction("start", {"reason": "threshold", "tokensBefore": 9})
    made.run.compaction("end", {"willRetry": False})
    assert made.kinds() == ["compaction_start", "compaction_end"]
    payloads = [event["payload"] for event in made.events()]
    assert payloads == [
        {"phase": "start", "reason": "threshold", "tokensBefore": 9},
        {"phase": "end", "willRetry": False},
    ]


def test_hooks_are_recorded_under_their_name_with_their_error(made: Recording) -> None:
    made.hook("gateway_start", {}, port=1)
    made.hook("session_start", {}, sessionKey="s1")
    made.hook("message_sent", {}, sessionKey="s1", success=False, error="refused")
    child = {"runId": "child", "childSessionKey": "agent:main:subagent:1"}
    made.hook("subagent_spawned", CONTEXT, **child)
    made.hook("subagent_ended", CONTEXT, runId="child", targetSessionKey=child["childSessionKey"], outcome="timeout")
    owners = [(event["event_type"], event["session_key"], event["agent_run_id"]) for event in made.events()]
    assert owners == [
        ("gateway_start", None, None),
        ("session_start", "s1", None),
        ("message_sent", "s1", None),
        ("subagent_spawned", "agent:main:subagent:1", "child"),
        ("subagent_ended", "agent:main:subagent:1", "child"),
    ]
    assert [event["error"] for event in made.events()] == [None, None, "refused", None, "ended with timeout"]


def test_a_hook_during_a_turn_is_part_of_that_turn(made: Recording) -> None:
    made.answer()
    made.tick(7)
    made.hook("message_sent", CONTEXT, success=True)
    made.run.run_ended("main", AttemptEnd(None, "stop", False))
    assert made.of("turn_end")[0]["duration_ms"] == 12


def test_runs_that_interleave_are_kept_apart(made: Recording) -> None:
    both = (made.run, made.recorder.open_run("r2", "agent:main:other"))
    for run in both:
        run.attempt_started("main")
    for run in both:
        run.model_call_started(MODEL)
    for number, run in enumerate(both):
        run.model_call_ended(ModelCallEnd({"outcome": "completed"}, {"output": number}, None))
    for number, run in enumerate(both):
        made.saved("assistant", "ok", run)
        made.tool("call_0", run=run, result={"details": {"exitCode": number}})
    for run in both:
        made.ended(run)
    for number, run in enumerate(both):
        own = [event for event in made.events() if event["agent_run_id"] == run.run_id]
        kinds = [event["event_type"] for event in own]
        assert kinds == ["agent_start", *TURN, "tool_call", "tool_result", "turn_end", "agent_end"]
        assert {event["session_key"] for event in own} == {run.session_key}
        assert own[3]["payload"]["usage"] == {"output": number}
        assert own[6]["payload"]["exit_code"] == number


def test_a_hook_that_names_no_run_belongs_to_the_latest_run_of_its_session(made: Recording) -> None:
    made.recorder.open_run("r2", "agent:main:main")
    made.run.attempt_started("main")
    made.hook("session_end", {"sessionKey": "agent:main:main"})
    assert made.of("session_end")[0]["agent_run_id"] == "r2"


def test_nothing_is_recorded_after_the_recorder_was_closed(made: Recording) -> None:
    made.run.attempt_started("main")
    made.recorder.close()
    made.recorder.close()
    made.answer()
    made.hook("session_end")
    made.ended()
    assert made.kinds() == ["agent_start"]
    assert made.recorder.lost == 0


def test_runs_are_forgotten_when_they_are_over(made: Recording) -> None:
    for number in range(MAX_SESSIONS + 50):
        run = made.recorder.open_run(f"short {number}", f"s{number}")
        run.attempt_started("main")
        made.ended(run)
    del run
    gc.collect()
    assert list(made.recorder._runs) == ["r1"]
    assert len(made.recorder._latest_run) == MAX_SESSIONS


def test_a_long_run_does_not_hold_on_to_what_is_over(made: Recording) -> None:
    made.run.attempt_started("main")
    for number in range(500):
        made.tool(f"call {number}", arguments={"n": number}, result={"details": {}})
        made.tool("call_0", result={})
    assert made.run._tool_calls == {}
    assert len(made.of("tool_result")) == 1000


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("runId", "sessionKey", "childSessionKey", "error", "isError", "success", "outcome", "content", "details")


class Report(NamedTuple):
    kind: int
    facts: dict[str, Any]
    value: Any
    text: str | None


REPORTS = st.builds(
    Report,
    st.integers(0, 12),
    st.dictionaries(st.sampled_from(FIELDS), ODD),
    ODD,
    st.none() | st.text(st.characters()),
)


def send(made: Recording, report: Report) -> None:
    run, (kind, facts, value, text) = made.run, report
    calls: list[Callable[[], None]] = [
        lambda: run.attempt_started("main", text),
        lambda: run.prompt_built(text or "", [text or ""], 1),
        lambda: run.model_call_started(facts),
        lambda: run.model_call_ended(ModelCallEnd(facts, value, text)),
        lambda: run.text_streamed(text or ""),
        lambda: run.tool_call_started("c", "memory_search", value),
        lambda: run.tool_call_updated("c"),
        lambda: run.tool_call_ended("c", ToolCallEnd(facts, text, True, 1)),
        lambda: run.compaction("start", facts),
        lambda: run.attempt_ended(AttemptEnd(text, text, True, AttemptTotals(1, 1, facts, "p", "m"))),
        lambda: run.run_ended("main", AttemptEnd(text, text, False)),
        lambda: made.hook(sorted(made.hooks)[len(facts) % len(made.hooks)], {}, **facts),
        lambda: made.saved("assistant", value, stopReason=value),
    ]
    calls[kind]()


@given(reports=st.lists(REPORTS, max_size=12))
def test_whatever_is_reported_nothing_fails_and_every_fact_is_a_record_or_a_gap(
    reports: list[Report], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = Recording(tmp_path_factory.mktemp("odd"))
    for report in reports:
        send(made, report)
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
    recorder = attach_recorder(source, source, environment)
    assert recorder.open_run("r1", "s1") is NOT_RECORDED
    recorder.close()
    assert (source.hooks, source.transcript) == ({}, None)


def test_what_is_recorded_can_be_sealed_and_diagnosed(runs: Runs) -> None:
    run_id = runs.start()
    made = Recording(runs.folder)
    assert run_id == RUN
    made.run.attempt_started("main", "user")
    made.saved("user", "run the tests")
    made.answer([{"type": "toolCall", "id": "call_0", "name": "exec"}])
    result = {"content": [{"type": "text", "text": "1 failed"}], "details": {"exitCode": 1}}
    made.tool("call_0", arguments={"command": "npm test"}, result=result)
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
