"""Cases of values: what the user asked, what was recorded, what the agent says, and what is found."""

from __future__ import annotations

from typing import Any, NamedTuple

from story import Story

from critiqor.model import Finding

SEVERE = frozenset(("critical", "high", "medium"))
TYPES = frozenset(("misreported_value", "unsupported_claim"))


class Call(NamedTuple):
    """One tool call with its output; with `error`, one that failed."""

    tool: str
    arguments: dict[str, Any]
    output: str
    error: str | None = None


def shell(command: str, output: str, error: str | None = None) -> Call:
    return Call("exec", {"command": command}, output, error)


class Case(NamedTuple):
    """What the user asked, what was recorded, and what the agent says."""

    request: str
    calls: tuple[Call, ...]
    answer: str


def severe(case: Case) -> list[Finding]:
    """Return the findings of at least medium severity."""
    story = Story().user(case.request)
    for call in case.calls:
        story.calls(call.tool, call.arguments, call.output, error=call.error)
    found = story.says(case.answer).finishes().findings()
    return [finding for finding in found if finding.severity in SEVERE]


def about_values(case: Case) -> list[str]:
    """Return the titles of those findings that are about values."""
    return [finding.title for finding in severe(case) if finding.type in TYPES]
