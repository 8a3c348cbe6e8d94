"""Tool results: their format, which is that of OpenClaw, and their size limits.

A result goes to the model, to event listeners and into the transcript. None of them needs a megabyte of output or the
bytes of an image, so results are truncated here, with a note.
"""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.agentloop.sessions.messages import Image, Text
from critiqor.agentloop.tools.tool import ToolOutcome

MAX_TEXT_CHARS = 60_000
"""Limit for all texts of one result together."""
MAX_DETAILS_BYTES = 8_192
MAX_IMAGE_CHARS = 7_000_000
"""Limit for an image in base64, about five megabytes; a larger one is replaced by a note."""
_KEPT_DETAILS = ("status", "tool", "error", "exitCode", "exitSignal", "exitReason", "timedOut", "durationMs", "cwd")
_KEPT_DETAIL_CHARS = 500


def succeeded(text: str, **details: Any) -> ToolOutcome:
    """Return a tool result that is a text."""
    return ToolOutcome(content=[Text(text)], details=details)


def answered(document: dict[str, Any], *, is_error: bool = False) -> ToolOutcome:
    """Return a tool result that is a document: JSON for the model, `details` for everything else."""
    return ToolOutcome(content=[Text(_format_json(document))], details=document, is_error=is_error)


def failed(tool: str, text: str) -> ToolOutcome:
    """Return the result of a tool that failed."""
    return answered({"status": "error", "tool": tool, "error": text}, is_error=True)


def refused(text: str) -> ToolOutcome:
    """Return the result of a call whose tool does not exist or whose arguments are invalid."""
    return ToolOutcome(content=[Text(text)], is_error=True)


def error_line(outcome: ToolOutcome) -> str | None:
    """Return the first line of a tool's error, for hooks and records; None if the tool did not fail."""
    if not outcome.is_error:
        return None
    error = outcome.details.get("error")
    text = error if isinstance(error, str) and error else "".join(_texts(outcome)).strip()
    return text.splitlines()[0] if text else "the tool failed"


def shorten(text: str, limit: int) -> str:
    """Return the text of a tool result without its middle if it is too long, with a note of how much is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    return text[:head] + truncation_note(len(text) - limit) + text[-tail:]


def truncation_note(characters: int) -> str:
    """Return the note that replaces removed characters of a tool result."""
    return f"\n\n[... {characters} more characters truncated; rerun with narrower args if needed]\n\n"


def truncate_result(outcome: ToolOutcome) -> ToolOutcome:
    """Return the tool result truncated to the limits; the same object if it is within them."""
    details = _bounded_details(outcome.details)
    if details is outcome.details and _fits(outcome):
        return outcome
    content: list[Text | Image] = []
    room = MAX_TEXT_CHARS
    for part in outcome.content:
        if isinstance(part, Image):
            content.append(part if len(part.data) <= MAX_IMAGE_CHARS else _too_large_note(part))
        elif room > 0:
            content.append(Text(shorten(part.text, room)))
            room -= len(part.text)
    return msgspec.structs.replace(outcome, content=content, details=details)


def _fits(outcome: ToolOutcome) -> bool:
    sizes = (len(part.data) for part in outcome.content if isinstance(part, Image))
    return sum(map(len, _texts(outcome))) <= MAX_TEXT_CHARS and all(size <= MAX_IMAGE_CHARS for size in sizes)


def _texts(outcome: ToolOutcome) -> list[str]:
    return [part.text for part in outcome.content if isinstance(part, Text)]


def _too_large_note(image: Image) -> Text:
    return Text(f"[{image.mime_type} of about {len(image.data) * 3 // 4} bytes left out: too large]")


def _bounded_details(details: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(msgspec.json.encode(details))
    except (TypeError, ValueError, RecursionError):
        # A third-party tool may return details that cannot be written to the transcript.
        return {"persistedDetailsTruncated": True, "originalDetailKeys": [str(key)[:80] for key in list(details)[:40]]}
    if size <= MAX_DETAILS_BYTES:
        return details
    kept = {key: _short(details[key]) for key in _KEPT_DETAILS if _is_scalar(details.get(key, []))}
    return {
        "persistedDetailsTruncated": True,
        "originalDetailsBytesAtLeast": size,
        "originalDetailKeys": [key[:80] for key in list(details)[:40]],
        **kept,
    }


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _short(value: Any) -> Any:
    return shorten(value, _KEPT_DETAIL_CHARS) if isinstance(value, str) else value


def _format_json(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
