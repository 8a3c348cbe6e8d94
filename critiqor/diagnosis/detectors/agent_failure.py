"""`agent_failure`: an agent run ended with an error that nothing else explains."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector, RunDetector
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.errors import error_kind
from critiqor.diagnosis.signals.provider_errors import fatal_cause
from critiqor.model import CausalStep, Event, Scope
from critiqor.model.event import USER_STOP
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Moment

TYPE = "agent_failure"
MEANING = "the agent run ended with an error that no other finding explains"


class AgentFailure(RunDetector[Moment]):
    """Keeps the end of the last attempt, because a failed attempt is often followed by another."""

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
        if end is None or end.status != "error" or is_timeout(end):
            return []
        if self.run.was_stopped or fatal_cause(self.run) is not None:
            return []
        error = end.error or "no error message"
        return [
            Draft(
                type=TYPE,
                about=(error_kind(end.error or "no reason was given"),),
                severity="high",
                confidence=90,
                title=f"The agent run ended with an error: {excerpt(error, 100)}",
                explanation="OpenClaw reported the agent run as failed. No failed model call and no time limit "
                "explains it.",
                evidence=cite_events([end.event_id]),
                first_bad_step=end.event_id,
                chain=[CausalStep(end.event_id, f"The agent run ended: {excerpt(error, 80)}", None)],
                scope=self.run.scope,
                recommendation="Look at the events right before the error, and at OpenClaw's log for that moment.",
                verification="Run the same task again: the agent run ends without an error.",
            )
        ]


class AbortedByLimit(RecordingDetector):
    """Reads from `Recording` which agent runs of a gateway were to be aborted because of a limit of the policy."""

    def findings(self) -> list[Draft]:
        return [_aborted(event) for event in self._recording.exceeded_limits]


def _aborted(event: Event) -> Draft:
    facts = event.payload
    first = facts.get("event_id")
    exceeded = [CausalStep(first, "The limit was exceeded", None)] if isinstance(first, str) else []
    is_of_user = facts.get("limit") == USER_STOP
    happened, rule = ("An agent run exceeded a limit", "The policy says that exceeding it ends the agent run")
    if is_of_user:
        happened, rule = ("An agent run was to be stopped", "The user had it stopped")
    scope = Scope(*(str(facts[name]) if facts.get(name) else None for name in ("session_key", "agent_run_id")))
    return Draft(
        type=TYPE,
        about=("limit", str(facts.get("limit"))),
        severity="low" if is_of_user else "medium",
        confidence=100,
        title=f"{happened}: {excerpt(event.error or 'it is not named', 200)}",
        explanation=f"{rule}: {excerpt(str(facts.get('result')), 300)}.",
        evidence=cite_events([*(step.event_id for step in exceeded), event.event_id]),
        first_bad_step=exceeded[0].event_id if exceeded else event.event_id,
        chain=[*exceeded, CausalStep(event.event_id, "Critiqor acted on it", "caused" if exceeded else None)],
        scope=scope,
        recommendation="Look at what the agent did before it was stopped."
        if is_of_user
        else "Fix what made the agent exceed the limit. If it was needed for the task, raise the limit.",
        verification="Run the same task again: no limit is exceeded.",
    )
