"""From events to conversations: the messages, tool calls and interruptions of each session, in order."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from critiqor.diagnosis.collections.fingerprints import canonical_json, fingerprint
from critiqor.diagnosis.signals.compactions import summarizes_history
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Event, EventType
from critiqor.spans.late_usage import has_usage
from critiqor.spans.pairing import SpanPairer
from critiqor.spans.span import Span
from critiqor.spans.tool_results import CHILD_SESSION

EntryKind = Literal["user", "agent", "note", "tool", "compaction", "retry", "error"]
MESSAGES: tuple[EntryKind, ...] = ("user", "agent")
"""The kinds that are words of the user and the agent."""
_ERRORS = frozenset((EventType.ERROR, "error"))


class Entry(msgspec.Struct, kw_only=True, gc=False):
    """One message, tool call or interruption of a session. Events are named by their numbers within the run."""

    session: int
    """Number of its session."""
    place: int
    """Position within the session, from 1."""
    kind: EntryKind
    number: int
    """The event that it begins with; the result of a call whose start was not recorded."""
    end: int | None = None
    """The event with the result of a tool call, or at the end of a compaction; None if there is none."""
    model: int | None = None
    """The event with the usage of the model call that led to it; None if none was recorded."""
    is_failed: bool = False
    is_inner: bool = False
    """Whether another tool call made this tool call."""
    child: str | None = None
    """Key of the session of the subagent that a tool call started."""
    call: str | None = None
    """Digest of tool and arguments: calls with the same one are the same call."""


class Session(msgspec.Struct, kw_only=True):
    """What is known of a session of a recording from its events."""

    number: int
    """Its place in the order in which sessions appear, from 1; 0 for events without a session."""
    key: str | None
    parent: int | None = None
    """Number of the session whose agent started this one."""
    entries: int = 0
    messages: int = 0
    tool_calls: int = 0
    failures: int = 0
    """Failed tool calls, refused requests and other errors."""
    events: int = 0
    started_at: str = ""
    ended_at: str = ""
    request: int | None = None
    """The event with the first message of the user."""
    answer: int | None = None
    """The event with the last words of the agent."""


class ConversationBuilder:
    """Builds the conversations of a recording from its events, which come in true order. Only open calls are kept."""

    def __init__(self) -> None:
        self.sessions: dict[str | None, Session] = {}
        """The sessions by their keys, in the order in which they appear."""
        self._pairer = SpanPairer[Entry](("tool", "compaction"))
        self._model_calls: dict[str | None, tuple[str | None, int]] = {}
        """By session: the agent run of the last model call, and the event with its usage."""
        self._marks: dict[str | None, tuple[EntryKind, str] | None] = {}
        """By session: kind and error or attempt of the last entry, if it is an interruption."""
        self._parents: dict[str, int] = {}
        """Numbers of the sessions that started a subagent, by the key of its session, which may begin later."""
        self._words: dict[str | None, str] = {}
        """By session: the last words of the agent."""

    def observe(self, number: int, event: Event) -> Entry | None:
        """Add one event; return the entry that it starts or changes, None if it is not part of a conversation."""
        key = event.session_key
        if event.source_layer == "supervisor" and key is None:
            return None
        session = self.sessions.get(key)
        if session is None:
            numbered = 0 if key is None else len(self.sessions) + (None not in self.sessions)
            session = self.sessions[key] = Session(number=numbered, key=key, parent=self._parents.get(key or ""))
        session.events += 1
        session.started_at = session.started_at or event.timestamp
        session.ended_at = event.timestamp
        pairing = self._pairer.observe(event)
        if pairing is not None:
            if pairing.opened is not None:
                self._marks[key] = None
                entry = pairing.opened.data = self._open(session, number, event, pairing.opened)
                return entry
            return None if pairing.closed is None else self._close(session, number, event, pairing.closed)
        if event.event_type == EventType.TOKEN_USAGE or has_usage(event):
            self._model_calls[key] = (event.agent_run_id, number)
        kind = self._kind_of(event)
        if kind is None or self._repeats_mark(kind, event):
            return None
        return self._add(session, kind, number, event, is_failed=kind == "error")

    def _open(self, session: Session, number: int, event: Event, span: Span[Entry]) -> Entry:
        kind: EntryKind = "tool" if span.kind == "tool" else "compaction"
        entry = self._add(session, kind, number, event, is_inner=span.is_inner)
        entry.call = _call_digest(event) if event.event_type == EventType.TOOL_CALL else None
        return entry

    def _close(self, session: Session, number: int, event: Event, span: Span[Entry]) -> Entry:
        entry = span.data or self._open(session, number, event, span)
        entry.end = number
        if event.status == "error" and not entry.is_failed:
            entry.is_failed = True
            session.failures += 1
        if entry.kind == "tool" and "spawn" in (event.tool_name or ""):
            self._link_child(entry, event)
        return entry

    def _link_child(self, entry: Entry, event: Event) -> None:
        found = CHILD_SESSION.search(plain_text(event.payload.get("result")))
        if found is None or found[0] == event.session_key:
            return
        entry.child = found[0]
        self._parents[found[0]] = entry.session
        if found[0] in self.sessions:
            self.sessions[found[0]].parent = entry.session

    def _add(
        self,
        session: Session,
        kind: EntryKind,
        number: int,
        event: Event,
        *,
        is_failed: bool = False,
        is_inner: bool = False,
    ) -> Entry:
        session.entries += 1
        session.messages += kind in MESSAGES
        session.tool_calls += kind == "tool"
        session.failures += is_failed
        if kind == "user" and session.request is None:
            session.request = number
        elif kind == "agent" and event.payload.get("text"):
            session.answer = number
        run, model = self._model_calls.get(session.key, (None, 0))
        return Entry(
            session=session.number,
            place=session.entries,
            kind=kind,
            number=number,
            model=model if model and kind in ("agent", "tool") and run == event.agent_run_id else None,
            is_failed=is_failed,
            is_inner=is_inner,
        )

    def _repeats_mark(self, kind: EntryKind, event: Event) -> bool:
        """Return whether an event only repeats the one before it.

        The error of a model call ends its agent run as well, and a retry starts another attempt.
        """
        fact = event.error if kind == "error" else event.payload.get("attempt") if kind == "retry" else None
        mark = None if fact is None else (kind, str(fact))
        repeats = mark is not None and self._marks.get(event.session_key) == mark
        self._marks[event.session_key] = mark
        return repeats

    def _kind_of(self, event: Event) -> EntryKind | None:
        """Return the kind of entry that an event is by itself; None if it is none."""
        kind, payload = event.event_type, event.payload
        if kind in ("input", "message_end"):
            return self._kind_of_message(event)
        if kind == "agent_start":
            attempt = payload.get("attempt")
            return "retry" if isinstance(attempt, int) and attempt > 1 else None
        if kind == "provider_retry":
            return "retry"
        if kind == "agent_end":
            words = payload.get("text")
            if isinstance(words, str) and words and words != self._words.get(event.session_key):
                self._words[event.session_key] = words
                return "agent"
            has_failed = event.status == "error" or payload.get("success") is False or payload.get("aborted") is True
            return "error" if has_failed else None
        is_error = kind in _ERRORS or (kind == EventType.TOKEN_USAGE and event.status == "error")
        return "error" if is_error else None

    def _kind_of_message(self, event: Event) -> EntryKind | None:
        payload = event.payload
        role = payload.get("role") or ("user" if event.event_type == "input" else "assistant")
        text = message_text(event)
        if role not in ("user", "assistant"):
            return "note" if text else None  # OpenClaw also saves its own notes as messages
        if summarizes_history(text, by_user=role == "user"):
            return "compaction"
        if role == "user":
            return "user" if text else None
        if text:
            self._words[event.session_key] = text
        return "agent" if text or payload.get("tool_calls") else None


def _call_digest(event: Event) -> str:
    return fingerprint(event.tool_name or "", canonical_json(tool_arguments(event))).hex()


def tool_arguments(call: Event) -> Any:
    """Return the arguments of the tool call of an entry; None if none were recorded."""
    return call.payload.get("arguments", call.payload.get("args"))


def is_user_message(event: Event) -> bool:
    """Return whether an event is a message of the user with words in it."""
    role = event.payload.get("role") or ("user" if event.event_type == "input" else "assistant")
    return role == "user" and bool(message_text(event)) and not summarizes_history(message_text(event))


def message_text(event: Event) -> str:
    """Return the text of a message that is an entry of a conversation."""
    return plain_text(event.payload.get("text"))
