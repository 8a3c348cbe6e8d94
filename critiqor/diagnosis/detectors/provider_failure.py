"""`provider_failure`: model calls that failed, by cause, and whether the agent run recovered."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.provider_errors import CAUSE_DESCRIPTIONS, provider_failure_cause
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "provider_failure"
MEANING = "model calls failed"


_REPORTED_ELSEWHERE = frozenset(("context", "stopped"))
"""`context_pollution` reports requests that were too large; a call that the user stopped did not fail."""
_ADVICE = {
    "auth": "Renew or correct the credentials for this provider; `openclaw models status` shows which ones are used.",
    "billing": "Check the provider account: its budget or quota is used up.",
    "rate_limit": "Send fewer requests at a time, raise the limit, or configure a fallback model.",
    "server": "Configure a fallback model: the provider had an outage.",
    "malformed": "Check the base URL and the API type in the provider's configuration.",
    "rejected": "Check the model name and the API type in the provider's configuration.",
    "network": "Check the network, the proxy and the provider's base URL.",
    "stall": "Raise the idle timeout if this model thinks for a long time; otherwise configure a fallback model.",
    "unknown": "Read the error messages of the cited events: `critiqor explain` shows them.",
}


class _FailedCalls:
    """The failed model calls with one cause."""

    def __init__(self, first: ModelCall) -> None:
        self.first = first
        self.last = first
        self.calls = CallCosts()
        self.citations = CitedEvents()

    def add(self, call: ModelCall) -> None:
        self.last = call
        self.calls.add_model_call(call)
        self.citations.add(call.event_id)


class ProviderFailure(RunDetector[ModelCall]):
    """Groups the failed model calls by cause."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._causes: dict[str, _FailedCalls] = {}
        self._last: ModelCall | None = None

    def observe(self, span: ModelCall, /) -> None:
        self._last = span
        if span.failed:
            cause = provider_failure_cause(span)
            failed = self._causes.get(cause)
            if failed is None:
                failed = self._causes[cause] = _FailedCalls(span)
            failed.add(span)

    def findings(self) -> list[Draft]:
        reported = (cause for cause in self._causes if cause not in _REPORTED_ELSEWHERE)
        return [self._draft(cause, self._causes[cause]) for cause in reported]

    def _draft(self, cause: str, failed: _FailedCalls) -> Draft:
        calls = failed.calls
        first, last = failed.first, failed.last
        fatal = last is self._last
        severity: Severity = "high" if fatal else "low"
        end = self.run.last_end if fatal else None
        ended = (
            [CausalStep(end.event_id, "The agent run ended", "caused")]
            if end is not None and end.event_id > last.event_id
            else []
        )
        reason = CAUSE_DESCRIPTIONS.get(cause, "unknown cause")
        error = excerpt(last.error or "", 200)
        return Draft(
            type=TYPE,
            about=(cause,),
            severity=severity,
            confidence=90 if cause != "unknown" else 70,
            title=f"{counted(len(calls), 'model call')} failed: {reason}"
            + ("" if fatal else "; later calls succeeded"),
            explanation=f"The provider reported: {error}" if error else "The provider gave no error message.",
            evidence=failed.citations.cited(),
            occurrences=len(calls),
            first_bad_step=first.event_id,
            chain=[
                CausalStep(first.event_id, f"The model call failed: {excerpt(first.error or reason, 80)}", None),
                *([CausalStep(last.event_id, "Tried again, failed again", "retried")] if len(calls) > 1 else []),
                *ended,
            ],
            wasted_model_calls=calls,
            scope=self.run.scope,
            recommendation=_ADVICE[cause],
            verification="Run the same task again: no model call fails for this reason.",
        )
