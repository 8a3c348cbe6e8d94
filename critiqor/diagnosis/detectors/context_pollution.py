"""`context_pollution`: requests that fill or exceed the context window, and the results that filled it."""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.compaction_loss import is_compaction
from critiqor.diagnosis.detectors.provider_failure import cause_of
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, Moment, ToolCall

TYPE = "context_pollution"
MEANING = "requests that fill or exceed the context window"
MIN_FULL_SHARE = 0.9
"""A request that uses at least this share of its budget leaves too little room for an answer."""
IMPLAUSIBLE_SHARE = 20
"""Multiple of the budget at which the reported numbers must be wrong."""
GIANT_BYTES = 100_000
"""Size in bytes above which a result counts as giant."""
GIANT_SHARE = 0.25
"""Share of the budget above which a result counts as giant, if that is less than `GIANT_BYTES`; a token is counted as
four bytes."""
_MAX_NAMED_RESULTS = 3
"""Maximum number of results that the explanation names."""

_order = attrgetter("order")


def context_saturation(call: ModelCall) -> float | None:
    """Return the share of the context window that a request filled; None if its tokens or its budget are unknown."""
    if not call.budget_tokens or call.input_tokens is None:
        return None
    share = call.input_tokens / call.budget_tokens
    return share if share < IMPLAUSIBLE_SHARE else None


