"""Transcripts of Claude Code: the JSON Lines of its `projects` folder, and the output of `--output-format stream-json`.

A response is saved as one line per part, all with the id of the message and with its usage. A resumed session repeats
the lines of the one before it, with the same ids.
"""

from __future__ import annotations

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
from critiqor.importers.values import as_count, as_list, as_ms, as_number, as_object, as_text

NAME = "claude_code"
_SILENT = frozenset(
    (
        *(
            "summary",
            "file-history-snapshot",
            "queue-operation",
            "progress",
            "attachment",
            "last-prompt",
            "custom-title",
        ),
        *("ai-title", "agent-name", "tag", "mode", "permission-mode", "pr-link", "checkpoint", "stream_event"),
        *("rate_limit_event", "keep_alive", "result", "bridge-session", "agent-setting", "worktree-state"),
    )
)
"""Types of entries that say nothing about the work of the agent."""
_OWN_TEXTS = ("<command-", "<local-command-", "<system-reminder>", "<task-notification>", "<bash-", "Caveat: ")
"""How messages begin that Claude Code itself writes in the place of the user's."""
_INTERRUPTED = "[Request interrupted by user"
_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "toolUse", "max_tokens": "length"}
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}


def is_claude_code(value: Any) -> bool:
    """Return whether a line belongs to a transcript of Claude Code."""
    if not isinstance(value, dict):
        return False
    kind = as_text(value.get("type"))
    if kind in ("user", "assistant"):
        named = any(as_text(value.get(name)) for name in ("sessionId", "session_id", "uuid"))
        return named and isinstance(value.get("message"), dict) and "parentId" not in value
    if kind == "system":
        return value.get("subtype") == "init" and "session_id" in value
    return kind == "summary" and "leafUuid" in value


