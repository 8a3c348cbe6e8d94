"""`timeout`: ended by time and not by its own end."""

from __future__ import annotations

import re

from critiqor.diagnosis.detectors.provider_failure import fatal_cause
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Event, Scope
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Moment, ToolCall

TYPE = "timeout"
_TIMED_OUT = re.compile(r"time[d -]?\s?out|timeout|deadline", re.IGNORECASE)


def detect(recording: Recording) -> list[Draft]:
    """Runs that were ended by the supervisor's limit or by a limit of the agent."""
    ended = recording.error_of("timeout")
    if ended is not None:
        title = f"The run was ended by its time limit: {excerpt(ended.error or 'time was up', 100)}"
        return [_draft(ended, recording.open_steps, title, Scope())]
    return [draft for run in recording.runs for draft in _of_agent(run)]


def is_timeout(end: Moment) -> bool:
    """Whether an agent run ended because its time was up."""
    return end.status == "error" and _TIMED_OUT.search(end.error or "") is not None


def _of_agent(run: AgentRun) -> list[Draft]:
    end = run.last_end
    # A model that fell silent, or failed in another way, is told as a failure of its provider.
    if end is None or not is_timeout(end) or fatal_cause(run) is not None:
        return []
    waiting = [step for step in run.actions if step.result is None]
    return [_draft(end, waiting, f"An agent run timed out: {excerpt(end.error or '', 100)}", run.scope)]


def _draft(end: Event | Moment, waiting: list[ToolCall], title: str, scope: Scope) -> Draft:
    names = ", ".join(dict.fromkeys(f"`{step.tool}`" for step in waiting[:3]))
    first = waiting[0] if waiting else None
    return Draft(
        type=TYPE,
        about=("timeout",),
        severity="high",
        confidence=100,
        title=title,
        explanation="Whatever it had not finished by then was not done."
        + (f" It was still waiting for {names}." if names else ""),
        evidence=cite([*(step.call for step in waiting[:3]), end.event_id]),
        first_bad_step=first.call if first else end.event_id,
        chain=[
            *([CausalStep(first.call, f"{names} did not come back", None)] if first else []),
            CausalStep(end.event_id, excerpt(end.error or "time was up", 80), "exhausted" if first else None),
        ],
        explains=frozenset([end.event_id, *(step.call for step in waiting)]),
        scope=scope,
        recommendation="Give the slow step a limit of its own, or the run more time if the latency analysis "
        "shows that it was making progress.",
        verification="Run the same task again: it ends by itself.",
    )
