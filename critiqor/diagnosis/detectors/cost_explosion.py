"""`cost_explosion`: the agent run spent far more than its progress justifies."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque

from msgspec.structs import replace

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_costs import CallCosts, costs_of
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.loops.spending import Delegations, PieceReader
from critiqor.diagnosis.signals.compactions import is_compaction
from critiqor.diagnosis.waste import Waste
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, ModelCall, Moment, ToolCall
from critiqor.spans.late_usage import MAX_WAITING

TYPE = "cost_explosion"
MEANING = "the agent run spent many tokens, or much money, without progress"
MIN_WASTED_TOKENS = 400_000
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
        self.first: tuple[int, str] | None = None
        """Position and event id."""
        self.last: tuple[int, str] | None = None
        self.citations = CitedEvents()

    def add(self, calls: CallCosts) -> None:
        """Add calls; `count` is set by the user, because series can overlap."""
        self.citations.update(calls.citations)
        self.first = min(filter(None, (self.first, calls.first)), default=None)
        self.last = max(filter(None, (self.last, calls.last)), default=None)


def _summary_of(group: CallGroup) -> _CallSummary:
    summary = _CallSummary()
    summary.citations.update(group.citations)
    summary.first, summary.last = (group.first.order, group.first.call), (group.last.order, group.last.call)
    summary.count = len(group)
    return summary


class CostExplosion(RunDetector[ModelCall | ToolCall | Message | Moment]):
    """Compares the waste of other findings with the total usage of the agent run.

    It uses the findings of other detectors (see `findings_beside`), and measures results by the requests after them.
    """

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall, ToolCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._waste = Waste()
        """Tool calls that other findings count as wasted, and the model calls that requested them."""
        self._requests = array("q")
        """Orders of the model calls."""
        self._compactions = array("q")
        """Orders of the compactions."""
        self._tokens = 0
        self._pieces = PieceReader()
        self._delegations = Delegations()
        self._request = ""
        self._unknown: deque[ModelCall] = deque(maxlen=MAX_WAITING)
        """Model calls whose usage may arrive with the end of the agent run."""

    def observe(self, span: ModelCall | ToolCall | Message | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._pieces.add_call(span)
            self._delegations.add_call(span)
        elif isinstance(span, Message):
            if span.is_user:
                self._request = span.text
                self._delegations.begin()
        elif isinstance(span, ModelCall):
            self._pieces.add_request(span)
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
        if not self._tokens:
            return []
        return self._wasted(others) or self._carried(giants) or self._read_in_pieces() or self._delegated()

    def _wasted(self, others: list[Draft]) -> list[Draft]:
        """Report if at least half of the tokens were spent on tool calls that other findings count as wasted."""
        series = [draft.wasted_tool_calls for draft in others if isinstance(draft.wasted_tool_calls, CallCosts)]
        self._waste.update(series)
        spent = self._tokens
        wasted = self._waste.tokens or 0
        money = self._waste.cost_usd or 0
        if wasted * 2 < spent or (wasted < MIN_WASTED_TOKENS and money < MIN_WASTED_USD):
            return []
        causes = sorted({draft.type for draft in others if draft.wasted_tool_calls})
        estimated = ", estimated" if self._waste.is_estimated else ""
        dollars = f" (${money:.2f}{estimated})" if money else ""
        title = f"{wasted / spent:.0%} of {spent:,} tokens{dollars} were wasted"
        explanation = f"They were spent on tool calls of these findings: {', '.join(causes)}. Every further model call "
        explanation += "sends the whole context again."
        summary = _CallSummary()
        for calls in series:
            summary.add(calls)
        summary.count = self._waste.tool_calls
        return [replace(self._draft("high", 85, "wasted", summary, title, explanation), wasted_tool_calls=self._waste)]

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
        calls = costs_of(giants)
        summary = _CallSummary()
        summary.add(calls)
        summary.count = len(calls)
        return [replace(self._draft("medium", 65, "carried", summary, title, explanation), resent_tokens=carried)]

    def _read_in_pieces(self) -> list[Draft]:
        """Report if at least half of the tokens were spent on sending results again that were read one by one."""
        pieces = self._pieces.found()
        if pieces is None or 2 * pieces.carried < self._tokens:
            return []
        title = f"{counted(len(pieces), 'large result')} were read one after the other into the context"
        explanation = f"They have about {pieces.read:,} tokens, and sending them again has cost {pieces.carried:,} of "
        explanation += f"{self._tokens:,} tokens. A search or a count in the source returns the same answer."
        return [self._draft("medium", 65, "pieces", _summary_of(pieces), title, explanation)]

    def _delegated(self) -> list[Draft]:
        """Report other agents or models that answered a question at a high price."""
        group = self._delegations.found(self._request)
        if group is None:
            return []
        spent = f"{self._delegations.tokens:,} tokens"
        title = (
            f"{counted(len(group), 'call')} of other agents or models spent {spent} on short answers to one question"
        )
        explanation = "Each of them has its own context and returned a line or two."
        return [self._draft("medium", 65, "delegated", _summary_of(group), title, explanation)]

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
            first_bad_step=first[1],
            chain=[
                CausalStep(first[1], "The first of these calls", None),
                *([CausalStep(last[1], "The last of them", "exhausted")] if last != first else []),
            ],
            scope=self.run.scope,
            recommendation="Fix the findings that waste tokens first. Then set a budget for the run, and stop it when "
            "it repeats itself.",
            verification="Run the same task again: `critiqor compare` shows fewer tokens for the same result.",
        )
