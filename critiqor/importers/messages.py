"""From the saved messages of an OpenClaw session to events.

A session does not say when an agent run began and ended, so that is derived: a run begins with what the user says, and
has ended when its last message asks for no tool.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from critiqor.importers.ledger import Known, Ledger
from critiqor.importers.values import as_duration, as_list, as_ms, as_object, as_text
from critiqor.model import EventType
from critiqor.spans.tool_results import tool_outcome

_NESTED_TOOL = "openclaw.nested-tool.v1"
_OWN_WORDS = frozenset(("delivery-mirror", "gateway-injected"))
"""Models of messages that OpenClaw wrote itself."""
_FAILED = frozenset(("error", "aborted"))
_ROLES = frozenset(("user", "assistant", "toolResult"))


class SavedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session, whichever file it stood in."""

    line: int
    kind: str
    id: str | None
    parent: str | None
    saved_at: int | None
    """Milliseconds since 1970."""
    content: dict[str, Any]
    """The message itself, or what another kind of entry says."""

    @property
    def said_at(self) -> int | None:
        """When a message began; it can have been saved much later."""
        return as_ms(self.content.get("timestamp")) if self.kind == "message" else None

    @property
    def role(self) -> str:
        """Whose message it is; empty for what is no message."""
        return as_text(self.content.get("role")) or "none" if self.kind == "message" else ""

    @property
    def run_id(self) -> str | None:
        """Which agent run it belongs to; only newer OpenClaws tell."""
        told = as_object(self.content.get("__openclaw")).get("runId")
        return as_text(told) or as_text(as_object(self.content.get("details")).get("runId"))


class _Call(NamedTuple):
    """A tool call that waits for its result."""

    run_id: str
    name: str | None
    arguments: Any
    at: int | None
    is_alone: bool


class _Run(msgspec.Struct):
    """The agent run that is being told of."""

    id: str
    last: dict[str, Any] | None = None
    """The last message of its model, where nothing came after it."""
    last_at: int | None = None
    model_calls: int = 0


def write_messages(entries: Iterable[SavedEntry], ledger: Ledger) -> None:
    """Write the events of a session, of which `entries` holds messages and compactions in order."""
    _Session(ledger).write(entries)


