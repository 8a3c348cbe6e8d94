"""Transcripts of Codex: rollout files of all versions, and the output of `codex exec --json`.

Since 2025-09, a line of a rollout file is an envelope with `type` and `payload`; before that, it was the payload of a
`response_item`. The tokens of a response follow it as an event `token_count`, sometimes twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from critiqor.importers.atif_steps import Call, Result
from critiqor.importers.coding_agents.entries import (
    Answer,
    Calling,
    Compaction,
    Failure,
    Interruption,
    Request,
    Response,
    Transcript,
    write_transcript,
)
from critiqor.importers.files import read_entries
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_count, as_list, as_ms, as_object, as_text, parse_json

NAME = "codex"
_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_ITEMS = frozenset(
    (
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "local_shell_call", "web_search_call"),
    )
)
_SILENT_ITEMS = frozenset(("reasoning", "ghost_snapshot", "other", "compaction", "compaction_summary"))
_SILENT_EVENTS = frozenset(
    (
        *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break"),
        *(
            "task_started",
            "task_complete",
            "turn_started",
            "turn_complete",
            "turn_diff",
            "plan_update",
            "mcp_tool_call_end",
        ),
        *("exec_command_begin", "exec_command_end", "patch_apply_begin", "patch_apply_end", "mcp_tool_call_begin"),
        *("background_event", "entered_review_mode", "exited_review_mode", "thread_rolled_back", "web_search_begin"),
        *(
            "web_search_end",
            "warning",
            "context_compacted",
            "session_configured",
            "thread_name_updated",
            "undo_completed",
        ),
        *("item_completed", "item_started", "view_image_tool_call", "exec_approval_request", "deprecation_notice"),
    )
)
"""Events that repeat what items say, or say nothing about the work of the agent."""
_THREAD = frozenset(
    (
        "thread.started",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "item.started",
        "item.updated",
        "item.completed",
    )
)
_OWN_TEXTS = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>", "<skill>")
"""How messages begin that Codex itself writes in the place of the user's."""
_SHELLS = ("bash", "sh", "zsh")
_THREAD_TOOLS = {
    "command_execution": "shell",
    "mcp_tool_call": "mcp",
    "file_change": "apply_patch",
    "web_search": "web_search",
}


def is_codex(value: Any) -> bool:
    """Return whether a line belongs to a transcript of Codex."""
    if not isinstance(value, dict):
        return False
    kind = as_text(value.get("type"))
    if kind in _ENVELOPES:
        return isinstance(value.get("payload"), dict)
    if kind in _THREAD:
        return kind in ("thread.started", "turn.started") or isinstance(value.get("item"), dict) or "usage" in value
    return {"id", "timestamp", "instructions"} <= value.keys() and "type" not in value


