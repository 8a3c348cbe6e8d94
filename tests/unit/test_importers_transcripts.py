from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Fields

from critiqor.errors import UsageError
from critiqor.importers import ImportedTrace, detect_format, read_traces
from critiqor.model import Event

FIXTURES = Path(__file__).parent / "fixtures"
"""Transcripts of real OpenClaws: 2026.6.1 from its sessions folder, 2026.9.6 from a deleted session."""
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-11-15T22:00:00.000Z", "cwd": "/home/user"}
START = 1_794_780_000_000
USAGE = {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 0, "cost": {"total": 0.01}}


class Transcript:
    """Builds a transcript entry by entry, one second apart."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = [HEADER]

    def entry(self, kind: str, parent: str | None = None, **fields: Any) -> str:
        number = len(self.lines)
        known = {"type": kind, "id": f"e{number}", "parentId": parent or (f"e{number - 1}" if number > 1 else None)}
        at = START + number * 1000
        self.lines.append({**known, "timestamp": f"2026-11-15T22:00:{number:02d}.000Z", **fields, "at": at})
        return f"e{number}"

    def message(self, role: str, content: Any = (), *, parent: str | None = None, **fields: Any) -> str:
        at = START + len(self.lines) * 1000
        return self.entry("message", parent, message={"role": role, "content": content, "timestamp": at, **fields})

    def user(self, text: str = "do it") -> str:
        return self.message("user", [{"type": "text", "text": text}])

    def agent(self, *parts: dict[str, Any], stop: str = "stop", **fields: Any) -> str:
        defaults = {"provider": "lab", "model": "m", "api": "openai-completions", "usage": USAGE, "stopReason": stop}
        return self.message("assistant", list(parts), **{**defaults, **fields})

    def result(self, call_id: str, name: str = "exec", text: str = "ok", **fields: Any) -> str:
        content = fields.pop("content", [{"type": "text", "text": text}])
        known = {"toolCallId": call_id, "toolName": name, "isError": False}
        return self.message("toolResult", content, **{**known, **fields})

    def read(self, folder: Path) -> ImportedTrace:
        path = folder / "transcript.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        [trace] = read_traces(path)
        return trace


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "exec", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def kinds(trace: ImportedTrace) -> list[str]:
    return [event.event_type for event in trace.events]


@pytest.mark.parametrize(("stop", "error"), [("aborted", "Request was aborted"), ("error", "terminated")])
def test_a_response_that_failed_made_no_tool_call_and_ends_the_run(tmp_path: Path, stop: str, error: str) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(text("I write it."), call("c1", "write"), stop=stop, errorMessage=error)
    trace = transcript.read(tmp_path)
    assert "tool_call" not in kinds(trace)
    assert (trace.events[-1].event_type, trace.events[-1].error) == ("agent_end", error)


def test_a_tool_call_of_a_failed_response_was_made_if_it_has_a_result(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(call("c1", command="ls"), stop="error", errorMessage="terminated")
    transcript.result("c1")
    trace = transcript.read(tmp_path)
    [made] = [event for event in trace.events if event.event_type == "tool_call"]
    assert made.payload["arguments"] == {"command": "ls"}
    assert trace.notes == []


def of(trace: ImportedTrace, kind: str) -> list[Event]:
    return [event for event in trace.events if event.event_type == kind]


@pytest.mark.parametrize("version", ["2026.6.1", "2026.9.6"])
def test_a_transcript_of_a_real_openclaw(version: str) -> None:
    path = FIXTURES / f"openclaw-{version}.jsonl"
    assert detect_format(path) == "openclaw_transcript"
    [trace] = read_traces(path)
    assert [event.event_id for event in trace.events] == sorted({event.event_id for event in trace.events})
    assert kinds(trace)[:6] == [
        "agent_start",
        "input",
        "before_provider_request",
        "token_usage",
        "message_end",
        "tool_call",
    ]
    assert kinds(trace)[-2:] == ["message_end", "agent_end"]
    assert len({event.agent_run_id for event in trace.events}) == 1
    results = {event.tool_name: event for event in of(trace, "tool_output")}
    failed = [(event.tool_name, event.status) for event in of(trace, "tool_output")][:4]
    assert failed == [("exec", "ok"), ("read", "error"), ("exec", "error"), ("frobnicate", "error")]
    assert results["exec"].error == "exit code 3"
    assert results["exec"].payload["exit_code"] == 3
    assert results["exec"].duration_ms is not None
    assert "missing/file.txt" in (results["read"].error or "")
    assert [event.payload["usage"]["input"] for event in of(trace, "token_usage")] == [1000] * len(
        of(trace, "token_usage")
    )
    assert len(of(trace, "tool_call")) == len(of(trace, "tool_output"))
    assert any("without the message that requested them" in note and "frobnicate" in note for note in trace.notes)
    assert of(trace, "agent_end")[0].payload["success"] is True
    assert of(trace, "message_end")[-1].payload["text"] == "All done, everything went well."


def test_memory_lookups_of_real_openclaws_are_lookups() -> None:
    [old] = read_traces(FIXTURES / "openclaw-2026.6.1.jsonl")
    lookups = [(event.raw_event_type, event.payload["lookup"]) for event in of(old, "memory_event")]
    # The first one returns no results and reports that its index is missing.
    assert lookups == [
        ("memory_search", "pending"),
        ("memory_search", "error"),
        ("memory_get", "pending"),
        ("memory_get", "empty"),
    ]
    [new] = read_traces(FIXTURES / "openclaw-2026.9.6.jsonl")
    nested = [event for event in of(new, "memory_event") if event.payload.get("parent_tool_call_id") == "call_5"]
    assert [(event.payload["query"], event.payload["lookup"]) for event in nested] == [
        ("fence", "pending"),
        ("fence", "empty"),
    ]
    assert nested[1].duration_ms is not None


def test_newer_transcripts_name_the_agent_run() -> None:
    [trace] = read_traces(FIXTURES / "openclaw-2026.9.6.jsonl")
    assert {event.agent_run_id for event in trace.events} == {"d03e5687-9727-4878-95f8-12a5888f6f81"}
    [older] = read_traces(FIXTURES / "openclaw-2026.6.1.jsonl")
    assert {event.agent_run_id for event in older.events} == {"turn-1"}
    assert {event.session_key for event in older.events} == {older.trace_id}


def test_the_same_session_from_a_trajectory_export(tmp_path: Path) -> None:
    source = [json.loads(line) for line in (FIXTURES / "openclaw-2026.9.6.jsonl").read_text().splitlines()]
    base = {"traceSchema": "openclaw-trajectory", "sessionId": source[0]["id"], "sessionKey": "agent:main:scratch"}
    lines: list[dict[str, Any]] = [{**base, "source": "runtime", "type": "session.started", "ts": "x", "data": {}}]
    for entry in source[1:]:
        data = {"message": entry["message"]} if "message" in entry else {"customType": entry.get("customType")}
        ids = {"type": "any", "ts": entry["timestamp"], "entryId": entry["id"], "parentEntryId": entry["parentId"]}
        lines.append({**base, "source": "transcript", **ids, "data": data})
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert detect_format(path) == "openclaw_trajectory"
    [exported] = read_traces(path)
    [transcript] = read_traces(FIXTURES / "openclaw-2026.9.6.jsonl")
    assert {event.session_key for event in exported.events} == {"agent:main:scratch"}
    same = [msgspec.structs.replace(event, session_key=transcript.trace_id) for event in exported.events]
    assert same == transcript.events


def test_a_trajectory_without_messages_is_refused_with_what_to_import_instead(tmp_path: Path) -> None:
    path = tmp_path / "s.trajectory.jsonl"
    path.write_text(json.dumps({"traceSchema": "openclaw-trajectory", "source": "runtime", "type": "session.started"}))
    with pytest.raises(UsageError, match="no messages") as refused:
        list(read_traces(path))
    assert "export-trajectory" in (refused.value.fix or "")


def test_each_message_of_the_user_begins_an_agent_run(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("first")
    transcript.agent(call("c"), stop="toolUse")
    transcript.result("c")
    transcript.agent(text("done"))
    transcript.user("second")
    transcript.agent(text("also done"))
    transcript.user("third, unanswered")
    trace = transcript.read(tmp_path)
    starts = [(event.agent_run_id, event.payload) for event in of(trace, "agent_start")]
    assert [run for run, _ in starts] == ["turn-1", "turn-2", "turn-3"]
    assert [event.agent_run_id for event in of(trace, "agent_end")] == ["turn-1", "turn-2"]
    assert [event.agent_run_id for event in of(trace, "input")] == ["turn-1", "turn-2", "turn-3"]
    assert trace.trace_id == "s-1"


def test_a_run_that_was_cut_off_has_no_end(tmp_path: Path) -> None:
    asked = Transcript()
    asked.user()
    asked.agent(call("c"), stop="toolUse")
    assert "agent_end" not in kinds(asked.read(tmp_path))
    asked.result("c")
    assert "agent_end" not in kinds(asked.read(tmp_path))
    asked.agent(text("done"))
    assert kinds(asked.read(tmp_path))[-1] == "agent_end"


def test_a_message_during_a_run_belongs_to_that_run(tmp_path: Path) -> None:
    transcript = Transcript()
    run: Fields = {"__openclaw": {"runId": "r-1"}}
    transcript.user()
    transcript.agent(call("c"), stop="toolUse", **run)
    transcript.result("c", **run)
    transcript.user("and hurry")
    transcript.entry("compaction", summary="so far", tokensBefore=100, firstKeptEntryId="e1")
    transcript.agent(text("done"), **run)
    trace = transcript.read(tmp_path)
    assert {event.agent_run_id for event in trace.events} == {"r-1"}
    assert kinds(trace).count("agent_start") == 1
    [compaction] = of(trace, "compaction_end")
    assert (compaction.payload["tokensBefore"], compaction.payload["summary"]) == (100, "so far")


def test_a_failed_model_call_is_a_failure(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(stop="error", errorMessage="401 no key")
    trace = transcript.read(tmp_path)
    failed = [(event.event_type, event.error) for event in trace.events if event.status == "error"]
    assert failed == [("token_usage", "401 no key"), ("message_end", "401 no key"), ("agent_end", "401 no key")]
    transcript.agent(text("it works now"))
    assert of(transcript.read(tmp_path), "agent_end")[0].status == "ok"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"details": {"exitCode": 0}}, None),
        ({"details": {"exitCode": 2}}, "exit code 2"),
        ({"details": {"exitCode": None, "exitSignal": "SIGKILL"}}, "ended by SIGKILL"),
        ({"details": {"timedOut": True}}, "timed out"),
        ({"details": {"noOutputTimedOut": True}}, "timed out"),
        ({"details": {"status": "failed", "error": "no such host"}}, "no such host"),
        ({"details": {"status": "error", "error": {"message": "nested"}}}, "nested"),
        ({"isError": True, "details": {}}, "said"),
        ({"isError": True, "content": []}, "no error message was given"),
        ({"details": {"exitCode": True}}, None),
        ({"details": "[Truncated]"}, None),
        ({"details": {"status": ["odd"]}}, None),
    ],
)
def test_what_counts_as_a_failure_of_a_tool(tmp_path: Path, fields: dict[str, Any], error: str | None) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(call("c"), stop="toolUse")
    transcript.result("c", text="said", **fields)
    [result] = of(transcript.read(tmp_path), "tool_output")
    assert (result.status, result.error) == ("ok" if error is None else "error", error)


@pytest.mark.parametrize(
    ("fields", "lookup"),
    [
        ({"details": {"results": [{"text": "blue"}]}}, "found"),
        ({"details": {"results": []}}, "empty"),
        ({"details": {"results": [], "disabled": True}}, "error"),
        ({"details": {"text": " "}}, "empty"),
        ({"isError": True}, "error"),
        ({}, "found"),
        ({"content": []}, "empty"),
    ],
)
def test_how_a_memory_lookup_ended(tmp_path: Path, fields: dict[str, Any], lookup: str) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(call("c", "memory_search", query="colour"), stop="toolUse")
    transcript.result("c", "memory_search", text="blue", **fields)
    trace = transcript.read(tmp_path)
    pending, ended = of(trace, "memory_event")
    assert (pending.payload["lookup"], pending.payload["observed_as"]) == ("pending", "tool_call")
    assert (ended.payload["lookup"], ended.payload["query"]) == (lookup, "colour")
    assert len(of(trace, "tool_call")) == len(of(trace, "tool_output")) == 1


def test_messages_saved_again_on_a_new_branch_count_once(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    first = transcript.agent(call("c1"), stop="toolUse")
    transcript.result("c1", text="a long log")
    transcript.agent(call("c2"), stop="toolUse")
    transcript.result("c2", text="another")
    transcript.agent(text("done"))
    # OpenClaw shortens an old result and saves everything after it again, unchanged.
    copied = [json.loads(json.dumps(line)) for line in transcript.lines[3:]]
    for number, line in enumerate(copied):
        line |= {"id": f"copy{number}", "parentId": f"copy{number - 1}" if number else first}
    copied[0]["message"]["content"][0]["text"] = "[shortened]"
    before = transcript.read(tmp_path)
    transcript.lines += copied
    after = transcript.read(tmp_path)
    assert after.events == before.events
    assert after.notes == ["messages that were saved a second time, left out: 4"]


def test_the_same_question_twice_is_not_a_copy(tmp_path: Path) -> None:
    transcript = Transcript()
    for _ in range(2):
        transcript.user("again")
        transcript.agent(text("done"))
    # All of them have the same time, as a careless converter writes it.
    for line in transcript.lines[1:]:
        line["message"]["timestamp"] = START
    assert kinds(transcript.read(tmp_path)).count("input") == 2


def test_messages_written_by_openclaw_are_not_model_calls(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(text("done"))
    transcript.agent(text("done"), provider="openclaw", model="delivery-mirror")
    transcript.agent(text("Context overflow"), api="cli", usage={"input": 999})
    trace = transcript.read(tmp_path)
    assert len(of(trace, "token_usage")) == 1
    assert len(of(trace, "message_end")) == 3
    transcript.user()
    transcript.agent(text("all of it"), api="cli")
    assert len(of(transcript.read(tmp_path), "token_usage")) == 2


def test_results_of_parallel_calls_have_no_duration_of_their_own(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.agent(call("a"), call("b"), stop="toolUse")
    transcript.result("a")
    transcript.result("b", details={"durationMs": 7})
    transcript.agent(call("c"), stop="toolUse")
    transcript.result("c")
    durations = {event.tool_call_id: event.duration_ms for event in of(transcript.read(tmp_path), "tool_output")}
    assert durations["a"] is None
    assert durations["b"] == 7
    assert durations["c"] is not None


def test_a_torn_transcript_is_read_up_to_the_tear(tmp_path: Path) -> None:
    lines = (FIXTURES / "openclaw-2026.6.1.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "torn.jsonl"
    path.write_bytes(b"".join([*lines[:9], b"garbage\n", *lines[9:12], lines[12][:50]]))
    [trace] = read_traces(path)
    assert "lines that could not be read: 2 (10: not JSON, 14: not JSON)" in trace.notes
    assert len(of(trace, "tool_output")) == 4


def test_a_message_of_an_unknown_role_is_noted(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user()
    transcript.message("bashExecution", command="ls")
    transcript.message("custom", customType="anything")
    transcript.agent(text("done"))
    trace = transcript.read(tmp_path)
    assert trace.notes == ["messages of an unknown role: 1 (line 3: bashExecution)"]
    assert kinds(trace)[-1] == "agent_end"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
NAMES = ("role", "content", "timestamp", "toolCallId", "toolName", "details", "usage", "stopReason", "isError", "api")
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "custom"]) | VALUES},
    optional={
        **dict.fromkeys(NAMES[1:], VALUES),
        "__openclaw": VALUES,
        "customType": st.just("openclaw.nested-tool.v1"),
    },
)
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "compaction"]) | VALUES},
    optional={"id": VALUES, "parentId": VALUES, "timestamp": VALUES, "message": MESSAGES | VALUES},
)


@given(entries=st.lists(ENTRIES | VALUES, max_size=6), place=st.integers(0, 6))
def test_good_messages_are_kept_whatever_else_is_in_the_transcript(entries: list[Any], place: int) -> None:
    transcript = Transcript()
    transcript.agent(call("good", "good_tool", a=1), stop="toolUse")
    transcript.result("good", "good_tool", text="fine")
    lines = [HEADER, *entries]
    lines[place + 1 : place + 1] = transcript.lines[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hostile.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        [trace] = read_traces(path)
    good = [event for event in trace.events if event.tool_name == "good_tool"]
    assert [event.event_type for event in good] == ["tool_call", "tool_output"]
    assert [event.event_id for event in trace.events] == sorted({event.event_id for event in trace.events})
    for event in trace.events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
