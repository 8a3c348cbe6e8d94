"""Records of one agent run: its attempts, turns, model calls, tool calls, messages and compactions.

The loop calls a `RunRecording` where something happens. Every record is written at once, under the event names and with
the fields that the recorder plugin uses in OpenClaw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.model import SourceLayer
from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.spans.memory_lookups import is_memory_tool, memory_lookup
from critiqor.spans.tool_results import error_text, tool_outcome
from critiqor.storage.bounds import text_digest

Facts = dict[str, Any]
"""Payload fields of a record."""
MAX_TOOL_NAMES = 150
"""Maximum number of tools whose names are recorded with a request."""
_FAILED_OUTCOMES = frozenset(("error", "timeout", "killed"))
_Parameters = ParamSpec("_Parameters")
_Method = Callable[Concatenate["RunRecording", _Parameters], None]


class ModelCallEnd(NamedTuple):
    """How a model call ended."""

    facts: Facts
    """Payload fields of the record."""
    usage: Facts | None
    """Tokens and cost; None if the call reported none."""
    error: str | None
    """Why it failed; None if it did not."""


class ToolCallEnd(NamedTuple):
    """How a tool call ended."""

    result: Facts
    """Content and details."""
    error: str | None
    is_error: bool
    duration_ms: int


class AttemptTotals(NamedTuple):
    """Figures of an attempt."""

    duration_ms: int
    messages: int
    """Messages in the conversation at the end."""
    usage: Facts | None
    """Tokens and cost of all its model calls; None if none were reported."""
    provider: str
    model: str


class AttemptEnd(NamedTuple):
    """How an attempt ended."""

    error: str | None
    stop_reason: str | None
    is_aborted: bool
    totals: AttemptTotals | None = None
    """None if the run ended outside the attempt, for example because the transcript could not be written."""


class _Turn:
    """From a request to the end of the tools that the answer called."""

    __slots__ = ("failed", "last_at", "number", "started_at")

    def __init__(self, number: int, started_at: int) -> None:
        self.number = number
        self.started_at = started_at
        self.last_at = started_at
        """Time of the latest record of the turn, in milliseconds since 1970."""
        self.failed = False


class _OpenModelCall(NamedTuple):
    started_at: int
    provider: Any
    model: Any


class _OpenAttempt(NamedTuple):
    number: int
    started_at: int


class _OpenToolCall:
    """A tool call that has started and not ended."""

    __slots__ = ("arguments", "id", "name", "updates")

    def __init__(self, call_id: str, name: str, arguments: Any) -> None:
        self.id = call_id
        self.name = name
        self.arguments = arguments
        self.updates = 0
        """Progress reports so far."""


def _guarded(method: _Method[_Parameters]) -> _Method[_Parameters]:
    """Catch every exception of a recording method, so that it cannot affect the agent.

    A lost record only leaves a gap in the numbering of records.
    """

    @functools.wraps(method)
    def guarded(self: RunRecording, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        journal = self._journal
        if journal is None or journal.is_closed:
            return
        try:
            method(self, *args, **kwargs)
        except Exception:
            journal.lose()

    return guarded


class RunRecording:
    """Writes the records of one agent run. Without a journal it does nothing."""

    def __init__(
        self, journal: JournalWriter | None, run_id: str | None = None, session_key: str | None = None
    ) -> None:
        self._journal = journal
        self.run_id = run_id
        self.session_key = session_key
        self._attempts = 0
        self._attempt: _OpenAttempt | None = None
        self._turns = 0
        self._turn: _Turn | None = None
        self._model_call: _OpenModelCall | None = None
        self._model_error: str | None = None
        """Why the latest model call failed."""
        self._prompt: Facts = {}
        """Facts about the prompt of this attempt, for its first request."""
        self._tool_calls: dict[str, _OpenToolCall] = {}
        self._unsaved_text = ""
        """Streamed text of the current answer, until that answer is saved."""

    @property
    def is_open(self) -> bool:
        """Whether an attempt is under way."""
        return self._attempt is not None

    def is_in(self, journal: JournalWriter) -> bool:
        """Return whether its records go into a journal."""
        return self._journal is journal

    def move(self, journal: JournalWriter) -> None:
        """Write all further records to another journal."""
        self._journal = journal

    @_guarded
    def attempt_started(self, agent_id: str, trigger: str | None = None) -> None:
        """Record that an attempt starts."""
        self._attempts += 1
        self._attempt = _OpenAttempt(self._attempts, self._now())
        self._write("agent_start", {"attempt": self._attempts, **_present(agent_id=agent_id, trigger=trigger)})

    @_guarded
    def prompt_built(self, system_prompt: str, tool_names: Sequence[str], history_messages: int) -> None:
        """Keep facts about the prompt for the record of the next request."""
        self._prompt = _prompt_facts(system_prompt, tool_names, history_messages)

    @_guarded
    def model_call_started(self, facts: Facts) -> None:
        """Record a request, which starts a turn."""
        self._end_turn()
        now = self._now()
        self._turns += 1
        self._turn = _Turn(self._turns, now)
        self._write("turn_start", {"turn": self._turns}, at=now)
        self._model_call = _OpenModelCall(now, facts.get("provider"), facts.get("model"))
        self._unsaved_text = ""
        payload = {**_present(**facts), **self._prompt, "turn": self._turns}
        self._prompt = {}
        self._write("before_provider_request", payload, at=now)

    @_guarded
    def model_call_ended(self, end: ModelCallEnd) -> None:
        """Record the response to the request, or its failure."""
        call, self._model_call = self._model_call, None
        if call is None:
            return
        failed = end.facts.get("outcome") == "error"
        self._model_error = (end.error or end.facts.get("errorCategory") or "model call failed") if failed else None
        turn = self._turn
        if turn is not None:
            turn.failed = turn.failed or failed
        now = self._now()
        known = {"provider": call.provider, "model": call.model, **_present(**end.facts)}
        payload = {**known, **({"turn": turn.number} if turn is not None else {}), "usage": end.usage}
        duration = end.facts.get("durationMs", now - call.started_at)
        self._write("after_provider_response", payload, at=now, error=self._model_error, duration_ms=duration)

    @_guarded
    def text_streamed(self, text: str) -> None:
        """Keep the text of the current answer so far: it is recorded if the answer is never saved."""
        self._unsaved_text = text

    @_guarded
    def message_saved(self, message: Mapping[str, Any], message_id: str | None) -> None:
        """Record a message of the user or of the agent that was added to the transcript."""
        role, stop_reason = message.get("role"), message.get("stopReason")
        if role == "assistant":
            self._unsaved_text = ""
        error = (message.get("errorMessage") or stop_reason) if stop_reason in ("error", "aborted") else None
        payload = {"role": role, **_message_facts(message), **_present(message_id=message_id)}
        self._write("input" if role == "user" else "message_end", payload, error=error)

    @_guarded
    def tool_call_started(self, call_id: str, name: str, arguments: Any) -> None:
        """Record that a tool is called."""
        call = self._tool_calls[call_id] = _OpenToolCall(call_id, name, arguments)
        self._write_tool("tool_call", call, {"arguments": arguments, "source": "tool:start"})

    @_guarded
    def tool_call_updated(self, call_id: str) -> None:
        """Count a progress report of a tool."""
        call = self._tool_calls.get(call_id)
        if call is not None:
            call.updates += 1

    @_guarded
    def tool_call_ended(self, call_id: str, end: ToolCallEnd) -> None:
        """Record the result of a tool call."""
        call = self._tool_calls.pop(call_id)
        failure, exit_code = tool_outcome(end.result, error=end.error, is_error=end.is_error)
        extra = _present(exit_code=exit_code, updates=call.updates or None)
        payload = {"result": end.result, "source": "after_tool_call", **extra}
        self._write_tool("tool_result", call, payload, failure, end.duration_ms)

    @_guarded
    def compaction(self, phase: str, facts: Facts) -> None:
        """Record that a compaction starts or ends."""
        self._write(f"compaction_{phase}", {"phase": phase, **facts})

    @_guarded
    def provider_retry(self, facts: Facts) -> None:
        """Record that a failed model call will be repeated."""
        self._write("provider_retry", facts)

    @_guarded
    def notice(self, name: str, event: Facts) -> None:
        """Record the event of a hook under the name of the hook."""
        self._write(name, event, error=_error_of(event))

    @_guarded
    def attempt_ended(self, end: AttemptEnd) -> None:
        """Record the end of the attempt, and of whatever is still open in it."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        self._close_model_call()
        if self._unsaved_text:
            payload = {"role": "assistant", "text": self._unsaved_text, "partial": True}
            self._write("message_end", payload)
        self._unsaved_text = ""
        self._end_turn()
        now = self._now()  # not earlier, because records are ordered by their times
        payload = {"attempt": attempt.number}
        payload |= _present(error=end.error, stopReason=end.stop_reason, aborted=end.is_aborted)
        duration_ms = now - attempt.started_at
        if end.totals is not None:
            duration_ms, messages, usage, provider, model = end.totals
            payload |= {"success": end.error is None, "durationMs": duration_ms, "messages": messages}
            payload |= {"usage_total": usage, "provider": provider, "model": model}
        failure = end.error or self._model_error or ("aborted" if end.is_aborted else None)
        self._write("agent_end", payload, at=now, error=failure, duration_ms=duration_ms)

    @_guarded
    def run_ended(self, agent_id: str, end: AttemptEnd) -> None:
        """Record the end of the run.

        A run that ends outside an attempt, such as one that failed while it was prepared, counts as one attempt.
        """
        if self._attempts == 0:
            self.attempt_started(agent_id)
        self.attempt_ended(end)
        self._end_turn()

    def _end_turn(self) -> None:
        self._close_model_call()
        turn, self._turn = self._turn, None
        if turn is not None:
            duration = turn.last_at - turn.started_at
            payload = {"turn": turn.number}
            self._write("turn_end", payload, at=turn.last_at, failed=turn.failed, duration_ms=duration)

    def _close_model_call(self) -> None:
        # Only a client with a programming error leaves a call without an end.
        if self._model_call is not None:
            self.model_call_ended(ModelCallEnd({"outcome": "unobserved"}, None, None))

    def _write_tool(
        self,
        event_type: str,
        call: _OpenToolCall,
        payload: Facts,
        error: str | None = None,
        duration_ms: float | None = None,
    ) -> None:
        names = [(event_type, payload)]
        if is_memory_tool(call.name):
            ended = event_type == "tool_result"
            lookup = memory_lookup(call.arguments, payload.get("result"), has_ended=ended, failed=error is not None)
            names.append((call.name, {**payload, "observed_as": event_type, **lookup}))
        now = self._now()
        for name, facts in names:
            self._write(name, facts, layer="tool_hooks", at=now, error=error, duration_ms=duration_ms, tool=call)

    def _now(self) -> int:
        assert self._journal is not None
        return self._journal.now()

    def _write(
        self,
        event_type: str,
        payload: Facts,
        *,
        layer: SourceLayer = "extension_api",
        at: int | None = None,
        error: str | None = None,
        failed: bool | None = None,
        duration_ms: float | None = None,
        tool: _OpenToolCall | None = None,
    ) -> None:
        """Write one record. Its status is `error` if it has an error, unless `failed` is given."""
        assert self._journal is not None
        moment = self._journal.now() if at is None else at
        if self._turn is not None and moment > self._turn.last_at:
            self._turn.last_at = moment
        record = {
            "event_id": None,
            "event_type": event_type,
            "raw_event_type": event_type,
            "timestamp": None,
            "source_layer": layer,
            "session_key": self.session_key,
            "agent_run_id": self.run_id,
            "tool_name": tool.name if tool else None,
            "tool_call_id": tool.id if tool else None,
            "status": "error" if (error is not None if failed is None else failed) else "ok",
            "error": error,
            "duration_ms": duration_ms,
            "payload": payload,
        }
        self._journal.append(record, moment)