def read_codex(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one session of a transcript."""
    reader = _Reader(path.name.split(".")[0])
    for line, value, problem in read_entries(path):
        if isinstance(value, dict):
            reader.add(line, value)
        else:
            place = f"{line}: {problem or 'not an object'}"
            reader.transcript.notes.add("lines that could not be read", place, not_understood=True)
    reader.finish()
    yield write_transcript(reader.transcript, key, "codex rollout").trace(NAME)


class _Reader:
    """Collects the entries of a transcript, line by line."""

    def __init__(self, session_id: str) -> None:
        self.transcript = Transcript(session_id, facts={"agent_name": "codex"})
        self._model: str | None = None
        self._response: Response | None = None
        """The response that is being read; None after a result or a request."""
        self._latest: Response | None = None
        """The last response, whose tokens may follow."""
        self._total: Any = None
        self._has_user_events = False

    def add(self, line: int, value: dict[str, Any]) -> None:
        """Add one line."""
        kind, at = as_text(value.get("type")), as_ms(value.get("timestamp"))
        payload = as_object(value.get("payload"))
        if kind in _THREAD:
            self._add_thread_event(line, kind, value)
        elif kind == "session_meta" or (kind is None and "instructions" in value):
            meta = payload or value
            self.transcript.session_id = as_text(meta.get("id")) or self.transcript.session_id
            if version := as_text(meta.get("cli_version")):
                self.transcript.facts["agent_version"] = version
        elif kind == "turn_context":
            self._model = as_text(payload.get("model")) or self._model
        elif kind == "compacted":
            self._close(Compaction(at=at, text=as_text(payload.get("message")) or ""))
        elif kind == "event_msg":
            self._add_event(line, at, payload)
        elif kind == "response_item":
            self._add_item(line, at, payload)
        elif kind in _ITEMS:
            self._add_item(line, at, value)  # a line of an old version
        elif value.get("record_type") != "state":
            self._note("entries of an unknown type", line, kind)

    def finish(self) -> None:
        """Decide which messages are requests: where events repeat them, only those are the user's own."""
        if self._has_user_events:
            own = [entry for entry in self.transcript.entries if not isinstance(entry, _SavedRequest)]
            self.transcript.entries = list(own)

    def _add_item(self, line: int, at: int | None, item: dict[str, Any]) -> None:
        kind = as_text(item.get("type"))
        call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
        if kind == "message":
            self._add_message(line, at, item)
        elif kind == "function_call":
            arguments = parse_json(item.get("arguments"))
            if isinstance(arguments, dict) and isinstance(arguments.get("command"), list):
                arguments = {**arguments, "command": _command(arguments["command"])}
            self._call(at, Call(call_id, as_text(item.get("name")), arguments))
        elif kind == "custom_tool_call":
            self._call(at, Call(call_id, as_text(item.get("name")), {"input": item.get("input")}))
        elif kind == "local_shell_call":
            action = as_object(item.get("action"))
            self._call(at, Call(call_id, "shell", {"command": _command(action.get("command"))}))
        elif kind == "web_search_call":
            call = Call(call_id or f"search {line}", "web_search", as_object(item.get("action")))
            self._call(at, call)
            self._close(Answer(at=at, result=Result(call_id=call.id, text="", is_error=False, subagents=[])))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._close(Answer(at=at, result=_result(call_id, item.get("output"))))
        elif kind not in _SILENT_ITEMS:
            self._note("items of an unknown type", line, kind)

    def _add_message(self, line: int, at: int | None, item: dict[str, Any]) -> None:
        role, content = as_text(item.get("role")), item.get("content")
        parts = [content] if isinstance(content, str) else [as_object(part).get("text") for part in as_list(content)]
        text = "\n".join(part for part in parts if isinstance(part, str) and part)
        if role == "assistant":
            response = self._begin(at)
            response.text = "\n".join(each for each in (response.text, text) if each)
        elif role == "user":
            if text.startswith(_OWN_TEXTS) or not text:
                self.transcript.notes.add("messages of Codex itself, left out")
            else:
                self._close(_SavedRequest(at=at, text=text))
        elif role not in ("developer", "system"):
            self._note("messages of an unknown role", line, role)

    def _add_event(self, line: int, at: int | None, event: dict[str, Any]) -> None:
        kind = as_text(event.get("type"))
        if kind == "token_count":
            self._add_tokens(as_object(event.get("info")))
        elif kind == "user_message":
            text = as_text(event.get("message")) or ""
            if text and not text.startswith(_OWN_TEXTS):
                self._has_user_events = True
                self._close(Request(at=at, text=text))
        elif kind in ("error", "stream_error"):
            error = as_text(event.get("message")) or "error"
            self._close(Failure(at=at, error=error, model=self._model))
        elif kind == "turn_aborted":
            self._close(Interruption(at=at))
        elif kind not in _SILENT_EVENTS:
            self._note("events of an unknown type", line, kind)

    def _add_tokens(self, info: dict[str, Any]) -> None:
        total = info.get("total_token_usage")
        if total is not None and total == self._total:
            return  # it is only repeated
        self._total = total
        usage = _usage(info.get("last_token_usage"))
        if self._latest is not None and usage is not None:
            self._latest.usage = usage
            self._latest = self._response = None

    def _add_thread_event(self, line: int, kind: str, value: dict[str, Any]) -> None:
        if kind == "thread.started":
            self.transcript.session_id = as_text(value.get("thread_id")) or self.transcript.session_id
        elif kind == "turn.completed":
            usage = _usage(value.get("usage"))
            if self._latest is not None:
                self._latest.usage = usage
        elif kind == "turn.failed":
            error = as_text(as_object(value.get("error")).get("message")) or "error"
            self._close(Failure(at=None, error=error))
        elif kind == "item.completed":
            self._add_thread_item(line, as_object(value.get("item")))

    def _add_thread_item(self, line: int, item: dict[str, Any]) -> None:
        kind, call_id = as_text(item.get("type")), as_text(item.get("id"))
        if kind == "agent_message":
            response = self._begin(None)
            response.text = "\n".join(each for each in (response.text, as_text(item.get("text"))) if each)
        elif kind in _THREAD_TOOLS:
            skipped = {"id", "type", "aggregated_output", "exit_code", "status", "result", "error"}
            arguments = {name: part for name, part in item.items() if name not in skipped}
            if isinstance(item.get("command"), list):
                arguments["command"] = _command(item["command"])
            self._call(None, Call(call_id, as_text(item.get("tool")) or _THREAD_TOOLS[kind], arguments))
            text = as_text(item.get("aggregated_output")) or ""
            if as_count(item.get("exit_code")):
                text += f"\nProcess exited with code {item['exit_code']}"
            failed = item.get("status") == "failed"
            self._close(Answer(at=None, result=Result(call_id=call_id, text=text, is_error=failed, subagents=[])))
        elif kind == "error":
            self._close(Failure(at=None, error=as_text(item.get("message")) or "error"))
        elif kind not in ("reasoning", "todo_list"):
            self._note("items of an unknown type", line, kind)

    def _begin(self, at: int | None) -> Response:
        """Return the response that is being read."""
        if self._response is None:
            self._response = self._latest = Response(at=at, model=self._model)
            self.transcript.entries.append(self._response)
        return self._response

    def _call(self, at: int | None, call: Call) -> None:
        self._begin(at).calls.append(call)
        self.transcript.entries.append(Calling(at=at, call=call))

    def _close(self, entry: Request | Answer | Compaction | Failure | Interruption) -> None:
        """Add an entry after which another response begins."""
        self._response = None
        self.transcript.entries.append(entry)

    def _note(self, problem: str, line: int, kind: str | None) -> None:
        self.transcript.notes.add(problem, f"{line}: {(kind or 'none')[:40]}", not_understood=True)


class _SavedRequest(Request, kw_only=True):
    """A message in the place of the user's, which may be one of Codex itself."""


def _command(value: Any) -> str:
    """Return a command line; of a shell that is started with a script, the script."""
    words = [str(part) for part in as_list(value)]
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1].startswith("-"):
        return words[2]
    return shlex.join(words) if words else as_text(value) or ""


def _result(call_id: str | None, output: Any) -> Result:
    """Return the result of a tool call: a text, a text with metadata in JSON, or an object with `content`."""
    failed, code = False, None
    value = parse_json(output)
    if isinstance(value, dict) and ("output" in value or "content" in value):
        metadata = as_object(value.get("metadata"))
        code, failed = as_count(metadata.get("exit_code")), value.get("success") is False
        output = value["output"] if "output" in value else value["content"]
    if isinstance(output, list):
        output = "\n".join(as_text(as_object(part).get("text")) or "[part]" for part in output)
    text = output if isinstance(output, str) else ""
    if code:
        text = f"Exit code: {code}\n{text}"
    return Result(call_id=call_id, text=text, is_error=failed, subagents=[])


def _usage(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    total, cached = (as_count(value.get(name)) or 0 for name in ("input_tokens", "cached_input_tokens"))
    output = as_count(value.get("output_tokens")) or 0
    return {"input": max(total - cached, 0), "output": output, "cacheRead": min(cached, total)}
