"""`cost_explosion`: the agent run spent far more than its progress justifies."""

from __future__ import annotations

from bisect import bisect_right

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.compaction_loss import is_compaction
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.waste import Waste
from critiqor.model import CausalStep, Severity
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, Moment, ToolCall

TYPE = "cost_explosion"
MEANING = "the agent run spent many tokens, or much money, without progress"
MIN_WASTED_TOKENS = 200_000
"""Minimum number of wasted tokens of a finding."""
MIN_WASTED_USD = 1.0
"""Minimum wasted cost of a finding in US dollars, if fewer tokens were wasted."""
MIN_CARRIED_TOKENS = 1_000_000
"""Minimum number of tokens that were spent on sending giant results again with every request."""
BYTES_PER_TOKEN = 4
"""Approximate size of a token."""


class _CallSummary:
    """The tool calls of a finding: their number, their citations, the first and the last call."""

    def __init__(self) -> None:
        self.count = 0
        self.first: ToolCall | None = None
        self.last: ToolCall | None = None
        self.citations = CitedEvents()

    def add(self, call: ToolCall) -> None:
        self.count += 1
        self.citations.add(call.call)
        if self.first is None or call.order < self.first.order:
            self.first = call
        if self.last is None or call.order > self.last.order:
            self.last = call


class _WastedToolCalls(Waste):
    """Tool calls that other findings count as wasted, and the model calls that requested them."""

    def _clear(self) -> None:
        super()._clear()
        self.summary = _CallSummary()

    def _add_tool_call(self, call: ToolCall) -> None:
        super()._add_tool_call(call)
        self.summary.add(call)


class CostExplosion(RunDetector[ModelCall | Moment]):
    """Compares the waste of other findings with the total usage of the agent run.

    It does not observe tool calls, but uses the findings of other detectors: see `findings_beside`.
    """

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._waste = _WastedToolCalls()
        self._requests: list[int] = []
        """Orders of the model calls."""
        self._compactions: list[int] = []
        """Orders of the compactions."""
        self._tokens = 0
        self._unknown: list[ModelCall] = []
        """Model calls whose usage may arrive with the end of the agent run."""

    def observe(self, span: ModelCall | Moment, /) -> None:
        if isinstance(span, ModelCall):
            self._requests.append(span.order)
            if span.tokens is None:
                self._unknown.append(span)
            else:
                self._tokens += span.tokens
        elif span.event_type == "agent_end":
            self._tokens += sum(call.tokens or 0 for call in self._unknown)
            self._unknown.clear()
            self._waste.read_late_usage()
        elif is_compaction(span):
            self._compactions.append(span.order)

    def findings(self) -> list[Draft]:
        return self.findings_beside([], [])

    def findings_beside(self, others: list[Draft], giants: list[ToolCall]) -> list[Draft]:
        """Return the findings, given the findings of the other detectors and the giant results of the agent run."""
        return (self._wasted(others) or self._carried(giants)) if self._tokens else []

    def _wasted(self, others: list[Draft]) -> list[Draft]:
        """Report if at least half of the tokens were spent on tool calls that other findings count as wasted."""
        self._waste.update(draft.wasted_tool_calls for draft in others)
        spent = self._tokens
        wasted = self._waste.tokens or 0
        money = self._waste.cost_usd or 0
        if wasted * 2 < spent or (wasted < MIN_WASTED_TOKENS and money < MIN_WASTED_USD):
            return []
        causes = sorted({draft.type for draft in others if draft.wasted_tool_calls})
        dollars = f" (${money:.2f})" if money else ""
        title = f"{wasted / spent:.0%} of {spent:,} tokens{dollars} were wasted"
        explanation = f"They were spent on tool calls of these findings: {', '.join(causes)}. Every further model call "
        explanation += "sends the whole context again."
        return [self._draft("high", 85, "wasted", self._waste.summary, title, explanation)]

    def _carried(self, giants: list[ToolCall]) -> list[Draft]:
        """Report if at least half of the tokens were spent on sending the same giant results repeatedly."""
        spent = self._tokens
        carried = 0
        for call in giants if spent >= MIN_CARRIED_TOKENS else ():
            # A compaction removes the result from the context window.
            dropped = bisect_right(self._compactions, call.order)
            until = len(self._requests)
            if dropped < len(self._compactions):
                until = bisect_right(self._requests, self._compactions[dropped])
            again = until - bisect_right(self._requests, call.order) - 1
            carried += max(0, again) * (call.output_size // BYTES_PER_TOKEN)
        if carried < MIN_CARRIED_TOKENS or carried * 2 < spent or carried > spent:
            return []
        title = f"About {carried / spent:.0%} of {spent:,} tokens were the same large results, sent again and again"
        explanation = "The result of a tool stays in the context window, and every further model call sends it again."
        summary = _CallSummary()
        for call in giants:
            summary.add(call)
        return [self._draft("medium", 65, "carried", summary, title, explanation)]

    def _draft(
        self, severity: Severity, confidence: int, how: str, calls: _CallSummary, title: str, explanation: str
    ) -> Draft:
        first, last = calls.first, calls.last
        if first is None or last is None:
            raise ValueError("a cost without calls")
        return Draft(
            type=TYPE,
            about=(how,),
            severity=severity,
            confidence=confidence,
            title=title,
            explanation=explanation,
            evidence=calls.citations.cited(),
            occurrences=calls.count,
            first_bad_step=first.call,
            chain=[
                CausalStep(first.call, "The first of these calls", None),
                *([CausalStep(last.call, "The last of them", "exhausted")] if last is not first else []),
            ],
            scope=self.run.scope,
            recommendation="Fix the findings that waste tokens first. Then set a budget for the run, and stop it when "
            "it repeats itself.",
            verification="Run the same task again: `critiqor compare` shows fewer tokens for the same result.",
        )
