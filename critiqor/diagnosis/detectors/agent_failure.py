"""`agent_failure`: an agent run ended in an error that nothing else explains."""

from __future__ import annotations

from critiqor.diagnosis.detectors.provider_failure import fatal_cause
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.text import error_kind
from critiqor.model import CausalStep
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun

TYPE = "agent_failure"


def detect(run: AgentRun) -> list[Draft]:
    """The end of one agent run, where it is an error of its own."""
    end = run.last_end
    # An agent that fails is often tried again, so only its last word counts.
    if end is None or end.status != "error" or is_timeout(end):
        return []
    if run.was_stopped or fatal_cause(run) is not None:
        return []
    error = end.error or "without saying why"
    return [
        Draft(
            type=TYPE,
            about=(error_kind(error),),
            severity="high",
            confidence=90,
            title=f"The agent run ended in an error: {excerpt(error, 100)}",
            explanation="OpenClaw reports the run itself as failed, and no failed model call or time limit "
            "explains it.",
            evidence=cite([end.event_id]),
            first_bad_step=end.event_id,
            chain=[CausalStep(end.event_id, f"ended: {excerpt(error, 80)}", None)],
            scope=run.scope,
            recommendation="Read what came right before it, and the log of OpenClaw for that moment.",
            verification="Run the same task again: the agent run ends without an error.",
        )
    ]
