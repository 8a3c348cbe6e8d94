"""From a record to its line in the journal: bounded and redacted, by the same rules as in the plugin."""

from __future__ import annotations

import json
import re
from typing import Any

from critiqor.storage.bounds import EXCERPT, KEY, RECORD, SHORT, Bounds
from critiqor.storage.redaction import Redactor, may_hold_secret

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# Of an integer: strict readers refuse one that does not fit into 64 bits.
_LARGE_NUMBER = re.compile(r"(?<![.0-9])[0-9]{19}")


def serialise(record: dict[str, Any], redactor: Redactor) -> bytes:
    """One JSON line, without its line break, for a record: redacted, bounded, well-formed.

    Small and harmless records take the short way.
    """
    if not _is_large(record):
        try:
            text = _encode(record)
            line = text.encode()
        except (TypeError, ValueError, RecursionError):
            text, line = "", b""  # a cycle, half of a character, a value that is not JSON: bounded below, one by one
        if line and len(text) <= RECORD and _is_harmless(text, line):
            return line
    bounds = Bounds(redactor)
    safe = {name: bounds.name(value) if isinstance(value, str) else value for name, value in record.items()}
    safe["payload"] = bounds.payload(record["payload"])
    return _encode(safe).encode()


def _is_harmless(text: str, line: bytes) -> bool:
    # The first part of the envelope is the loop's and ours, and is not looked at: `session_key` sounds like a secret.
    start = max(0, line.find(b'"tool_name":'))
    return not may_hold_secret(line, start) and not _LARGE_NUMBER.search(text)


def _is_large(record: dict[str, Any]) -> bool:
    """Whether it is not worth while to serialise it as it is: the few places where a giant text can stand."""
    if _longer(record["tool_name"], SHORT) or _longer(record["tool_call_id"], KEY) or _longer(record["error"], EXCERPT):
        return True
    payload = record["payload"]
    if _longer(payload.get("text"), RECORD):
        return True
    result = payload.get("result")
    parts = result.get("content") if isinstance(result, dict) else None
    texts = (part.get(name) for part in parts or () if isinstance(part, dict) for name in ("text", "data"))
    return _longer(parts, RECORD) or any(_longer(text, RECORD) for text in texts)


def _longer(value: object, length: int) -> bool:
    return isinstance(value, str) and len(value) > length
