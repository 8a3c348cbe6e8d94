"""Results of tools: the shapes that OpenClaw gives them, and the bounds that they are kept in.

What a tool returns goes to the model, to whoever watches, and into the transcript. None of them is served by a megabyte
of output or by the bytes of a picture, so everything is cut to a size here, and says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.agentloop.sessions.messages import Image, Text
from critiqor.agentloop.tools.tool import ToolOutcome

MAX_TEXT_CHARS = 60_000
"""All texts of one result together."""
MAX_DETAILS_BYTES = 8_192
MAX_IMAGE_CHARS = 7_000_000
"""Base64 of a picture, about five megabytes of it; a larger one is only mentioned."""
_KEPT_DETAILS = ("status", "tool", "error", "exitCode", "exitSignal", "exitReason", "timedOut", "durationMs", "cwd")
_KEPT_DETAIL_CHARS = 500


def succeeded(text: str, **details: Any) -> ToolOutcome:
    """A result in words."""
    return ToolOutcome(content=[Text(text)], details=details)


def answered(document: dict[str, Any], *, is_error: bool = False) -> ToolOutcome:
    """A result that is a document: the model reads it as JSON, everybody else finds it in the details."""
    return ToolOutcome(content=[Text(_pretty(document))], details=document, is_error=is_error)


def failed(tool: str, words: str) -> ToolOutcome:
    """A tool could not do what it was asked."""
    return answered({"status": "error", "tool": tool, "error": words}, is_error=True)


def refused(words: str) -> ToolOutcome:
    """A tool was never run: there is none of that name, or its arguments are not right."""
    return ToolOutcome(content=[Text(words)], is_error=True)


def error_words(outcome: ToolOutcome) -> str | None:
    """What went wrong, in one line, as hooks are told; None where nothing did."""
    if not outcome.is_error:
        return None
    said = outcome.details.get("error")
    text = said if isinstance(said, str) and said else "".join(_texts(outcome)).strip()
    return text.splitlines()[0] if text else "the tool failed"


def shortened(text: str, limit: int) -> str:
    """The beginning and the end of a text that is too long, and how much is missing between them."""
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    return text[:head] + left_out(len(text) - limit) + text[-tail:]


def left_out(characters: int) -> str:
    """The mark where something is missing."""
    return f"\n\n[... {characters} more characters truncated; rerun with narrower args if needed]\n\n"


def sanitized(outcome: ToolOutcome) -> ToolOutcome:
    """The result within its bounds; the same one where it was."""
    details = _bounded_details(outcome.details)
    if details is outcome.details and _fits(outcome):
        return outcome
    content: list[Text | Image] = []
    room = MAX_TEXT_CHARS
    for part in outcome.content:
        if isinstance(part, Image):
            content.append(part if len(part.data) <= MAX_IMAGE_CHARS else _mention(part))
        elif room > 0:
            content.append(Text(shortened(part.text, room)))
            room -= len(part.text)
    return msgspec.structs.replace(outcome, content=content, details=details)


def without_pictures(content: list[Text | Image]) -> list[Text | Image]:
    """The same without the bytes of its pictures, for logs and for whoever only watches."""
    return [Image(part.mime_type) if isinstance(part, Image) else part for part in content]


def _fits(outcome: ToolOutcome) -> bool:
    pictures = (len(part.data) for part in outcome.content if isinstance(part, Image))
    return sum(map(len, _texts(outcome))) <= MAX_TEXT_CHARS and all(size <= MAX_IMAGE_CHARS for size in pictures)


def _texts(outcome: ToolOutcome) -> list[str]:
    return [part.text for part in outcome.content if isinstance(part, Text)]


def _mention(picture: Image) -> Text:
    return Text(f"[{picture.mime_type} of about {len(picture.data) * 3 // 4} bytes left out: too large]")


def _bounded_details(details: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(msgspec.json.encode(details))
    except (TypeError, ValueError, RecursionError):
        # A tool of somebody else may put anything there; the transcript could not be written.
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
    return shortened(value, _KEPT_DETAIL_CHARS) if isinstance(value, str) else value


def _pretty(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
