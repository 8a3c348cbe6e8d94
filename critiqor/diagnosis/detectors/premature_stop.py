"""`premature_stop`: the agent run ended as if complete: cut off, before its tool calls, or with its plan not done.

What the last message and the request show is checked in `critiqor.diagnosis.conduct`.
"""

from __future__ import annotations

from functools import lru_cache

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, Moment, Plan, ToolCall

TYPE = "premature_stop"
MEANING = "the agent run ended as if complete, although announced or requested work was left"
_OUTPUT_LIMIT_REASONS = frozenset(("length", "max_tokens", "maxtokens"))
_DELEGATING = ("cron", "automation", "schedul", "remind", "spawn", "subagent", "yield")
"""Parts of the names of tools that schedule work for later or delegate it to another agent."""


@lru_cache(maxsize=1024)
def _delegates(tool: str) -> bool:
    return any(word in tool.lower() for word in _DELEGATING)


class PrematureStop(RunDetector[ToolCall | Message | Moment | Plan]):
    """Keeps the last message, the last plan, and the number of calls after that plan."""

    NEEDS = (Message,)
    OBSERVES = (ToolCall, Message, Moment, Plan)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._last: Message | None = None
        self._end: Moment | None = None
        self._plan: Plan | None = None
        self._calls_since_plan = 0
        self._request_since_plan = False
        self._delegates = False
        """Whether work was delegated to a later agent run or to a subagent."""

    def observe(self, span: ToolCall | Message | Moment | Plan, /) -> None:
        if isinstance(span, ToolCall):
            self._calls_since_plan += 1
            if not (self._delegates or span.failed):
                self._delegates = _delegates(span.tool)
        elif isinstance(span, Message):
            self._last = span
            self._request_since_plan |= span.is_user
        elif isinstance(span, Plan):
            self._plan, self._calls_since_plan, self._request_since_plan = span, 0, False
        elif span.event_type == "agent_end":
            self._end = span

    def findings(self) -> list[Draft]:
        end, last = self._end, self._last
        if end is None or end.status == "error" or last is None or last.is_user or self.run.was_stopped:
            return []
        if (last.stop_reason or "").lower() in _OUTPUT_LIMIT_REASONS:
            return [self._draft(last, "cut", "The last answer was cut off by the model's output limit", 90)]
        if last.asks_tools:
            calls = self.run.tool_calls
            never_ran = not calls or calls[-1].order <= last.order
            title = "The last message requests tool calls that were never run"
            return [self._draft(last, "unexecuted", title, 75)] if never_ran else []
        if self._delegates:
            return []
        return self._unfinished_plan(last)

    def _unfinished_plan(self, last: Message) -> list[Draft]:
        """Report items of the agent's own plan that were never marked as done."""
        plan = self._plan
        if plan is None or not plan.pending or last.admits_failure or last.asks_user or not last.text:
            return []
        if self._request_since_plan:
            return []  # the user has sent another message since
        # An agent that forgot to mark items as done has made at least one call for each, except for the final report.
        if self._calls_since_plan >= plan.pending - 1:
            return []
        title = f"The agent run ended with {counted(plan.pending, 'item')} of its own plan not done"
        draft = self._draft(last, "planned", title, 70)
        draft.evidence = cite_events([plan.event_id, *draft.evidence])
        draft.first_bad_step = plan.event_id
        draft.chain = [CausalStep(plan.event_id, "The plan as last written", None), *draft.chain]
        draft.chain[1] = CausalStep(last.event_id, title, "ignored")
        return [draft]

    def _draft(self, last: Message, how: str, title: str, confidence: int) -> Draft:
        end = self._end
        ended = [CausalStep(end.event_id, "The agent run ended as if complete", "precedes")] if end is not None else []
        return Draft(
            type=TYPE,
            about=(how,),
            severity="medium",
            confidence=confidence,
            title=title,
            explanation=f"The agent's last message: “{excerpt(last.text, 160)}”",
            evidence=cite_events([last.event_id, *(step.event_id for step in ended)]),
            first_bad_step=last.event_id,
            chain=[CausalStep(last.event_id, title, None), *ended],
            scope=self.run.scope,
            recommendation="Raise the output limit of the model."
            if how == "cut"
            else "Instruct the agent to continue until its plan is done, and to end with a summary of what it did.",
            verification="Run the same task again: the last message reports results and announces no more work.",
        )
