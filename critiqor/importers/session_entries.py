"""Convert the entries of an OpenClaw session, its messages and compactions, to events.

A session does not store when an agent run began and ended, so this is derived: an agent run begins with a message of
the user, and has ended when its last message requests no tool.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from critiqor.importers.event_writer import EventFields, EventWriter
from critiqor.importers.values import as_duration, as_list, as_ms, as_object, as_text
from critiqor.model import EventType
from critiqor.spans.tool_results import tool_outcome

_NESTED_TOOL = "openclaw.nested-tool.v1"
_SYSTEM_MODELS = frozenset(("delivery-mirror", "gateway-injected"))
"""Model names of messages that OpenClaw wrote itself."""
_FAILED = frozenset(("error", "aborted"))
_ROLES = frozenset(("user", "assistant", "toolResult"))


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session, from a transcript or a trajectory."""

    line: int
    kind: str
    id: str | None
    parent: str | None
    saved_at: int | None
    """Milliseconds since 1970."""
    content: dict[str, Any]
    """The message, or the fields of another kind of entry."""

    @property
    def sent_at(self) -> int | None:
        """When a message began, in milliseconds since 1970; it can have been saved much later."""
        return as_ms(self.content.get("timestamp")) if self.kind == "message" else None

    @property
    def role(self) -> str:
        """The role of a message of the session; empty for other entries."""
        return as_text(self.content.get("role")) or "none" if self.kind == "message" else ""

    @property
    def run_id(self) -> str | None:
        """The agent run that the entry belongs to; only newer versions of OpenClaw store it."""
        run_id = as_object(self.content.get("__openclaw")).get("runId")
        return as_text(run_id) or as_text(as_object(self.content.get("details")).get("runId"))


class _Call(NamedTuple):
    """A tool call without its result."""

    run_id: str
    name: str | None
    arguments: Any
    at: int | None
    is_alone: bool


class _Run(msgspec.Struct):
    """The current agent run."""

    id: str
    last: dict[str, Any] | None = None
    """The last message of its model, if nothing followed it."""
    last_at: int | None = None
    model_calls: int = 0


def write_session(entries: Iterable[SessionEntry], writer: EventWriter) -> None:
    """Write the events of a session, from its messages and compactions in order."""
    _Session(writer).write(entries)