NOT_RECORDED = RunRecording(None)
"""The recording of every run of a process that is not recorded."""


def _present(**facts: Any) -> Facts:
    """Return the facts that are known, that is, not None."""
    return {name: value for name, value in facts.items() if value is not None}


def _error_of(event: Mapping[str, Any]) -> str | None:
    """Return the error of an event that reports its own success or outcome; None if it did not fail."""
    error, outcome = event.get("error"), event.get("outcome")
    if outcome in _FAILED_OUTCOMES and not error:
        return f"ended with {outcome}"
    failed = event.get("isError") is True or event.get("success") is False or bool(error)
    return error_text(event) if failed else None


def _prompt_facts(system_prompt: str, tool_names: Sequence[str], history_messages: int) -> Facts:
    """Return sizes and digests of a prompt, which is too large to record and the same in every turn."""
    system = replace_lone_surrogates(system_prompt)
    names = [replace_lone_surrogates(name) for name in tool_names]
    return {
        "system_prompt": {"size": len(system.encode()), "digest": text_digest(system)},
        "tools": {"count": len(names), "digest": text_digest("\n".join(names)), "names": names[:MAX_TOOL_NAMES]},
        "history_messages": history_messages,
    }


def _message_facts(message: Mapping[str, Any]) -> Facts:
    """Return the payload fields of a saved message."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    parts = [part for part in parts if isinstance(part, Mapping)]
    texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    calls = [_present(id=part.get("id"), name=part.get("name")) for part in parts if part.get("type") == "toolCall"]
    return _present(
        text="\n".join(texts),
        tool_calls=calls or None,
        stop_reason=message.get("stopReason"),
        provider=message.get("provider"),
        model=message.get("model"),
    )
