"""A finding in the making: what a detector says, before it is scored, numbered and priced."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.model import CausalStep, Scope, Severity
from critiqor.spans.calls import ModelCall, ToolCall

MOST_CITED = 12
"""Events that one finding cites: the first ones and the last."""
RUN_AGAIN = "Run it again, and let it come to its end before you judge it: what it would still have done is not known."
"""What is recommended for a run that was cut off: nothing about the agent is to be changed."""


class Draft(msgspec.Struct, kw_only=True):
    """What a detector says."""

    type: str
    about: tuple[str, ...]
    """What stays the same when it happens again in another run: tool, kind of error."""
    severity: Severity
    confidence: int
    title: str
    explanation: str
    evidence: list[str]
    occurrences: int = 1
    first_bad_step: str | None = None
    chain: list[CausalStep] = msgspec.field(default_factory=list)
    wasted_steps: list[ToolCall] = msgspec.field(default_factory=list)
    wasted_calls: list[ModelCall] = msgspec.field(default_factory=list)
    explains: frozenset[str] = frozenset()
    """Events that need no other explanation."""
    scope: Scope = Scope()
    recommendation: str
    verification: str


def cite(events: Iterable[str]) -> list[str]:
    """At most a dozen of these events, in order: the first ones and the last few."""
    ordered = sorted(set(events))
    if len(ordered) <= MOST_CITED:
        return ordered
    return ordered[: MOST_CITED - 4] + ordered[-4:]


def names_of(steps: Iterable[ToolCall]) -> str:
    """What steps are called in a sentence, the first three of them."""
    names = list(dict.fromkeys(step.name for step in steps))
    return " and ".join(names[:3]) + (" and others" if len(names) > 3 else "")