class _Session:
    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._run = _Run("")
        self._runs = 0
        self._waiting: dict[str | None, deque[_Call]] = defaultdict(deque)
        self._not_made: dict[str | None, dict[str, Any]] = {}

    def write(self, entries: Iterable[SessionEntry]) -> None:
        pending: list[SessionEntry] = []
        for entry in entries:
            if entry.kind == "message" and not self._is_relevant(entry):
                continue
            # A user's message belongs to the agent run that answers it, and only the answer names that run.
            if entry.role == "user" or (pending and entry.kind == "compaction"):
                pending.append(entry)
                continue
            self._continue_run(entry.run_id, [*pending, entry])
            pending = []
        if pending:
            self._continue_run(None, pending)
        self._end()

    def _is_relevant(self, entry: SessionEntry) -> bool:
        if entry.role in _ROLES:
            return True
        if entry.role != "custom":
            place = f"line {entry.line}: {entry.role[:40]}"
            self._writer.notes.add("messages of an unknown role", place, not_understood=True)
        return entry.role == "custom" and entry.content.get("customType") == _NESTED_TOOL

    def _continue_run(self, run_id: str | None, entries: list[SessionEntry]) -> None:
        first = entries[0]
        begins = first.role == "user" if run_id is None else run_id != self._run.id
        if begins or self._runs == 0:
            self._end()
            self._runs += 1
            self._run = _Run(run_id or f"turn-{self._runs}")
            self._write("agent_start", first, first.sent_at or first.saved_at, {"source": "derived"})
        for entry in entries:
            self._entry(entry)

    def _end(self) -> None:
        """Write the end of an agent run, unless its last message requests a tool or is not the model's."""
        last = self._run.last
        failure = _failure(last) if last is not None else None
        if last is None or (_tool_calls(last) and failure is None):
            return
        payload = {"success": failure is None, "stop_reason": last.get("stopReason"), "source": "derived"}
        fields = EventFields(at=self._run.last_at, agent_run_id=self._run.id, error=failure, raw="message")
        self._writer.write("agent_end", fields, payload)

    def _entry(self, entry: SessionEntry) -> None:
        if entry.role == "user":
            facts = {"role": "user", "text": _text(entry.content), "message_id": entry.id}
            self._write("input", entry, entry.sent_at or entry.saved_at, facts)
            self._run.last = None
        elif entry.role == "assistant":
            self._assistant(entry)
        elif entry.role == "toolResult":
            self._result(entry)
        elif entry.kind == "compaction":
            names = ("tokensBefore", "tokensAfter", "firstKeptEntryId", "fromHook", "summary")
            self._write("compaction_end", entry, entry.saved_at, {name: entry.content.get(name) for name in names})
        else:
            self._nested(entry)

    def _assistant(self, entry: SessionEntry) -> None:
        message, run = entry.content, self._run
        facts = {name: message.get(name) for name in ("provider", "model", "api")}
        failure = _failure(message)
        if self._is_model_call(message):
            run.last, run.last_at = message, entry.saved_at
            run.model_calls += 1
            self._write("before_provider_request", entry, entry.sent_at, facts)
            fields = self._fields(entry, entry.saved_at or entry.sent_at, failure)
            fields.duration_ms = _elapsed(entry.sent_at, entry.saved_at)
            usage = as_object(message.get("usage")) or None
            outcome = {"outcome": "completed" if failure is None else "error", "usage": usage}
            self._writer.write(EventType.TOKEN_USAGE, fields, facts | outcome)
        calls = _tool_calls(message)
        named = [{"id": call.get("id"), "name": call.get("name")} for call in calls]
        content = {"role": "assistant", "text": _text(message), "tool_calls": named or None}
        ending = {"stop_reason": message.get("stopReason"), "message_id": entry.id}
        self._write("message_end", entry, entry.saved_at, content | facts | ending, failure)
        for call in calls:
            if failure is None:
                self._call(entry, call, is_alone=len(calls) == 1)
            else:
                # OpenClaw makes no call of a response that failed or was aborted, unless a result proves otherwise.
                self._not_made[as_text(call.get("id"))] = call

    def _is_model_call(self, message: dict[str, Any]) -> bool:
        if message.get("provider") == "openclaw" and as_text(message.get("model")) in _SYSTEM_MODELS:
            return False
        # The result of a whole turn, saved as one message: it is a model call only if no other message is one.
        return message.get("api") != "cli" or self._run.model_calls == 0

    def _call(self, entry: SessionEntry, call: dict[str, Any], *, is_alone: bool) -> None:
        call_id, name = as_text(call.get("id")), as_text(call.get("name"))
        arguments = call.get("arguments")
        self._waiting[call_id].append(_Call(self._run.id, name, arguments, entry.saved_at, is_alone))
        fields = self._fields(entry, entry.saved_at, None, (call_id, name))
        self._writer.write_tool_call(fields, arguments, source="transcript")

    def _result(self, entry: SessionEntry) -> None:
        message = entry.content
        call_id, name = as_text(message.get("toolCallId")), as_text(message.get("toolName"))
        at = entry.sent_at or entry.saved_at
        if not self._waiting[call_id] and call_id in self._not_made:
            self._call(entry, self._not_made.pop(call_id), is_alone=False)
        elif not self._waiting[call_id]:
            # OpenClaw does not save a message that requests a tool which does not exist, only its result.
            self._writer.notes.add("tool results without the message that requested them", name or "")
            self._call(entry, {"id": call_id, "name": name}, is_alone=False)
        call = self._waiting[call_id].popleft()
        result = {part: message[part] for part in ("content", "details") if message.get(part) is not None}
        outcome = tool_outcome(result, is_error=message.get("isError") is True)
        fields = self._fields(entry, at, outcome.failure, (call_id, name or call.name))
        fields.agent_run_id = call.run_id
        fields.duration_ms = as_duration(as_object(message.get("details")).get("durationMs"))
        if fields.duration_ms is None and call.is_alone:
            # Several results are saved together with the last of them, so only a single result has its own time.
            fields.duration_ms = _elapsed(call.at, at)
        self._writer.write_tool_result(fields, call.arguments, result, exit_code=outcome.exit_code, source="transcript")
        self._run.last = None

    def _nested(self, entry: SessionEntry) -> None:
        """Write the call of a tool by another tool; it is saved once, after its end."""
        details = as_object(entry.content.get("details"))
        began, ended = as_ms(details.get("startedAt")), as_ms(details.get("timestamp"))
        call_id, name = as_text(details.get("toolCallId")), as_text(details.get("toolName"))
        parent_id = as_text(details.get("parentToolCallId"))
        payload: dict[str, Any] = {"source": "transcript", "parent_tool_call_id": parent_id}
        arguments, result = details.get("input"), details.get("result")
        self._writer.write_tool_call(self._fields(entry, began, None, (call_id, name)), arguments, **payload)
        outcome = tool_outcome(result, is_error=details.get("isError") is True)
        fields = self._fields(entry, ended or entry.saved_at, outcome.failure, (call_id, name))
        fields.duration_ms = _elapsed(began, ended)
        self._writer.write_tool_result(fields, arguments, result, exit_code=outcome.exit_code, **payload)

    def _write(
        self, event_type: str, entry: SessionEntry, at: int | None, payload: dict[str, Any], failure: str | None = None
    ) -> None:
        self._writer.write(event_type, self._fields(entry, at, failure), payload)

    def _fields(
        self,
        entry: SessionEntry,
        at: int | None,
        failure: str | None,
        tool: tuple[str | None, str | None] = (None, None),
    ) -> EventFields:
        """Return the fields of an event; `tool` is the id of a call and the name of its tool."""
        fields = EventFields(at=at, agent_run_id=self._run.id, error=failure, raw=entry.kind)
        fields.tool_call_id, fields.tool_name = tool
        return fields


def _elapsed(began: int | None, ended: int | None) -> int | None:
    return ended - began if began is not None and ended is not None and ended >= began else None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in as_list(content) if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _tool_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = (part for part in as_list(message.get("content")) if isinstance(part, dict))
    return [part for part in parts if part.get("type") == "toolCall"]


def _failure(message: dict[str, Any]) -> str | None:
    reason = as_text(message.get("stopReason"))
    return as_text(message.get("errorMessage")) or reason if reason in _FAILED else None