def read_claude_code(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one session of a transcript."""
    reader = _Reader(path.name.split(".")[0])
    for line, value, problem in read_entries(path):
        if isinstance(value, dict):
            reader.add(line, value)
        else:
            place = f"{line}: {problem or 'not an object'}"
            reader.transcript.notes.add("lines that could not be read", place, not_understood=True)
    yield write_transcript(reader.transcript, key, "claude transcript").trace(NAME)


class _Reader:
    """Collects the entries of a transcript, line by line."""

    def __init__(self, session_id: str) -> None:
        self.transcript = Transcript(session_id, facts={"agent_name": "claude-code"})
        self._seen: set[str] = set()
        self._responses: dict[str, Response] = {}
        """The responses by the ids of their messages."""

    def add(self, line: int, value: dict[str, Any]) -> None:
        """Add one line."""
        notes, kind = self.transcript.notes, as_text(value.get("type")) or ""
        if (uuid := as_text(value.get("uuid"))) is not None:
            if uuid in self._seen:
                notes.add("entries that were saved a second time, left out")
                return
            self._seen.add(uuid)
        session = as_text(value.get("sessionId")) or as_text(value.get("session_id"))
        if session is not None:
            self.transcript.session_id = session
        if (version := as_text(value.get("version"))) is not None:
            self.transcript.facts.setdefault("agent_version", version)
        message = value.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            add = self._add_response if kind == "assistant" else self._add_user
            add(line, value, message)
        elif kind == "system":
            self._add_system(value)
        elif kind not in _SILENT:
            notes.add("entries of an unknown type", f"{line}: {(kind or 'none')[:40]}", not_understood=True)

    def _add_user(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        at, agent = as_ms(value.get("timestamp")), _agent(value)
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
        texts = []
        for part in parts:
            kind = as_text(as_object(part).get("type"))
            if kind == "tool_result":
                self.transcript.entries.append(Answer(at=at, agent=agent, result=_result(part)))
            elif kind == "text":
                texts.append(as_text(part.get("text")) or "")
            elif kind in ("image", "document"):
                texts.append(f"[{kind}]")
            else:
                self._note_part(line, kind)
        text = "\n".join(text for text in texts if text)
        if not text:
            return
        if value.get("isCompactSummary") is True:
            self.transcript.entries.append(Compaction(at=at, agent=agent, text=text))
        elif text.startswith(_INTERRUPTED):
            self.transcript.entries.append(Interruption(at=at, agent=agent))
        elif value.get("isMeta") is True or text.startswith(_OWN_TEXTS):
            self.transcript.notes.add("messages of Claude Code itself, left out")
        else:
            self.transcript.entries.append(Request(at=at, agent=agent, text=text))

    def _add_response(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        at, agent = as_ms(value.get("timestamp")), _agent(value)
        model = as_text(message.get("model"))
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
        if value.get("isApiErrorMessage") is True:
            error = "\n".join(as_text(as_object(part).get("text")) or "" for part in parts) or "API error"
            self.transcript.entries.append(Failure(at=at, agent=agent, error=error))
            return
        name = as_text(message.get("id")) or f"line {line}"
        response = self._responses.get(name)
        if response is None:
            response = self._responses[name] = Response(at=at, agent=agent, model=model)
            self.transcript.entries.append(response)
        response.usage = _usage(message.get("usage"), value) or response.usage
        reason = as_text(message.get("stop_reason"))
        response.stop_reason = _STOP_REASONS.get(reason or "", reason) or response.stop_reason
        for part in parts:
            kind = as_text(as_object(part).get("type"))
            if kind == "text":
                response.text = "\n".join(text for text in (response.text, as_text(part.get("text"))) if text)
            elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                call = Call(as_text(part.get("id")), as_text(part.get("name")), part.get("input"))
                response.calls.append(call)
                self.transcript.entries.append(Calling(at=at, agent=agent, call=call))
            elif kind is not None and kind.endswith("_tool_result"):
                self.transcript.entries.append(Answer(at=at, agent=agent, result=_result(part)))
            elif kind not in ("thinking", "redacted_thinking"):
                self._note_part(line, kind)

    def _add_system(self, value: dict[str, Any]) -> None:
        subtype, at = as_text(value.get("subtype")), as_ms(value.get("timestamp"))
        if subtype == "compact_boundary":
            self.transcript.entries.append(Compaction(at=at, agent=_agent(value)))
        elif subtype == "api_error":
            error = as_object(value.get("error"))
            text = as_text(error.get("message")) or as_text(value.get("content")) or "API error"
            self.transcript.entries.append(Failure(at=at, agent=_agent(value), error=text))
        elif subtype == "init":
            version = as_text(value.get("claude_code_version"))
            self.transcript.facts.update({"agent_version": version} if version else {})

    def _note_part(self, line: int, kind: str | None) -> None:
        place = f"{line}: {(kind or 'none')[:40]}"
        self.transcript.notes.add("parts of messages of an unknown type", place, not_understood=True)


def _agent(value: dict[str, Any]) -> str:
    """Return the subagent of an entry; empty for the main agent."""
    parent = as_text(value.get("parent_tool_use_id"))
    if value.get("isSidechain") is not True and parent is None:
        return ""
    return as_text(value.get("agentId")) or parent or "sidechain"


def _result(part: dict[str, Any]) -> Result:
    content = part.get("content")
    parts = [content] if isinstance(content, str) else as_list(content)
    texts = [part if isinstance(part, str) else as_text(as_object(part).get("text")) or "[part]" for part in parts]
    call_id = as_text(part.get("tool_use_id"))
    return Result(call_id=call_id, text="\n".join(texts), is_error=part.get("is_error") is True, subagents=[])


def _usage(value: Any, entry: dict[str, Any]) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    usage: dict[str, Any] = {name: as_count(value.get(source)) or 0 for name, source in _USAGE.items()}
    cost = as_number(entry.get("costUSD"))  # only old versions state it
    return usage if cost is None else usage | {"cost": {"total": cost}}
