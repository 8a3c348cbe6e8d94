"""Template filters: texts, numbers and times as they appear on pages.

Text of an agent is untrusted. Templates escape it, and before that invisible characters, bidirectional controls and
control characters are replaced by visible ones.
"""

from __future__ import annotations

import json
import re
from typing import Any

from markupsafe import Markup, escape

from critiqor.model.formatting import format_duration
from critiqor.model.sanitize import sanitize_for_page

_LAYERS = {
    "tool_hooks": "hooks around OpenClaw's tools",
    "extension_api": "events of OpenClaw",
    "supervisor": "Critiqor's supervisor",
}

MAX_TEXT = 20_000
"""Maximum length of one text on a page in characters; the raw event has the rest."""
MAX_RAW = 1_000_000
"""Maximum length of a raw event in characters."""
VERDICTS = {
    "ready": "No finding of medium or higher severity, and trust is at least 85.",
    "review": "Review the findings before you rely on this run.",
    "unsafe": "Do not rely on this run.",
    "unknown": "The evidence is not sufficient for a verdict.",
}
"""Sentence shown for each readiness level."""
_CODE = re.compile(r"`([^`\n]{1,300})`")
_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def finalize_value(value: Any) -> Any:
    """Sanitize a value that a template prints, before it is escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    if len(value) > MAX_TEXT:
        return sanitize_for_page(value[:MAX_TEXT]) + f"… ({len(value) - MAX_TEXT} more characters)"
    return sanitize_for_page(value)


def raw(value: Any, max_length: int = MAX_RAW) -> Markup:
    """Format a value as indented JSON for reading."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) > max_length:
        text = text[:max_length] + f"… ({len(text) - max_length} more characters)"
    return escape(sanitize_for_page(text))


def island(value: Any) -> Markup:
    """Format data as JSON that can be embedded in a script element."""
    return Markup(json.dumps(value, ensure_ascii=True, allow_nan=False).translate(_IN_SCRIPT))


def offset(milliseconds: float) -> str:
    """Format a time relative to the start of the run."""
    return f"{'-' if milliseconds < 0 else '+'}{format_duration(abs(milliseconds))}"


def marked(text: str, search: re.Pattern[str] | None) -> Markup:
    """Highlight the matches of a search in a text of a page."""
    shown = sanitize_for_page(text)
    if search is None:
        return escape(shown)
    pieces, end = [], 0
    for match in search.finditer(shown):
        pieces += [escape(shown[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        end = match.end()
    return Markup("").join([*pieces, escape(shown[end:])])


def coded(text: str) -> Markup:
    """Format text between backticks as code of a page; everything is escaped."""
    pieces = _CODE.split(finalize_value(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces)
    )


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share * 100:.0f} %"


def moment(text: str | None) -> str:
    """Format a timestamp as it appears on a page."""
    return "unknown" if not text else text.replace("T", " ").removesuffix("Z")


def layer_name(source_layer: str) -> str:
    """Return in words which part of the recorder saw an event."""
    return _LAYERS.get(source_layer, source_layer)