class _Session:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._run = _Run("")
        self._runs = 0
        self._waiting: dict[str | None, deque[_Call]] = defaultdict(deque)

    def write(self, entries: Iterable[SavedEntry]) -> None:
        asked: list[SavedEntry] = []
        for entry in entries:
            if entry.kind == "message" and not self._is_telling(entry):
                continue
            # What the user said belongs to the run that answers it, and only the answer tells which that is.
            if entry.role == "user" or (asked and entry.kind == "compaction"):
                asked.append(entry)
                continue
            self._go_on(entry.run_id, [*asked, entry])
            asked = []
        if asked:
            self._go_on(None, asked)
        self._end()

    def _is_telling(self, entry: SavedEntry) -> bool:
        if entry.role in _ROLES:
            return True
        if entry.role != "custom":
            self._ledger.notes.add("messages of an unknown role", f"line {entry.line}: {entry.role[:40]}")
        return entry.role == "custom" and entry.content.get("customType") == _NESTED_TOOL

    def _go_on(self, run_id: str | None, entries: list[SavedEntry]) -> None:
        first = entries[0]
        begins = first.role == "user" if run_id is None else run_id != self._run.id
        if begins or self._runs == 0:
            self._end()
            self._runs += 1
            self._run = _Run(run_id or f"turn-{self._runs}")
            self._write("agent_start", first, first.said_at or first.saved_at, {"source": "derived"})
        for entry in entries:
            self._entry(entry)

    def _end(self) -> None:
        """The end of a run, unless the last that is known of it asks for a tool or for the agent."""
        last = self._run.last
        if last is None or _calls_of(last):
            return
        failure = _failure_of(last)
        payload = {"success": failure is None, "stop_reason": last.get("stopReason"), "source": "derived"}
        known = Known(at=self._run.last_at, agent_run_id=self._run.id, error=failure, raw="message")
        self._ledger.write("agent_end", known, payload)

    def _entry(self, entry: SavedEntry) -> None:
        if entry.role == "user":
            facts = {"role": "user", "text": _text_of(entry.content), "message_id": entry.id}
            self._write("input", entry, entry.said_at or entry.saved_at, facts)
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

    def _assistant(self, entry: SavedEntry) -> None:
        message, run = entry.content, self._run
        facts = {name: message.get(name) for name in ("provider", "model", "api")}
        failure = _failure_of(message)
        if self._is_model_call(message):
            run.last, run.last_at = message, entry.saved_at
            run.model_calls += 1
            self._write("before_provider_request", entry, entry.said_at, facts)
            known = self._known(entry, entry.saved_at or entry.said_at, failure)
            known.duration_ms = _between(entry.said_at, entry.saved_at)
            usage = as_object(message.get("usage")) or None
            outcome = {"outcome": "completed" if failure is None else "error", "usage": usage}
            self._ledger.write(EventType.TOKEN_USAGE, known, facts | outcome)
        calls = _calls_of(message)
        named = [{"id": call.get("id"), "name": call.get("name")} for call in calls]
        said = {"role": "assistant", "text": _text_of(message), "tool_calls": named or None}
        told = {"stop_reason": message.get("stopReason"), "message_id": entry.id}
        self._write("message_end", entry, entry.saved_at, said | facts | told, failure)
        for call in calls:
            self._call(entry, call, is_alone=len(calls) == 1)

    def _is_model_call(self, message: dict[str, Any]) -> bool:
        if message.get("provider") == "openclaw" and as_text(message.get("model")) in _OWN_WORDS:
            return False
        # What a whole turn came to, saved as one message: a model call only where nothing else tells of one.
        return message.get("api") != "cli" or self._run.model_calls == 0

    def _call(self, entry: SavedEntry, call: dict[str, Any], *, is_alone: bool) -> None:
        call_id, name = as_text(call.get("id")), as_text(call.get("name"))
        arguments = call.get("arguments")
        self._waiting[call_id].append(_Call(self._run.id, name, arguments, entry.saved_at, is_alone))
        known = self._known(entry, entry.saved_at, None, (call_id, name))
        self._ledger.write_call(known, arguments, source="transcript")

    def _result(self, entry: SavedEntry) -> None:
        message = entry.content
        call_id, name = as_text(message.get("toolCallId")), as_text(message.get("toolName"))
        at = entry.said_at or entry.saved_at
        if not self._waiting[call_id]:
            # OpenClaw does not save a message that asks for a tool which does not exist, only what came of it.
            self._ledger.notes.add("tool calls that no message tells of, only their results", name or "")
            self._call(entry, {"id": call_id, "name": name}, is_alone=False)
        call = self._waiting[call_id].popleft()
        result = {part: message[part] for part in ("content", "details") if message.get(part) is not None}
        outcome = tool_outcome(result, is_error=message.get("isError") is True)
        known = self._known(entry, at, outcome.failure, (call_id, name or call.name))
        known.agent_run_id = call.run_id
        known.duration_ms = as_duration(as_object(message.get("details")).get("durationMs"))
        if known.duration_ms is None and call.is_alone:
            # Several results are saved together when the last of them is there: only a single one tells its time.
            known.duration_ms = _between(call.at, at)
        self._ledger.write_result(known, call.arguments, result, exit_code=outcome.exit_code, source="transcript")
        self._run.last = None

    def _nested(self, entry: SavedEntry) -> None:
        """A tool that another tool called; saved once, when it had ended."""
        told = as_object(entry.content.get("details"))
        began, ended = as_ms(told.get("startedAt")), as_ms(told.get("timestamp"))
        call_id, name = as_text(told.get("toolCallId")), as_text(told.get("toolName"))
        payload: dict[str, Any] = {"source": "transcript", "parent_tool_call_id": as_text(told.get("parentToolCallId"))}
        arguments, result = told.get("input"), told.get("result")
        self._ledger.write_call(self._known(entry, began, None, (call_id, name)), arguments, **payload)
        outcome = tool_outcome(result, is_error=told.get("isError") is True)
        known = self._known(entry, ended or entry.saved_at, outcome.failure, (call_id, name))
        known.duration_ms = _between(began, ended)
        self._ledger.write_result(known, arguments, result, exit_code=outcome.exit_code, **payload)

    def _write(
        self, event_type: str, entry: SavedEntry, at: int | None, payload: dict[str, Any], failure: str | None = None
    ) -> None:
        self._ledger.write(event_type, self._known(entry, at, failure), payload)

    def _known(
        self, entry: SavedEntry, at: int | None, failure: str | None, tool: tuple[str | None, str | None] = (None, None)
    ) -> Known:
        """`tool` is the id of a call and the name of its tool."""
        known = Known(at=at, agent_run_id=self._run.id, error=failure, raw=entry.kind)
        known.tool_call_id, known.tool_name = tool
        return known


def _between(began: int | None, ended: int | None) -> int | None:
    return ended - began if began is not None and ended is not None and ended >= began else None


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in as_list(content) if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = (part for part in as_list(message.get("content")) if isinstance(part, dict))
    return [part for part in parts if part.get("type") == "toolCall"]


def _failure_of(message: dict[str, Any]) -> str | None:
    reason = as_text(message.get("stopReason"))
    return as_text(message.get("errorMessage")) or reason if reason in _FAILED else None
