"""`context_pollution`: requests that fill or exceed the context window, and the results that filled it."""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import nlargest

import msgspec

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.compactions import is_compaction
from critiqor.diagnosis.signals.provider_errors import provider_error_cause, provider_failure_cause
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, Moment, ToolCall
from critiqor.spans.late_usage import MAX_WAITING

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
MAX_RESULTS = 512
"""Number of results of an agent run that are checked: the largest ones."""
MIN_REPORTED = 2
"""Minimum number of errors about the size of requests: after a single one, the agent may have changed its way."""
MAX_REPORTED = 20
_MAX_NAMED_RESULTS = 3
"""Maximum number of results that the explanation names."""


def context_saturation(call: ModelCall) -> float | None:
    """Return the share of the context window that a request filled; None if its tokens or its budget are unknown."""
    if not call.budget_tokens or call.input_tokens is None:
        return None
    share = call.input_tokens / call.budget_tokens
    return share if share < IMPLAUSIBLE_SHARE else None


class _Result(msgspec.Struct, gc=False):
    """A result, and the request that followed it: its size shows whether the result was passed on."""

    call: ToolCall
    next_request: ModelCall | None = None


class _GiantResults:
    """The results of one agent run that each take a large part of the context window."""

    def __init__(self) -> None:
        self.budget: int | None = None
        """Maximum number of tokens of a request; None if unknown."""
        self._limit = GIANT_BYTES
        """Size in bytes above which a result counts as giant."""
        self._results: list[_Result] = []
        """The largest results, in order: the limit can change with the budget."""
        self._unanswered: list[_Result] = []
        """Results that no request has followed yet."""
        self._giants: list[ToolCall] = []
        self._waiting: list[_Result] = []
        """Results above the limit that were not judged yet."""

    def add(self, call: ToolCall) -> None:
        """Add a result."""
        result = _Result(call)
        self._results.append(result)
        self._unanswered.append(result)
        if call.output_size > self._limit:
            self._waiting.append(result)
        if len(self._results) > 2 * MAX_RESULTS:
            largest = nlargest(MAX_RESULTS, self._results, key=lambda each: each.call.output_size)
            self._results = sorted(largest, key=lambda each: each.call.order)
            self._giants = self._giants[:MAX_RESULTS]

    def add_request(self, request: ModelCall) -> None:
        """Add a model call."""
        self.budget = request.budget_tokens or self.budget
        for result in self._unanswered:
            result.next_request = request
        self._unanswered.clear()

    def found(self) -> list[ToolCall]:
        """Return the giant results."""
        limit = GIANT_BYTES if self.budget is None else min(GIANT_BYTES, round(GIANT_SHARE * self.budget * 4))
        if limit != self._limit:
            self._limit = limit
            self._giants = []
            self._waiting = [result for result in self._results if result.call.output_size > limit]
        waiting = []
        for result in self._waiting:
            before = result.call.model_call
            if before is not None and result.next_request is None:
                waiting.append(result)
            elif before is None or _grew(before, result.next_request, limit):
                self._giants.append(result.call)
        self._waiting = waiting
        return [*self._giants, *(result.call for result in waiting)]


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
        self.count = 0
        self.first: ModelCall | None = None
        self.last: ModelCall | None = None
        self.citations = CitedEvents()
        self.largest: ModelCall | None = None
        self.share = 0.0
        """Share of the budget that the largest request used."""

    def add(self, call: ModelCall, share: float) -> None:
        self.count += 1
        # Usage that arrives late is judged late.
        if self.first is None or call.order < self.first.order:
            self.first = call
        if self.last is None or call.order >= self.last.order:
            self.last = call
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
        self._results = _GiantResults()
        self._largest: list[ToolCall] = []
        self._last: ModelCall | None = None
        self._over = _LargeRequests()
        """Requests above the budget, and requests that the provider rejected because of their size."""
        self._is_over = False
        """Whether a request was above the budget."""
        self._reported: list[Moment] = []
        """Errors beside the model calls that say that a request exceeded the window, the first ones."""
        self._full = _LargeRequests()
        """Requests since the last compaction that nearly filled the window."""
        self._compacted = 0
        """Order of the last compaction."""
        self._unknown: deque[ModelCall] = deque(maxlen=MAX_WAITING)
        """Requests whose usage may arrive with the end of the agent run."""

    def observe(self, span: ModelCall | ToolCall | Moment, /) -> None:
        if isinstance(span, ToolCall):
            if span.output_size:
                self._results.add(span)
            if len(self._largest) < _MAX_NAMED_RESULTS or span.output_size > self._largest[-1].output_size:
                insort(self._largest, span, key=lambda call: (-call.output_size, call.order))
                del self._largest[_MAX_NAMED_RESULTS:]
        elif isinstance(span, ModelCall):
            self._results.add_request(span)
            self._last = span
            if span.input_tokens is None:
                self._unknown.append(span)
            self._judge(span, is_rejected=span.failed and provider_failure_cause(span) == "context")
        elif span.event_type == "agent_end":
            for call in self._unknown:
                self._judge(call, is_rejected=False)
            self._unknown.clear()
        elif is_compaction(span):
            self._compacted = span.order
            self._full = _LargeRequests()
        elif span.event_type == "error" and provider_error_cause(span.error) == "context":
            self._reported = [*self._reported, span][:MAX_REPORTED]

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
        return self._results.found()

    def findings(self) -> list[Draft]:
        giants = self.giants
        if self._over.count:
            # A request that was rejected, shortened and sent again was handled correctly.
            severity: Severity = "high" if self._is_over or self._over.last is self._last else "medium"
            title = f"{counted(self._over.count, 'request')} exceeded the context window: {self._over.size}"
            return [self._draft("over", severity, self._over, giants, title)]
        if len(self._reported) >= MIN_REPORTED:
            return [self._repeated(self._reported)]
        if self._full.count:
            title = f"The context window was {self._full.share:.0%} full"
            return [self._draft("full", "medium", self._full, giants, title)]
        if giants:
            largest = max(giants, key=lambda call: call.output_size)
            title = f"`{largest.tool}` put {largest.output_size // 1000} KB into the context window at once"
            return [self._draft("giant", "low", _LargeRequests(), giants, title)]
        return []

    def _repeated(self, errors: list[Moment]) -> Draft:
        """Return that requests exceeded the window again after the first one had."""
        first, second = errors[0], errors[1]
        filler = next((call for call in self._largest if call.order < second.order), None)
        title = f"The context window overflowed {counted(len(errors), 'time')}: {excerpt(first.error or '', 80)}"
        return Draft(
            type=TYPE,
            about=("again",),
            severity="medium",
            confidence=85,
            title=title,
            explanation="The agent went on in the same way after the first time, and what it had read was dropped.",
            evidence=[*(error.event_id for error in errors), *([filler.evidence] if filler is not None else [])],
            occurrences=len(errors),
            first_bad_step=second.event_id,
            chain=[
                CausalStep(first.event_id, "The context window overflowed", None),
                CausalStep(second.event_id, "It overflowed again", "retried"),
            ],
            scope=self.run.scope,
            recommendation="Have the agent search in large files and read ranges of them, instead of the whole.",
            verification="Run the same task again: the context window does not overflow.",
        )

    def _draft(self, how: str, severity: Severity, large: _LargeRequests, giants: list[ToolCall], title: str) -> Draft:
        request = large.first
        largest = [call for call in self._largest if call.output_size > 1000]
        fillers = ", ".join(f"`{call.tool}` {call.output_size // 1000} KB" for call in largest)
        first = request.event_id if request is not None else giants[0].evidence
        before = [call for call in self._largest if request is None or call.order < request.order]
        return Draft(
            type=TYPE,
            about=(how, *sorted({call.tool for call in giants})),
            severity=severity,
            confidence=90 if how == "over" else 75,
            title=title,
            explanation="The excess is truncated or dropped, and the model answers without it."
            + (f" The largest results: {fillers}." if fillers else ""),
            evidence=large.citations.cited(*(call.evidence for call in before[:2])),
            occurrences=max(1, large.count or len(giants)),
            first_bad_step=first,
            chain=[
                *(
                    [CausalStep(before[0].evidence, f"`{before[0].tool}` returned {before[0].output_size} bytes", None)]
                    if before
                    else []
                ),
                *([CausalStep(first, title, "exhausted" if before else None)] if request is not None else []),
            ],
            scope=self.run.scope,
            recommendation="Make the tools return less (a page, a range, a summary), clear old results, or compact "
            "earlier.",
            verification=f"Run the same task again: requests stay below {MIN_FULL_SHARE:.0%} of the context budget.",
        )
