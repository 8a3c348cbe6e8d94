"""Drafts: what detectors return, before drafts are merged into findings, scored and numbered."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from critiqor.model import CausalStep, Scope, Severity
from critiqor.spans.calls import ModelCall, ToolCall

RUN_AGAIN = "Run the task again and let it finish before you judge it: this recording ends before the agent was done."
"""Recommendation for a run that was cut off: nothing about the agent needs to change."""


class Draft(msgspec.Struct, kw_only=True):
    """A failure that a detector found."""

    type: str
    about: tuple[str, ...]
    """Parts of the cause that are the same in other runs: tool, kind of error."""
    severity: Severity
    confidence: int
    """Confidence of the detector in this draft, 0 to 100."""
    title: str
    explanation: str
    evidence: list[str]
    """Ids of the events that prove the failure, as `cite_events` selects them."""
    occurrences: int = 1
    first_bad_step: str | None = None
    """Id of the event with which the failure began."""
    chain: list[CausalStep] = msgspec.field(default_factory=list)
    wasted_tool_calls: list[ToolCall] = msgspec.field(default_factory=list)
    wasted_model_calls: list[ModelCall] = msgspec.field(default_factory=list)
    explains: Set[str] = frozenset()
    """Ids of events that this draft explains. The set and the two lists above may grow while the detector observes."""
    scope: Scope = Scope()
    recommendation: str
    verification: str
