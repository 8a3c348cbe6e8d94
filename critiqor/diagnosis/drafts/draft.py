"""Drafts: what detectors return, before drafts are merged into findings, scored and numbered."""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.waste import Waste
from critiqor.model import CausalStep, Scope, Severity
from critiqor.spans.calls import ModelCall, ToolCall

RUN_AGAIN = "Run the task again and let it finish before you judge it: this recording ends before the agent was done."
"""Recommendation for a run that was cut off: nothing about the agent needs to change."""
START_AGAIN = "Start OpenClaw again and let an agent work: this recording ends before one began."
"""Recommendation for a run that was stopped before an agent began: nothing is known about agents."""
NO_CHANGE = frozenset((RUN_AGAIN, START_AGAIN))
"""Recommendations that change nothing: a coding assistant cannot follow them."""


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
    wasted_tool_calls: list[ToolCall] | CallCosts | Waste = msgspec.field(default_factory=list)
    """`Waste` for calls that other drafts have, too: they count for the finding, but not again for the recording."""
    wasted_model_calls: list[ModelCall] | CallCosts = msgspec.field(default_factory=list)
    resent_tokens: int = 0
    """Estimated tokens of results that were sent again with other model calls, which themselves were not wasted."""
    explains: Set[str] = frozenset()
    """Ids of events of the process that this draft explains."""
    explained_calls: Orders | None = None
    """Tool calls that this draft explains. They and the two series above may grow while the detector observes."""
    scope: Scope = Scope()
    merged: Sequence[Scope] = ()
    """All agent runs of a draft that joins those of several agent runs; `scope` is that of the worst one."""
    earliest: str | None = None
    """The first bad step of all drafts that were joined; None if this is the only one."""
    recommendation: str
    verification: str
