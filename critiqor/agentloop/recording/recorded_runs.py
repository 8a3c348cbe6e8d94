"""What the recorder remembers of agent runs, so that a fact that two sources tell is written once. Bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from critiqor.agentloop.recording.recorded_facts import Facts

MOST_RESTING = 256
"""Runs remembered beside those that are under way."""
MOST_CALLS = 2000
"""Tool call ids remembered of one run."""
MOST_CALLS_OF_ONE_ID = 64
MOST_MESSAGES = 500


class RecordedTool:
    """One tool call."""

    __slots__ = ("arguments", "at", "end", "ended_at", "id", "name", "updates", "written")

    def __init__(self, call_id: str, name: str | None, arguments: Any, at: int) -> None:
        self.id = call_id
        self.name = name
        self.arguments = arguments
        self.at = at
        self.ended_at: int | None = None
        self.end: Facts = {}
        """All that was told of its end."""
        self.updates = 0
        self.written = False
        """Whether its result is in the journal."""


class RecordedCall:
    """One model call."""

    __slots__ = ("asked", "at", "error", "facts", "response_at", "usage")

    def __init__(self, at: int, facts: Facts) -> None:
        self.at = at
        self.asked: Facts = {name: facts.get(name) for name in ("provider", "model")}
        """Whom."""
        self.facts: Facts = {}
        """What was told of its end."""
        self.response_at: int | None = None
        self.usage: Any = None
        self.error: str | None = None

    @property
    def failed(self) -> bool:
        return self.facts.get("outcome") == "error"


class RecordedTurn:
    """From a request to the end of the tools that the answer asked for."""

    __slots__ = ("at", "failed", "last_at", "number")

    def __init__(self, number: int, at: int) -> None:
        self.number = number
        self.at = at
        self.last_at = at
        """When the last that is known of it happened."""
        self.failed = False


class RecordedAttempt:
    """One attempt of an agent run."""

    __slots__ = ("at", "ended_at", "facts", "number")

    def __init__(self, number: int, at: int) -> None:
        self.number = number
        self.at = at
        self.ended_at: int | None = None
        self.facts: Facts = {}


class _CallsOfId:
    """The calls that share an id: a model server may reuse `call_0`, and retries do."""

    __slots__ = ("ends", "forgotten", "known", "starts")

    def __init__(self) -> None:
        self.known: list[RecordedTool] = []
        self.forgotten = 0
        self.starts: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def nth(self, number: int) -> RecordedTool | None:
        # Counted from the first that is still known: a source that has fallen behind tells of calls that are over.
        place = max(0, number - 1 - self.forgotten)
        return self.known[place] if place < len(self.known) else None


class RecordedRun:
    """One run of an agent: what is under way in it, and how often each source has told of each fact."""

    def __init__(self, key: str, run_id: str | None) -> None:
        self.key = key
        self.id = run_id
        self.session_key: str | None = None
        self.attempts = 0
        self.attempt: RecordedAttempt | None = None
        self.turns = 0
        self.turn: RecordedTurn | None = None
        self.model: RecordedCall | None = None
        """The model call that is under way."""
        self.response: RecordedCall | None = None
        """The model call that has ended and waits for its usage or its error to be told."""
        self.prompt: Facts = {}
        """What is known of the prompt of this attempt; it belongs to its first request."""
        self.model_error: str | None = None
        """Why the last model call failed."""
        self.partial: str | None = None
        """What the model has said so far in its last answer."""
        self.said = False
        """Whether that answer was saved."""
        self.output_tokens = 0
        self.ending: dict[RecordedTool, None] = {}
        """Calls that have ended and wait for the hook that says more."""
        self._tools: dict[str, _CallsOfId] = {}
        self._told: dict[str, Counter[str]] = {}
        self._messages: dict[str, None] = {}

    @property
    def resting(self) -> bool:
        """Whether nothing is known to be under way."""
        return self.attempt is None and self.turn is None

    def is_news(self, fact: str, source: str) -> bool:
        """Whether this source is the first to tell of its nth occurrence of a fact."""
        told = self._told.setdefault(fact, Counter())
        recorded = max(told.values(), default=0)
        told[source] += 1
        return told[source] > recorded

    def is_new_message(self, message_id: Any) -> bool:
        if not isinstance(message_id, str):
            return True
        if message_id in self._messages:
            return False
        self._messages[message_id] = None
        if len(self._messages) > MOST_MESSAGES:
            del self._messages[next(iter(self._messages))]
        return True

    def output_since(self, total: int) -> int:
        """Output tokens of one call, from the count over the whole run."""
        since = max(0, total - self.output_tokens)
        self.output_tokens = total
        return since

    def tool_started(self, source: str, call_id: str) -> RecordedTool | None:
        """The call that another source has already told of; None when this start is news."""
        calls = self._calls(call_id)
        calls.starts[source] += 1
        return calls.nth(calls.starts[source])

    def tool_ended(self, source: str, call_id: str) -> RecordedTool | None:
        """The call that this end belongs to; None when nothing has told of its start."""
        calls = self._calls(call_id)
        calls.ends[source] += 1
        return calls.nth(calls.ends[source])

    def add_tool(self, call: RecordedTool) -> None:
        calls = self._calls(call.id)
        calls.known.append(call)
        if len(calls.known) > MOST_CALLS_OF_ONE_ID:
            del calls.known[0]
            calls.forgotten += 1

    def latest_tool(self, call_id: Any) -> RecordedTool | None:
        calls = self._tools.get(call_id)
        return calls.known[-1] if calls and calls.known else None

    def _calls(self, call_id: str) -> _CallsOfId:
        calls = self._tools.get(call_id)
        if calls is None:
            if len(self._tools) >= MOST_CALLS:
                del self._tools[self._oldest_finished()]
            calls = self._tools[call_id] = _CallsOfId()
        return calls

    def _oldest_finished(self) -> str:
        for call_id, calls in self._tools.items():
            if all(call.written for call in calls.known):
                return call_id
        return next(iter(self._tools))


class RecordedRuns:
    """The runs that are remembered: those under way, and some of the others."""

    def __init__(self) -> None:
        self._runs: dict[str, RecordedRun] = {}
        self._resting: dict[str, None] = {}
        """Keys of runs that may be forgotten, the one that rests longest first."""
        self._id_by_session: dict[str, str] = {}

    def of(self, event: Mapping[str, Any], context: Mapping[str, Any]) -> RecordedRun:
        """The run that an event belongs to."""
        # A hook about a subagent names its run and its session beside those that asked for it.
        session_key = _first(event, "childSessionKey", "targetSessionKey", "sessionKey")
        session_key = session_key or _first(context, "sessionKey")
        run_id = _first(event, "runId") or _first(context, "runId") or self._id_by_session.get(session_key or "")
        key = run_id or f"session {session_key}"  # what belongs to no run must not be mixed between sessions
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = RecordedRun(key, run_id)
            self.settle(run)
        # Only the first time: a late word of an earlier run must not make it the session's current one again.
        if run.session_key is None and session_key is not None:
            run.session_key = session_key
            if run_id is not None:
                self._id_by_session[session_key] = run_id
        return run

    def settle(self, run: RecordedRun) -> None:
        """Note whether a run is under way; of those that are not, the oldest is forgotten when there are many."""
        if not run.resting:
            self._resting.pop(run.key, None)
            return
        if run.key in self._resting:
            return
        self._resting[run.key] = None
        if len(self._resting) > MOST_RESTING:
            oldest = next(iter(self._resting))
            del self._resting[oldest]
            forgotten = self._runs.pop(oldest)
            session_key = forgotten.session_key or ""
            if self._id_by_session.get(session_key) == forgotten.id:
                self._id_by_session.pop(session_key, None)

    def __iter__(self) -> Iterator[RecordedRun]:
        return iter(list(self._runs.values()))


def _first(source: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, str) and value:
            return value
    return None
