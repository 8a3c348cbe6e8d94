"""What the user forbids: a command, a file or a folder that the agent must not touch."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind, Message, ToolCall

_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don't|must not)\s+(?:ever\s+)?"
    r"(?P<deed>use|run|call|open|read|touch|edit|change|modify|delete|remove|overwrite|write to|push to|deploy to)\s+"
    r"(?:the |file |folder |command )?[`\"']?(?P<what>[\w.-]*[./_-][\w./-]*\w|(?<=[`\"'])[\w -]{4,})",
    re.IGNORECASE,
)
_READING = frozenset(("use", "run", "call", "open", "read"))

_order = attrgetter("order")


class Prohibition:
    """A prohibition by the user."""

    __slots__ = ("action", "last_checked", "message", "text", "violation", "what")

    def __init__(self, message: Message, action: str, what: str, text: str) -> None:
        self.message = message
        self.action = action
        self.what = what
        self.text = text
        self.violation: ToolCall | None = None
        """The first call that violated the prohibition."""
        self.last_checked = -1
        """Order of the last call that was checked."""

    def copy(self) -> Prohibition:
        """Return a copy that checks calls by itself."""
        same = Prohibition(self.message, self.action, self.what, self.text)
        same.violation, same.last_checked = self.violation, self.last_checked
        return same

    def first_violation(self, calls: list[ToolCall], until: int) -> ToolCall | None:
        """Return the first call after the message that violates the prohibition; each call is checked once.

        `until` is the order of the last call that is checked.
        """
        if self.violation is None:
            start = bisect_right(calls, max(self.last_checked, self.message.order), key=_order)
            end = bisect_right(calls, until, key=_order)
            self.violation = next((call for call in calls[start:end] if self._is_violated_by(call)), None)
            self.last_checked = max(self.last_checked, calls[end - 1].order if end else -1)
        return self.violation

    def _is_violated_by(self, call: ToolCall) -> bool:
        if self.what not in call.arguments and self.what != call.tool:
            return False
        return self.action in _READING or call.kind in (Kind.CHANGE, Kind.ACTION, Kind.COMMAND)


def prohibitions_in(message: Message) -> Iterator[Prohibition]:
    """Yield the prohibitions in a message of the user."""
    for found in _FORBIDDEN.finditer(message.text):
        yield Prohibition(message, found["deed"].lower(), found["what"], excerpt(found[0], 80))
