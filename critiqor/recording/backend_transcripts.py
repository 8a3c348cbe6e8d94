"""Complete a recording from the transcripts of Claude Code, for agent runs on the backend `claude-cli`.

OpenClaw shows neither the model calls of such agent runs nor what the tools of their subagents return; Claude Code
keeps both in its own transcripts. A transcript is used only if it shares a tool call or an answer with the recording,
and only for the time of an agent run: other sessions of the user are none of our business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from critiqor.model import Scope, ms_from_iso
from critiqor.storage.atomic import open_regular_file
from critiqor.storage.journal import read_journal

if TYPE_CHECKING:
    from critiqor.agentloop.recording.journal_writer import JournalWriter

BACKEND = "claude-cli"
SOURCE = "claude transcript"
"""Where the records are from, in their payload."""
MAX_FILES = 64
"""Maximum number of transcripts that are read, the newest first."""
MAX_BYTES = 64 << 20
"""Maximum size of a transcript."""
MIN_ANSWER = 20
"""Minimum number of characters of an answer that identifies its session."""
MAX_ERROR = 400
"""Maximum number of characters of the error of a tool call."""
_SLACK_MS = 2_000
"""How much later than the end of an agent run its last entry can be written."""
_USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cacheRead",
    "cache_creation_input_tokens": "cacheWrite",
}


class Completed(NamedTuple):
    """How many records were added."""

    model_calls: int = 0
    tool_calls: int = 0
    results: int = 0


class _Record(msgspec.Struct):
    """What is needed of a record in the journal."""

    event_type: str = ""
    timestamp: str = ""
    session_key: str | None = None
    agent_run_id: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _AgentRun(NamedTuple):
    """An agent run on the backend."""

    scope: Scope
    start: int
    """Milliseconds since 1970, like all times here."""
    end: int


class _Recorded:
    """What the journal has of agent runs on the backend."""

    def __init__(self, journal: Path) -> None:
        self.runs: list[_AgentRun] = []
        self.calls: dict[str, str | None] = {}
        """Names of the tools by call id."""
        self.results: set[str] = set()
        self.answers: set[str] = set()
        starts: dict[Scope, int] = {}
        for record in _records(journal):
            scope, at = Scope(record.session_key, record.agent_run_id), ms_from_iso(record.timestamp)
            kind = record.event_type
            if kind == "agent_start" and at is not None:
                starts[scope] = at
            elif kind in ("before_provider_request", "after_provider_response"):
                starts.pop(scope, None)  # its model calls are visible
            elif kind == "tool_call" and record.tool_call_id:
                self.calls[record.tool_call_id] = record.tool_name
            elif kind == "tool_result" and record.tool_call_id:
                self.results.add(record.tool_call_id)
            elif kind == "message_end":
                self.answers.add(str(_object(record.payload).get("text")))
            elif kind == "agent_end" and at is not None and scope in starts:
                start = starts.pop(scope)
                if _object(record.payload).get("provider") == BACKEND:
                    self.runs.append(_AgentRun(scope, start, at + _SLACK_MS))

    def run_at(self, at: int) -> _AgentRun | None:
        return next((run for run in self.runs if run.start <= at <= run.end), None)


class _Call(msgspec.Struct):
    """A tool call in a transcript."""

    name: str
    arguments: Any
    at: int
    result: Any = None
    ended_at: int | None = None
    has_failed: bool = False


class _Response(NamedTuple):
    """A response of a model in a transcript; each part of it is an entry, with the usage so far."""

    at: int
    model: Any
    usage: dict[str, int]


class _Session:
    """The transcripts of one session of Claude Code: its own, and those of its subagents."""

    def __init__(self) -> None:
        self.calls: dict[str, _Call] = {}
        self.responses: dict[str, _Response] = {}
        self.answers: set[str] = set()

    def add(self, entry: dict[str, Any]) -> None:
        """Add an entry of a transcript."""
        message, at = entry.get("message"), ms_from_iso(str(entry.get("timestamp")))
        if not isinstance(message, dict) or at is None:
            return
        content = message.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        if entry.get("type") == "assistant":
            self._add_response(message, at)
            for part in parts:
                if part.get("type") == "tool_use":
                    self.calls[str(part.get("id"))] = _Call(str(part.get("name")), part.get("input"), at)
                elif part.get("type") == "text" and len(str(part.get("text"))) >= MIN_ANSWER:
                    self.answers.add(str(part.get("text")))
        for part in parts:
            call = self.calls.get(str(part.get("tool_use_id")))
            if part.get("type") == "tool_result" and call is not None:
                call.result, call.ended_at = part.get("content"), at
                call.has_failed = part.get("is_error") is True

    def _add_response(self, message: dict[str, Any], at: int) -> None:
        used = message.get("usage")
        if not isinstance(used, dict) or not isinstance(message.get("id"), str):
            return
        usage = {name: used[key] for key, name in _USAGE.items() if isinstance(used.get(key), int)}
        known = self.responses.get(message["id"])
        self.responses[message["id"]] = _Response(known.at if known else at, message.get("model"), usage)

    def belongs_to(self, recorded: _Recorded) -> bool:
        """Whether the recording shows a tool call or an answer of this session."""
        return not (self.calls.keys().isdisjoint(recorded.calls) and self.answers.isdisjoint(recorded.answers))


def complete_recording(journal: Path, environment: Mapping[str, str], writer: JournalWriter) -> Completed:
    """Add what Claude Code's transcripts have of the agent runs in a journal. The environment is that of OpenClaw."""
    if not _is_mentioned(journal):
        return Completed()
    recorded = _Recorded(journal)
    if not recorded.runs:
        return Completed()
    since = min(run.start for run in recorded.runs)
    done = Completed()
    for session in _sessions(_transcripts(environment, since)).values():
        if session.belongs_to(recorded):
            added = _complete(session, recorded, writer)
            done = Completed(*(one + other for one, other in zip(done, added, strict=True)))
    return done