class GiantResults:
    """The results of one agent run that each take a large part of the context window."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self.budget: int | None = None
        """Maximum number of tokens of a request; None if unknown."""
        self.limit = GIANT_BYTES
        """Size in bytes above which a result counts as giant."""
        self._giants: list[ToolCall] = []
        self._waiting: list[ToolCall] = []
        """Large results that no request has followed yet; the size of the next request shows whether they were passed
        on."""

    def add(self, call: ToolCall) -> None:
        """Add a result that is larger than the limit."""
        self._waiting.append(call)

    def found(self, last_order: int) -> list[ToolCall]:
        """Return the giant results. `last_order` is the order of the last observed tool call."""
        limit = GIANT_BYTES if self.budget is None else min(GIANT_BYTES, round(GIANT_SHARE * self.budget * 4))
        if limit != self.limit:
            self.limit = limit
            self._giants = []
            observed = (call for call in self._run.tool_calls if call.order <= last_order and not call.wraps)
            self._waiting = [call for call in observed if call.output_size > limit]
        waiting = []
        for call in self._waiting:
            before = call.model_call
            after = self._next_request(before)
            if before is not None and after is None:
                waiting.append(call)
            elif _grew(before, after, limit):
                self._giants.append(call)
        self._waiting = waiting
        return [*self._giants, *waiting]

    def _next_request(self, before: ModelCall | None) -> ModelCall | None:
        requests = self._run.model_calls
        number = len(requests) if before is None else bisect_right(requests, before.order, key=_order)
        return requests[number] if number < len(requests) else None


def _grew(before: ModelCall | None, after: ModelCall | None, limit: int) -> bool:
    """Return whether the next request grew by more than the limit, or may have grown.

    OpenClaw passes on only a part of long outputs.
    """
    if before is None or after is None or before.request_bytes is None or after.request_bytes is None:
        return True
    return after.request_bytes - before.request_bytes > limit


class _LargeRequests:
    """Requests that nearly filled or exceeded the context window."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        """The model calls, in order."""
        self.citations = CitedEvents()
        self.largest: ModelCall | None = None
        self.share = 0.0
        """Share of the budget that the largest request used."""

    def add(self, call: ModelCall, share: float) -> None:
        insort(self.calls, call, key=_order)
        self.citations.add(call.event_id)
        if self.largest is None or (share, -call.order) > (self.share, -self.largest.order):
            self.largest, self.share = call, share

    @property
    def size(self) -> str:
        """Size of the largest request, or the error of the provider, for a title."""
        largest = self.largest
        if largest is None or context_saturation(largest) is not None:
            return f"{largest.input_tokens} of {largest.budget_tokens} tokens" if largest is not None else ""
        return excerpt(largest.error or "", 100)


class ContextPollution(RunDetector[ModelCall | ToolCall | Moment]):
    """Keeps the requests that exceeded or nearly filled the context window, and the largest results."""

    NEEDS = (ModelCall, ToolCall)
    OBSERVES = (ModelCall, ToolCall, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._results = GiantResults(run)
        self._last_order = 0
        self._largest: list[ToolCall] = []
        self._last: ModelCall | None = None
        self._over = _LargeRequests()
        """Requests above the budget, and requests that the provider rejected because of their size."""
        self._is_over = False
        """Whether a request was above the budget."""
        self._full = _LargeRequests()
        """Requests since the last compaction that nearly filled the window."""
        self._compacted = 0
        """Order of the last compaction."""
        self._unknown: list[ModelCall] = []
        """Requests whose usage may arrive with the end of the agent run."""

    def observe(self, span: ModelCall | ToolCall | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._last_order = span.order
            if span.output_size > self._results.limit:
                self._results.add(span)
            if len(self._largest) < _MAX_NAMED_RESULTS or span.output_size > self._largest[-1].output_size:
                insort(self._largest, span, key=lambda call: (-call.output_size, call.order))
                del self._largest[_MAX_NAMED_RESULTS:]
        elif isinstance(span, ModelCall):
            self._results.budget = span.budget_tokens or self._results.budget
            self._last = span
            if span.input_tokens is None:
                self._unknown.append(span)
            self._judge(span, is_rejected=span.failed and cause_of(span) == "context")
        elif span.event_type == "agent_end":
            for call in self._unknown:
                self._judge(call, is_rejected=False)
            self._unknown.clear()
        elif is_compaction(span):
            self._compacted = span.order
            self._full = _LargeRequests()

    def _judge(self, call: ModelCall, *, is_rejected: bool) -> None:
        share = context_saturation(call) or 0
        if share > 1 or is_rejected:
            self._is_over |= share > 1
            self._over.add(call, share)
        if share >= MIN_FULL_SHARE and call.order > self._compacted:
            self._full.add(call, share)

    @property
    def giants(self) -> list[ToolCall]:
        """The results that each take a large part of the context window."""
        return self._results.found(self._last_order)

    def findings(self) -> list[Draft]:
        giants = self.giants
        if self._over.calls:
            calls = self._over.calls
            # A request that was rejected, shortened and sent again was handled correctly.
            severity: Severity = "high" if self._is_over or calls[-1] is self._last else "medium"
            title = f"{counted(len(calls), 'request')} exceeded the context window: {self._over.size}"
            return [self._draft("over", severity, self._over, giants, title)]
        if self._full.calls:
            title = f"The context window was {self._full.share:.0%} full"
            return [self._draft("full", "medium", self._full, giants, title)]
        if giants:
            largest = max(giants, key=lambda call: call.output_size)
            title = f"`{largest.tool}` put {largest.output_size // 1000} KB into the context window at once"
            return [self._draft("giant", "low", _LargeRequests(), giants, title)]
        return []

    def _draft(self, how: str, severity: Severity, large: _LargeRequests, giants: list[ToolCall], title: str) -> Draft:
        requests = large.calls
        largest = [call for call in self._largest if call.output_size > 1000]
        fillers = ", ".join(f"`{call.tool}` {call.output_size // 1000} KB" for call in largest)
        first = requests[0].event_id if requests else giants[0].evidence
        before = [call for call in self._largest if not requests or call.order < requests[0].order]
        return Draft(
            type=TYPE,
            about=(how, *sorted({call.tool for call in giants})),
            severity=severity,
            confidence=90 if how == "over" else 75,
            title=title,
            explanation="The excess is truncated or dropped, and the model answers without it."
            + (f" The largest results: {fillers}." if fillers else ""),
            evidence=large.citations.cited(*(call.evidence for call in before[:2])),
            occurrences=max(1, len(requests) or len(giants)),
            first_bad_step=first,
            chain=[
                *(
                    [CausalStep(before[0].evidence, f"`{before[0].tool}` returned {before[0].output_size} bytes", None)]
                    if before
                    else []
                ),
                *([CausalStep(first, title, "exhausted" if before else None)] if requests else []),
            ],
            scope=self.run.scope,
            recommendation="Make the tools return less (a page, a range, a summary), clear old results, or compact "
            "earlier.",
            verification=f"Run the same task again: requests stay below {MIN_FULL_SHARE:.0%} of the context budget.",
        )
