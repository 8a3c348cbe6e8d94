"""`context_pollution`: requests that fill or exceed the context window, and the results that filled it."""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.provider_failure import cause_of
from critiqor.diagnosis.draft import Citations, Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, Moment, ToolCall

TYPE = "context_pollution"
MEANING = "requests that fill or exceed the context window"
NEARLY_FULL = 0.9
"""Share of the budget from which there is hardly room for an answer."""
ABSURD = 20
"""Multiple of the budget that no request can hold: the numbers must be wrong."""
GIANT_BYTES = 100_000
GIANT_SHARE = 0.25
"""Share of the budget that one result takes, at four bytes a token."""
_LARGEST = 3
"""Results that the explanation names."""

_order = attrgetter("order")


def saturation(call: ModelCall) -> float | None:
    """Return the share of the budget that a request used; None where either is unknown."""
    if not call.budget_tokens or call.input_tokens is None:
        return None
    share = call.input_tokens / call.budget_tokens
    return share if share < ABSURD else None


def is_compaction(moment: Moment) -> bool:
    """Return whether this is the end of a compaction that was carried out and removed something."""
    payload = moment.payload
    is_end = moment.event_type == "compaction_end"
    return is_end and payload.get("completed") is not False and payload.get("compactedCount") != 0


class GiantResults:
    """The results of one agent run that take much of the context window at once."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self.budget: int | None = None
        """Tokens that a request may have, as far as known."""
        self.limit = GIANT_BYTES
        """Bytes from which a result is large."""
        self._giants: list[ToolCall] = []
        self._waiting: list[ToolCall] = []
        """Large results of the last model call: the next request will show whether they were passed on."""

    def add(self, call: ToolCall) -> None:
        """Take in a result that is larger than the limit."""
        self._waiting.append(call)

    def found(self, last_order: int) -> list[ToolCall]:
        """Return them in order, up to the last call that was observed."""
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
    """Return whether the next request was as much larger: OpenClaw passes on only a part of long outputs."""
    if before is None or after is None or before.request_bytes is None or after.request_bytes is None:
        return True
    return after.request_bytes - before.request_bytes > limit


class ContextPollution(RunDetector[ModelCall | ToolCall | Moment]):
    """Keeps the requests that were too large or nearly so, and the largest results."""

    NEEDS = (ModelCall, ToolCall)
    OBSERVES = (ModelCall, ToolCall, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._results = GiantResults(run)
        self._last_order = 0
        self._largest: list[ToolCall] = []
        self._last: ModelCall | None = None
        self._over: list[ModelCall] = []
        """Requests above the budget, and those that the provider refused for their size, in order."""
        self._over_cited = Citations()
        self._is_over = False
        """Whether a request was above the budget."""
        self._full: list[ModelCall] = []
        """Requests since the last compaction that nearly filled the window, in order."""
        self._compacted = 0
        """Order of the last compaction."""
        self._unknown: list[ModelCall] = []
        """Requests whose usage may come with the end of the agent run."""

    def observe(self, span: ModelCall | ToolCall | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._last_order = span.order
            if span.output_size > self._results.limit:
                self._results.add(span)
            if len(self._largest) < _LARGEST or span.output_size > self._largest[-1].output_size:
                insort(self._largest, span, key=lambda call: (-call.output_size, call.order))
                del self._largest[_LARGEST:]
        elif isinstance(span, ModelCall):
            self._results.budget = span.budget_tokens or self._results.budget
            self._last = span
            if span.input_tokens is None:
                self._unknown.append(span)
            self._judge(span, is_refused=span.failed and cause_of(span) == "context")
        elif span.event_type == "agent_end":
            for call in self._unknown:
                self._judge(call, is_refused=False)
            self._unknown.clear()
        elif is_compaction(span):
            self._compacted = span.order
            self._full.clear()

    def _judge(self, call: ModelCall, *, is_refused: bool) -> None:
        share = saturation(call) or 0
        if share > 1 or is_refused:
            self._is_over |= share > 1
            insort(self._over, call, key=_order)
            self._over_cited.add(call.event_id)
        if share >= NEARLY_FULL and call.order > self._compacted:
            insort(self._full, call, key=_order)

    @property
    def giants(self) -> list[ToolCall]:
        """The results that take much of the context window at once."""
        return self._results.found(self._last_order)

    def findings(self) -> list[Draft]:
        giants = self.giants
        if self._over:
            calls = self._over
            # A request that was refused, made smaller and sent again is handled as it should be.
            severity: Severity = "high" if self._is_over or calls[-1] is self._last else "medium"
            title = f"{counted(len(calls), 'request')} exceeded the context window: {_how_far(calls)}"
            return [self._draft("over", severity, calls, giants, title)]
        if self._full:
            title = f"The context window was {max(saturation(call) or 0 for call in self._full):.0%} full"
            return [self._draft("full", "medium", self._full, giants, title)]
        if giants:
            largest = max(giants, key=lambda call: call.output_size)
            title = f"`{largest.tool}` put {largest.output_size // 1000} KB into the context window at once"
            return [self._draft("giant", "low", [], giants, title)]
        return []

    def _draft(
        self, how: str, severity: Severity, requests: list[ModelCall], giants: list[ToolCall], title: str
    ) -> Draft:
        largest = [call for call in self._largest if call.output_size > 1000]
        fillers = ", ".join(f"`{call.tool}` {call.output_size // 1000} KB" for call in largest)
        first = requests[0].event_id if requests else giants[0].evidence
        before = [call for call in self._largest if not requests or call.order < requests[0].order]
        cited = self._over_cited.cited() if how == "over" else [call.event_id for call in requests]
        return Draft(
            type=TYPE,
            about=(how, *sorted({call.tool for call in giants})),
            severity=severity,
            confidence=90 if how == "over" else 75,
            title=title,
            explanation="The excess is truncated or dropped, and the model answers without it."
            + (f" The largest results: {fillers}." if fillers else ""),
            evidence=cite([*(call.evidence for call in before[:2]), *cited]),
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
            verification=f"Run the same task again: requests stay below {NEARLY_FULL:.0%} of the context budget.",
        )


def _how_far(calls: list[ModelCall]) -> str:
    worst = max(calls, key=lambda call: saturation(call) or 0)
    if saturation(worst) is not None:
        return f"{worst.input_tokens} of {worst.budget_tokens} tokens"
    return excerpt(worst.error or "", 100)
