"""Search for the marks that redaction leaves in place of secrets: they name the kind of a secret, never its value."""

from __future__ import annotations

import re

from critiqor.model import Event
from critiqor.model.sanitize import sanitize_line
from critiqor.spans.calls import SecretMark

REDACTION_MARK = "[redacted:"
"""The beginning of every mark."""
# Older evidence has nested marks, because the name of a kind was itself redacted: they count once.
_MARK = re.compile(r"\[redacted:([a-z_]{2,32}):(?:\[redacted:[a-z_]{2,32}:)?([0-9a-f]{2,16})\]")


def secret_marks(event: Event, place: str, text: str) -> list[SecretMark]:
    """Return the marks of the secrets in a text of an event, each secret once."""
    if REDACTION_MARK not in text:
        return []
    tool = event.tool_name and sanitize_line(event.tool_name)
    marks = dict.fromkeys(_MARK.findall(text))
    return [SecretMark(kind, tag, place, event.event_id, tool) for kind, tag in marks]
