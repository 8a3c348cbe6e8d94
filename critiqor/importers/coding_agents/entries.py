"""Entries of a transcript of a coding agent, and how they are written as events.

A response of a model is saved in several lines, between which results can stand, and its tokens are known at its last
line. All entries are therefore read before the first event is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.importers.atif_steps import Call, Result, Step
from critiqor.importers.conversation import Conversation
from critiqor.importers.event_writer import EventWriter
from critiqor.importers.notes import ImportNotes


class Entry(msgspec.Struct, kw_only=True):
    """One entry: a request, a response, a tool call, a result, a compaction, a failure or an interruption."""

    at: int | None
    """Milliseconds since 1970."""
    agent: str = ""
    """The subagent that it belongs to; empty for the main agent."""


class Request(Entry, kw_only=True):
    """A message of the user."""

    text: str


class Response(Entry, kw_only=True):
    """A response of the model; its tool calls are entries of their own."""

    text: str = ""
    model: str | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    calls: list[Call] = msgspec.field(default_factory=list)


class Calling(Entry, kw_only=True):
    """A tool call."""

    call: Call


class Answer(Entry, kw_only=True):
    """A result of a tool call."""

    result: Result


class Compaction(Entry, kw_only=True):
    """The context was replaced by a summary."""

    text: str = ""


class Failure(Entry, kw_only=True):
    """A model call failed."""

    error: str
    model: str | None = None


class Interruption(Entry, kw_only=True):
    """The user stopped the agent."""


class Transcript(msgspec.Struct):
    """Everything that was read of a transcript."""

    session_id: str
    notes: ImportNotes = msgspec.field(default_factory=ImportNotes)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    """The program and its version."""
    entries: list[Entry] = msgspec.field(default_factory=list)


def write_transcript(transcript: Transcript, key: bytes, source: str) -> EventWriter:
    """Write the entries of the transcript of a coding agent as events, in order."""
    start = next((entry.at for entry in transcript.entries if entry.at is not None), None)
    writer = EventWriter(transcript.session_id, key, start=start, notes=transcript.notes)
    if start is None and transcript.entries:
        transcript.notes.add("traces without any time, placed in the year 2000")
    conversations: dict[str, Conversation] = {}
    for entry in transcript.entries:
        conversation = conversations.get(entry.agent)
        if conversation is None:
            name = f"{entry.agent}-" if entry.agent else ""
            conversation = conversations[entry.agent] = Conversation(writer, name, transcript.facts, source)
        _write(entry, conversation)
    for agent in sorted(conversations, reverse=True):  # the main agent last
        conversations[agent].end()
    return writer


def _write(entry: Entry, conversation: Conversation) -> None:
    match entry:
        case Request():
            conversation.ask(_step(entry, "user", entry.text))
        case Response():
            step = _step(entry, "agent", entry.text, stop_reason=entry.stop_reason, calls=entry.calls)
            model = {"model": entry.model}
            conversation.call_model(step, model, entry.usage)
            conversation.reply([step], model)
        case Calling():
            conversation.call_tool(_step(entry, "agent"), entry.call)
        case Answer():
            conversation.answer(_step(entry, "tool"), entry.result)
        case Compaction():
            conversation.compact(_step(entry, "system", entry.text))
        case Failure():
            conversation.fail_model_call(_step(entry, "agent"), {"model": entry.model}, entry.error)
        case Interruption():
            conversation.interrupt(_step(entry, "user"))


def _step(
    entry: Entry, source: str, text: str = "", *, stop_reason: str | None = None, calls: list[Call] | None = None
) -> Step:
    return Step(
        id=None,
        source=source,
        at=entry.at,
        text=text,
        model=None,
        stop_reason=stop_reason,
        calls=calls or [],
        results=[],
        metrics=None,
        is_sidechain=False,
        is_compaction=False,
    )
