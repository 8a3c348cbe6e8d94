"""Bound and redact events and records on their way into evidence: the entry point for every source.

The embedded agent loop writes journal lines, importers build events, the monitor writes lifecycle events, and events
of a journal are checked again when they are sealed or followed. All of them call `RecordFilter`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.model import Event, EventType
from critiqor.storage.bounds import MAX_EXCERPT, MAX_KEY, MAX_PAYLOAD, SHORT_TEXT, PayloadBounds, bound_text
from critiqor.storage.coverage import FOREIGN
from critiqor.storage.redaction import Redactor

_MAX_CACHED_NAMES = 4096
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# The beginning of an integer that may not fit into 64 bits, which strict readers refuse.
_LARGE_NUMBER = re.compile(r"(?<![.0-9])[0-9]{19}")


class RecordFilter:
    """Bounds and redacts the records of one run."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._names: dict[str, str] = {}
        self.redacting_writers: set[str] = set()
        """Recorders that have applied our redaction rules to all they wrote."""

    def payload(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a payload of bounded size without secrets."""
        bounded: dict[str, Any] = PayloadBounds(self.redactor, self.name).bound(payload)
        return bounded

    def name(self, text: str, max_length: int = MAX_EXCERPT) -> str:
        """Return a text of the envelope, or a field name, of bounded size without secrets."""
        if len(text) > SHORT_TEXT:
            return bound_text(text, max_length, self.redactor)
        # The same few names occur in every event, and searching them for secrets would be the largest cost.
        if text not in self._names:
            if len(self._names) >= _MAX_CACHED_NAMES:
                self._names.clear()
            self._names[text] = bound_text(text, max_length, self.redactor)
        return self._names[text]

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record whose envelope and payload are bounded and redacted."""
        safe = {name: self.name(value) if isinstance(value, str) else value for name, value in record.items()}
        safe["payload"] = self.payload(record["payload"])
        return safe

    def journal_line(self, record: dict[str, Any]) -> bytes:
        """Return a record as one JSON line without its line break: bounded, redacted, valid UTF-8.

        A small record without anything that looks like a secret is serialized as it is.
        """
        if not _is_large(record):
            try:
                text = _encode(record)
                line = text.encode()
            except (TypeError, ValueError, RecursionError):
                text, line = "", b""  # a cycle, a lone surrogate or a value that is not JSON: bounded below
            if line and len(text) <= MAX_PAYLOAD and self._is_harmless(record, text, line):
                return line
        safe = _encode(self.record(record)).encode()
        # A value can precede the name that shows that it is a secret.
        return _encode(self.record(record)).encode() if self.redactor.known.are_in(safe) else safe

    def supervisor_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return a lifecycle event without secrets, as JSON values that strict readers accept.

        Its size is not bounded: the monitor writes few of them and limits what it puts into each.
        """
        text = json.dumps(dict(event), default=str, ensure_ascii=False).encode("utf-8", "replace")
        safe: dict[str, Any] = self.redactor.value(json.loads(text))
        for part in (safe, safe.get("payload")):
            if isinstance(part, dict) and isinstance(part.get("command"), list):
                part["command"] = self.redactor.command([str(word) for word in part["command"]])
        return safe

    def recorded_event(self, event: Event, data: bytes, writer: str | None) -> Event:
        """Return an event that was read from a journal line `data`, without secrets.

        A recorder announces its redaction rules in its first record; where they are ours, it has applied them already.
        """
        if writer in self.redacting_writers:
            return event
        announces = event.event_type == EventType.RECORDER_ATTACHED and writer != FOREIGN
        if announces and writer is not None and event.payload.get("redaction") == self.redactor.digest:
            self.redacting_writers.add(writer)
            return event
        return self.redacted_event(event, data)

    def redacted_event(self, event: Event, data: bytes) -> Event:
        """Return an event without secrets; `data` is the same event serialized."""
        # Names of the envelope before these, such as `session_key`, look like secrets themselves.
        starts = [start for start in (data.find(b'"error":'), data.find(b'"payload":')) if start >= 0]
        if not self.redactor.may_hold_secret(data, min(starts, default=0)):
            return event
        payload, error = event.payload, event.error
        for _ in range(2):  # a value can precede the name that shows that it is a secret
            payload, error = self.redactor.value(payload), self.redactor.text(error) if error else error
        return msgspec.structs.replace(event, payload=payload, error=error)

    def _is_harmless(self, record: dict[str, Any], text: str, line: bytes) -> bool:
        # The beginning of the envelope comes from the agent loop. It is not searched: `session_key` looks secret.
        # In the rest of the envelope, only these members can be anything.
        is_open = record["tool_name"] or record["tool_call_id"] or record["error"]
        start = max(0, line.find(b'"tool_name":' if is_open else b'"payload":'))
        return not self.redactor.may_hold_secret(line, start) and not _LARGE_NUMBER.search(text)


def _is_large(record: dict[str, Any]) -> bool:
    """Whether a record has a giant text in one of the usual places, so that serializing it first would be wasted."""
    long_name = _is_longer(record["tool_name"], SHORT_TEXT) or _is_longer(record["tool_call_id"], MAX_KEY)
    if long_name or _is_longer(record["error"], MAX_EXCERPT):
        return True
    payload = record["payload"]
    if _is_longer(payload.get("text"), MAX_PAYLOAD):
        return True
    result = payload.get("result")
    parts = result.get("content") if isinstance(result, dict) else None
    texts = (part.get(name) for part in parts or () if isinstance(part, dict) for name in ("text", "data"))
    return _is_longer(parts, MAX_PAYLOAD) or any(_is_longer(text, MAX_PAYLOAD) for text in texts)


def _is_longer(value: object, length: int) -> bool:
    return isinstance(value, str) and len(value) > length
