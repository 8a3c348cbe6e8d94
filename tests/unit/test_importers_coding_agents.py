"""Transcripts of Claude Code and Codex, of several versions, also damaged ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import Cli

from critiqor.importers import detect_format, read_traces
from critiqor.importers.trace import ImportedTrace
from critiqor.run.diagnosis import diagnose_trace

CLAIM = "All tests pass."
FAILED = "1 failed, 11 passed"


def claude(number: int, kind: str, message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A line of a transcript of Claude Code."""
    time = f"2026-02-01T14:59:{number:02}.000Z"
    named = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": "session-1", "version": "2.1.7"}
    return {"type": kind, "timestamp": time, "isSidechain": False, **named, "message": message, **fields}


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


USAGE = {"input_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 90, "output_tokens": 20}
CALLING = part("tool_use", id="toolu_1", name="Bash", input={"command": "pytest -q"})
RESULT = part("tool_result", tool_use_id="toolu_1", content=f"Exit code 1\n{FAILED}", is_error=True)


def response(name: str, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A message of the model in a transcript of Claude Code."""
    message = {"id": name, "role": "assistant", "model": "claude-haiku-4-5", "content": list(content), "usage": USAGE}
    return {**message, **fields}


CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "Tests", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    claude(1, "user", {"role": "user", "content": "<command-name>/clear</command-name>"}),
    claude(2, "user", {"role": "user", "content": "Make the tests pass."}),
    claude(3, "assistant", response("msg_1", part("thinking", thinking="Hm.", signature="x"))),
    claude(4, "assistant", response("msg_1", part("text", text="I run them."))),
    claude(5, "assistant", response("msg_1", CALLING, stop_reason="tool_use")),
    claude(6, "user", {"role": "user", "content": [RESULT]}, toolUseResult="Error: Exit code 1"),
    claude(7, "assistant", response("msg_2", part("text", text=CLAIM), stop_reason="end_turn")),
    claude(7, "assistant", response("msg_2", part("text", text=CLAIM), stop_reason="end_turn")),
]
CLAUDE_OLD: list[dict[str, Any]] = [
    {**line, "costUSD": 0.5, "version": "0.2.9"} if line["type"] == "assistant" else line for line in CLAUDE[2:]
]
CLAUDE_STREAM: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "session-1", "claude_code_version": "2.1.7", "tools": []},
    {"type": "user", "session_id": "session-1", "message": {"role": "user", "content": "Make the tests pass."}},
    {
        "type": "assistant",
        "session_id": "session-1",
        "message": response("msg_1", part("text", text="I run them."), CALLING),
    },
    {"type": "user", "session_id": "session-1", "message": {"role": "user", "content": [RESULT]}},
    {"type": "assistant", "session_id": "session-1", "message": response("msg_2", part("text", text=CLAIM))},
    {"type": "result", "subtype": "success", "session_id": "session-1", "total_cost_usd": 1.0},
]


def codex(number: int, line: str, /, **payload: Any) -> dict[str, Any]:
    """A line of a rollout file of Codex."""
    payload = {"type": payload.pop("what"), **payload} if "what" in payload else payload
    return {"timestamp": f"2026-02-01T14:59:{number:02}.000Z", "type": line, "payload": payload}


def tokens(number: int, total: int) -> dict[str, Any]:
    last = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 20, "total_tokens": 1020}
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
    return codex(number, "event_msg", what="token_count", info=info)


def said(number: int, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex(number, "response_item", what="message", role=role, content=[part(kind, text=text)])


ARGUMENTS = json.dumps({"command": ["bash", "-lc", "pytest -q"]})
OUTPUT = json.dumps({"output": FAILED, "metadata": {"exit_code": 1, "duration_seconds": 0.4}})
CODEX: list[dict[str, Any]] = [
    codex(0, "session_meta", id="session-1", cwd="/w", originator="codex_cli_rs", cli_version="0.65.0"),
    said(1, "user", "<environment_context>\n<cwd>/w</cwd></environment_context>"),
    said(1, "user", "Make the tests pass."),
    codex(1, "event_msg", what="user_message", message="Make the tests pass.", kind="plain"),
    codex(1, "turn_context", cwd="/w", model="gpt-5-codex"),
    codex(2, "event_msg", what="agent_reasoning", text="Hm."),
    codex(2, "response_item", what="reasoning", summary=[], encrypted_content="x"),
    said(3, "assistant", "I run them."),
    codex(3, "response_item", what="function_call", name="shell", arguments=ARGUMENTS, call_id="call_1"),
    tokens(3, 1020),
    codex(4, "response_item", what="function_call_output", call_id="call_1", output=OUTPUT),
    said(5, "assistant", CLAIM),
    codex(5, "event_msg", what="agent_message", message=CLAIM),
    tokens(5, 2040),
    tokens(6, 2040),
]
CODEX_OLD: list[dict[str, Any]] = [
    {"id": "session-1", "timestamp": "2025-06-01T14:59:00.000Z", "instructions": None},
    {"record_type": "state"},
    *(line["payload"] for line in CODEX if line["type"] == "response_item"),
]
EXECUTED: dict[str, Any] = {
    "id": "item_2",
    "type": "command_execution",
    "command": "pytest -q",
    "aggregated_output": FAILED,
    "exit_code": 1,
    "status": "failed",
}
CODEX_EXEC: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "session-1"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "Hm."}},
    {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "I run them."}},
    {
        "type": "item.completed",
        "item": EXECUTED,
    },
    {"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": CLAIM}},
    {"type": "turn.completed", "usage": {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 20}},
]
TRANSCRIPTS: dict[str, list[dict[str, Any]]] = {
    "claude_code": CLAUDE,
    "claude_code of an old version": CLAUDE_OLD,
    "claude_code as a stream": CLAUDE_STREAM,
    "codex": CODEX,
    "codex of an old version": CODEX_OLD,
    "codex as a stream": CODEX_EXEC,
}


def imported(folder: Path, *lines: Any) -> ImportedTrace:
    file = folder / "transcript.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    [trace] = read_traces(file)
    return trace


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_becomes_requests_model_calls_tool_calls_and_results(tmp_path: Path, name: str) -> None:
    trace = imported(tmp_path, *TRANSCRIPTS[name])

    assert (trace.format, trace.trace_id, trace.not_understood) == (name.split()[0], "session-1", 0)
    kinds = Counter(event.event_type for event in trace.events)
    requests = 0 if name == "codex as a stream" else 1  # it does not contain them
    assert (kinds["input"], kinds["tool_call"], kinds["tool_output"]) == (requests, 1, 1)
    assert (kinds["token_usage"], kinds["message_end"], kinds["agent_end"]) == (2, 2, 1)
    [result] = [event for event in trace.events if event.event_type == "tool_output"]
    assert (result.status, result.error) == ("error", "exit code 1")
    assert [event.payload["text"] for event in trace.events if event.event_type == "message_end"] == [
        "I run them.",
        CLAIM,
    ]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_false_claim_in_a_transcript_is_found(tmp_path: Path, name: str) -> None:
    diagnosis = diagnose_trace(imported(tmp_path, *TRANSCRIPTS[name]))
    assert [finding.type for finding in diagnosis.failure_analysis.findings][:1] == ["false_success_claim"]


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_tokens_of_a_response_count_once(tmp_path: Path, name: str) -> None:
    cost = diagnose_trace(imported(tmp_path, *TRANSCRIPTS[name])).cost_analysis
    read = cost.input_tokens + cost.cache_read_tokens + cost.cache_write_tokens
    assert (cost.model_calls, read, cost.output_tokens) == (2, 2000, 40)


def test_the_cost_that_old_versions_of_claude_code_state_is_kept(tmp_path: Path) -> None:
    assert diagnose_trace(imported(tmp_path, *CLAUDE_OLD)).cost_analysis.cost_usd == 1.0


def test_a_subagent_is_an_agent_run_of_its_own(tmp_path: Path) -> None:
    lines = [
        {**line, "isSidechain": True, "agentId": "helper", "uuid": f"s{number}"}
        for number, line in enumerate(CLAUDE[3:])
    ]
    trace = imported(tmp_path, *CLAUDE[:7], *lines, *CLAUDE[7:])
    assert {event.agent_run_id for event in trace.events} == {"turn-1", "helper-turn-1"}


API_ERROR = response("m", part("text", text="API Error"))
STOPPED = {"content": [part("text", text="[Request interrupted by user]")]}


@pytest.mark.parametrize(
    ("before", "last", "kind", "status"),
    [
        (CLAUDE, claude(8, "system", {}, subtype="api_error", error={"message": "busy"}), "token_usage", "error"),
        (CLAUDE, claude(8, "assistant", API_ERROR, isApiErrorMessage=True), "token_usage", "error"),
        (CLAUDE, claude(8, "system", {}, subtype="compact_boundary"), "compaction_end", "ok"),
        (CLAUDE, claude(8, "user", {"content": "So far: x"}, isCompactSummary=True), "compaction_end", "ok"),
        (CLAUDE, claude(8, "user", STOPPED), "agent_end", "ok"),
        (CODEX, codex(8, "event_msg", what="stream_error", message="502"), "token_usage", "error"),
        (CODEX, codex(8, "event_msg", what="turn_aborted", reason="interrupted"), "agent_end", "ok"),
        (CODEX, codex(8, "compacted", message="So far: x"), "compaction_end", "ok"),
    ],
)
def test_failures_interruptions_and_compactions_are_events(
    tmp_path: Path, before: list[Any], last: dict[str, Any], kind: str, status: str
) -> None:
    end = imported(tmp_path, *before[:7], last).events[-1]
    assert (end.event_type, end.status) == (kind, status)


@pytest.mark.parametrize("lines", [CLAUDE, CODEX], ids=["claude_code", "codex"])
def test_what_is_not_understood_is_counted_and_named(tmp_path: Path, lines: list[Any]) -> None:
    strange = [
        {"type": "hologram", "uuid": "h", "timestamp": "2026-02-01T15:00:00Z"},
        '{"type": "user", "mess',
        "7",
        claude(30, "assistant", response("m9", part("smell", intensity=3)))
        if lines is CLAUDE
        else codex(30, "response_item", what="smell"),
    ]
    trace = imported(tmp_path, *lines, *strange)

    assert trace.not_understood == 4
    assert "hologram" in str(trace.notes) and "smell" in str(trace.notes)
    whole = imported(tmp_path, *lines)
    assert diagnose_trace(trace).confidence_score < diagnose_trace(whole).confidence_score


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_damaged_transcript_never_raises(tmp_path: Path, name: str) -> None:
    lines = TRANSCRIPTS[name]
    junk: list[Any] = [None, [], 7, "x", {}, {"type": None}, [[]], {"content": 7}, True]
    file = tmp_path / "transcript.jsonl"
    for position, line in enumerate(lines):
        for member in line:
            for value in junk:
                damaged = [*lines[:position], {**line, member: value}, *lines[position + 1 :]]
                file.write_text("".join(json.dumps(one) + "\n" for one in damaged))
                assert [trace.format for trace in read_traces(file)]


def test_a_transcript_is_imported_by_the_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in CODEX))
    assert detect_format(tmp_path / "session.jsonl") == "codex"
    done = cli("import", "session.jsonl", "--json")
    assert done.code == 0
    assert [run["run_id"] for run in done.data["runs"]] == ["run_001"]
