"""Where secrets stood before they were replaced: the mark that redaction leaves names their kind, never their value."""

from __future__ import annotations

import re

from critiqor.model import Event
from critiqor.model.sanitize import sanitize_line
from critiqor.spans.calls import SecretMark

# Older evidence has marks within marks, where the name of a kind was itself taken for a secret: they are one.
_MARK = re.compile(r"\[redacted:([a-z_]{2,32}):(?:\[redacted:[a-z_]{2,32}:)?([0-9a-f]{2,16})\]")


def secret_marks(event: Event, place: str, text: str) -> list[SecretMark]:
    """The secrets that an event held, each once."""
    if "[redacted:" not in text:
        return []
    tool = event.tool_name and sanitize_line(event.tool_name)
    marks = dict.fromkeys(_MARK.findall(text))
    return [SecretMark(kind, tag, place, event.event_id, tool) for kind, tag in marks]
