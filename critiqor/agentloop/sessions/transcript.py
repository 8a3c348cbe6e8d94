"""The transcript of a session: JSON Lines in the format of OpenClaw 2026.6.1, appended to under its write lock.

The first line is the session, every other line an entry that names the one before it. What a run saw of its session is
the way back from the last entry. Entries are appended with one write each and are never changed.

Accepted: nothing is forced to the disk, because that would cost more than the rest of a turn. A killed process loses
nothing; a power cut can lose the last seconds and tear the last line, which is closed and left out when it is read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.sessions.messages import Message, Text, ToolCall, ToolResultMessage
from critiqor.agentloop.sessions.transcript_entries import (
    Entry,
    after_compaction,
    branch_of,
    context_of,
    open_calls,
    read_entry,
    saved_form,
)
from critiqor.agentloop.sessions.write_lock import WriteLock
from critiqor.errors import CritiqorError
from critiqor.model import iso_from_ms, now_ms
from critiqor.storage import read_journal

VERSION = 3
"""Of the format."""
INTERRUPTED = "The process that ran this tool ended before the tool did. What it did until then is not known."


class ForeignWriteError(CritiqorError):
    """Somebody wrote to the transcript without holding its lock."""


class TranscriptUpdates:
    """Tells whoever listens of each message that was saved. A listener that fails disturbs nobody."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self.listener_errors = 0

    def on_transcript(self, listener: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Call `listener` with `{sessionKey, sessionId, agentId, sessionFile, message, messageId, messageSeq}`."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def announce(self, update: dict[str, Any]) -> None:
        """Tell everybody."""
        for listener in list(self._listeners):
            try:
                listener(update)
            except Exception:
                self.listener_errors += 1


class TranscriptHead(NamedTuple):
    """Whose transcript it is."""

    session_id: str
    session_key: str
    agent_id: str
    cwd: str


class Transcript:
    """A transcript that is open for one run. Build it with `open_transcript`."""

    def __init__(self, path: Path, head: TranscriptHead, lock: WriteLock, updates: TranscriptUpdates) -> None:
        self.path = path
        self.head = head
        self._lock = lock
        self._updates = updates
        self._entries: list[Entry] = []
        self._leaf: str | None = None
        self._size = 0
        self.message_count = 0
        """Messages saved so far, those before a compaction among them."""
        self.unreadable = 0
        """Lines that could not be read."""

    @property
    def entries(self) -> list[Entry]:
        """What the model may see: everything since the last compaction, with that compaction first."""
        return self._entries

    @property
    def messages(self) -> list[Message]:
        """The messages that the model is given, a summary of what went before them first."""
        return context_of(self._entries)

    def append(self, message: Message) -> str:
        """Save a message and tell of it; returns the id of its entry."""
        saved = saved_form(message)
        parent = self._leaf
        entry_id = self._write("message", {"message": saved})
        self._entries.append(Entry(entry_id, parent, message))
        self.message_count += 1
        # OpenClaw tells of no tool results either; `after_tool_call` does.
        if not isinstance(message, ToolResultMessage):
            head = self.head
            self._updates.announce(
                {
                    "sessionKey": head.session_key,
                    "sessionId": head.session_id,
                    "agentId": head.agent_id,
                    "sessionFile": str(self.path),
                    "message": saved,
                    "messageId": entry_id,
                    "messageSeq": self.message_count,
                    "runId": self._lock.owner.holder,
                }
            )
        return entry_id

    def note_model(self, provider: str, model_id: str) -> None:
        """From here on another model answers."""
        self._note("model_change", {"provider": provider, "modelId": model_id})

    def note_thinking(self, level: str) -> None:
        """From here on the model reasons more, or less."""
        self._note("thinking_level_change", {"thinkingLevel": level})

    def append_compaction(self, summary: str, first_kept: str, tokens_before: int) -> None:
        """Replace what the model sees of everything before `first_kept` by a summary; the file keeps it all."""
        facts = {"summary": summary, "firstKeptEntryId": first_kept, "tokensBefore": tokens_before, "fromHook": False}
        parent = self._leaf
        entry_id = self._write("compaction", facts)
        self._entries = after_compaction(self._entries, Entry(entry_id, parent, None, summary, first_kept))

    def load(self) -> None:
        """Read the file, or begin it."""
        self._lock.check()
        try:
            self._size = self.path.stat().st_size
        except FileNotFoundError:
            self._begin()
            return
        entries: list[Entry] = []
        is_torn = False
        for line in read_journal(self.path, self._size):
            is_torn = not line.terminated
            entry = read_entry(line.data)
            if isinstance(entry, Entry):
                entries.append(entry)
            elif entry is None:
                self.unreadable += 1
        if is_torn:
            self._append(b"\n")
        if self._size == 0:
            self._begin()
        branch = branch_of(entries)
        self._leaf = branch[-1].id if branch else None
        self.message_count = sum(entry.message is not None for entry in branch)
        for entry in branch:
            if entry.summary is None:
                self._entries.append(entry)
            else:
                self._entries = after_compaction(self._entries, entry)

    def answer_open_calls(self, text: str = INTERRUPTED) -> list[ToolCall]:
        """Save a result for each tool call that has none, so that every call has one; returns those calls."""
        calls = open_calls(self._entries)
        for call in calls:
            self.append(
                ToolResultMessage(
                    tool_call_id=call.id,
                    tool_name=call.name,
                    content=[Text(text)],
                    details={"status": "aborted"},
                    is_error=True,
                    timestamp=now_ms(),
                )
            )
        return calls

    def _begin(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        first = {"type": "session", "version": VERSION, "id": self.head.session_id}
        self._append(_line(first | {"timestamp": iso_from_ms(now_ms()), "cwd": self.head.cwd}))

    def _note(self, kind: str, facts: dict[str, Any]) -> None:
        parent = self._leaf
        self._entries.append(Entry(self._write(kind, facts), parent, None))

    def _write(self, kind: str, facts: dict[str, Any]) -> str:
        entry_id = token_hex(4)
        known = {"type": kind, "id": entry_id, "parentId": self._leaf, "timestamp": iso_from_ms(now_ms())}
        self._append(_line(known | facts))
        self._leaf = entry_id
        return entry_id

    def _append(self, data: bytes) -> None:
        self._lock.check()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size != self._size:
                raise ForeignWriteError(
                    f"{self.path.name} was changed by a writer that does not hold its lock",
                    fix="end that writer, then send the message again",
                )
            written = 0
            try:
                while written < len(data):
                    written += os.write(descriptor, data[written:])
            except OSError:
                # Half a line would swallow the next one.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self._size)
                raise
            self._size += written
        finally:
            os.close(descriptor)


def open_transcript(path: Path, head: TranscriptHead, lock: WriteLock, updates: TranscriptUpdates) -> Transcript:
    """Open the transcript of a session under its lock: begun if it is new, repaired if its last writer died."""
    transcript = Transcript(path, head, lock, updates)
    transcript.load()
    transcript.answer_open_calls()
    return transcript


def _line(entry: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(entry) + b"\n"
    except UnicodeEncodeError:
        # Half a character, as a model can write one, has no form in a file.
        text = json.dumps(entry, ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"
