"""`timeout`: a time limit ended the run before it was done."""

from __future__ import annotations

import re

from critiqor.diagnosis.detector import RecordingDetector, RunDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.provider_errors import fatal_cause
from critiqor.model import CausalStep, Event, Scope
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Moment, ToolCall

TYPE = "timeout"
MEANING = "a time limit ended the run before the agent had finished"
_TIMED_OUT = re.compile(r"time[d -]?\s?out|timeout|deadline", re.IGNORECASE)


def is_timeout(end: Moment) -> bool:
    """Return whether an agent run ended because of a time limit."""
    return end.status == "error" and _TIMED_OUT.search(end.error or "") is not None


class AgentTimeout(RunDetector[Moment]):
    """Keeps the last end of the agent run, which may be due to the agent's own time limit."""

    NEEDS = (Moment,)
    OBSERVES = (Moment,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._end: Moment | None = None

    def observe(self, span: Moment, /) -> None:
        if span.event_type == "agent_end":
            self._end = span

    def findings(self) -> list[Draft]:
        end = self._end
        # `provider_failure` reports a model that did not answer, or failed in another way.
        if end is None or not is_timeout(end) or fatal_cause(self.run) is not None:
            return []
        waiting = [call for call in self.run.tool_calls if call.result is None and not call.wraps]
        return [_draft(end, waiting, f"An agent run timed out: {excerpt(end.error or '', 100)}", self.run.scope)]


class SupervisorTimeout(RecordingDetector):
    """Reads from `Recording` whether the supervisor ended the process because of a time limit."""

    def findings(self) -> list[Draft]:
        ended = self._recording.error_of("timeout")
        if ended is None:
            return []
        title = f"The run was stopped by its time limit: {excerpt(ended.error or 'time was up', 100)}"
        return [_draft(ended, self._recording.open_calls, title, Scope())]


def _draft(end: Event | Moment, waiting: list[ToolCall], title: str, scope: Scope) -> Draft:
    names = ", ".join(dict.fromkeys(f"`{call.tool}`" for call in waiting[:3]))
    first = waiting[0] if waiting else None
    return Draft(
        type=TYPE,
        about=("timeout",),
        severity="high",
        confidence=100,
        title=title,
        explanation="Work still in progress was lost."
        + (f" The agent was still waiting for {names}." if names else ""),
        evidence=cite_events([*(call.call for call in waiting[:3]), end.event_id]),
        first_bad_step=first.call if first else end.event_id,
        chain=[
            *([CausalStep(first.call, f"{names} did not return", None)] if first else []),
            CausalStep(end.event_id, excerpt(end.error or "Time was up", 80), "exhausted" if first else None),
        ],
        explains=frozenset([end.event_id, *(call.call for call in waiting)]),
        scope=scope,
        recommendation="Give the slow tool its own timeout. If `critiqor timeline` shows steady progress, raise the "
        "time limit.",
        verification="Run the same task again: it finishes within the time limit.",
    )