def _complete(session: _Session, recorded: _Recorded, writer: JournalWriter) -> Completed:
    model_calls = tool_calls = results = 0
    for response in session.responses.values():
        if (run := recorded.run_at(response.at)) is not None:
            payload = {"provider": BACKEND, "model": response.model, "usage": response.usage, "source": SOURCE}
            model_calls += _write(writer, "after_provider_response", run, response.at, payload)
    for call_id, call in session.calls.items():
        run = recorded.run_at(call.at)
        if run is None:
            continue
        tool = {"tool_call_id": call_id, "tool_name": recorded.calls.get(call_id) or call.name}
        if call_id not in recorded.calls:
            payload = {"arguments": call.arguments, "source": SOURCE}
            tool_calls += _write(writer, "tool_call", run, call.at, payload, **tool)
        if call_id not in recorded.results and call.ended_at is not None:
            error = str(call.result)[:MAX_ERROR] if call.has_failed else None
            known = {**tool, "error": error, "duration_ms": max(0, call.ended_at - call.at)}
            payload = {"result": call.result, "source": SOURCE}
            results += _write(writer, "tool_result", run, call.ended_at, payload, **known)
    return Completed(model_calls, tool_calls, results)


def _write(writer: JournalWriter, kind: str, run: _AgentRun, at: int, payload: dict[str, Any], **known: Any) -> bool:
    record = {
        "event_id": None,
        "event_type": kind,
        "raw_event_type": kind,
        "timestamp": None,
        "source_layer": "tool_hooks" if kind.startswith("tool_") else "extension_api",
        "session_key": run.scope.session_key,
        "agent_run_id": run.scope.agent_run_id,
        "tool_name": None,
        "tool_call_id": None,
        "status": "ok" if known.get("error") is None else "error",
        "error": None,
        "duration_ms": None,
        "payload": payload,
    }
    return writer.append(record | known, at)


def _is_mentioned(journal: Path) -> bool:
    """Whether a journal names the backend: most do not, and need not be decoded."""
    name = f'"{BACKEND}"'.encode()
    try:
        with open_regular_file(journal, buffering=1 << 16) as file:
            return any(name in line for line in file)
    except OSError:
        return False


def _records(journal: Path) -> Iterator[_Record]:
    decode = msgspec.json.Decoder(_Record).decode
    try:
        size = journal.stat().st_size
    except OSError:
        return
    for line in read_journal(journal, size):
        try:
            if line.data is not None:
                yield decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _transcripts(environment: Mapping[str, str], since: int) -> list[Path]:
    """Return the transcripts that were written since a time, the newest ones."""
    configured, home = environment.get("CLAUDE_CONFIG_DIR"), environment.get("HOME")
    folder = Path(configured) if configured else Path(home) / ".claude" if home else None
    found = []
    for path in (folder / "projects").rglob("*.jsonl") if folder is not None else ():
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_mtime * 1000 >= since and status.st_size <= MAX_BYTES:
            found.append((status.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:MAX_FILES]]


def _sessions(paths: Iterable[Path]) -> dict[str, _Session]:
    """Return the sessions in transcripts by id: subagents can have files of their own."""
    sessions: dict[str, _Session] = {}
    for path in paths:
        try:
            with open_regular_file(path, buffering=1 << 16) as file:
                for line in file:
                    entry = _object(msgspec.Raw(line))
                    if isinstance(name := entry.get("sessionId"), str):
                        sessions.setdefault(name, _Session()).add(entry)
        except OSError:
            continue
    return sessions
