"""`retry_storm`: many consecutive model calls to a provider that keeps failing."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.provider_errors import provider_failure_cause
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "retry_storm"
MEANING = "many requests in a row to a provider that keeps failing"
MIN_FAILED_CALLS = 5
"""Minimum number of consecutive failed model calls."""


class _Sequence:
    """Consecutive failed model calls."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[ModelCall] = []
        """The first two calls."""
        self.last: ModelCall | None = None
        self.wasted = CallCosts()
        """All calls but the first."""
        self.citations = CitedEvents()

    def add(self, call: ModelCall) -> None:
        if self.count:
            self.wasted.add_model_call(call)
        if self.count < 2:
            self.first.append(call)
        self.count += 1
        self.last = call
        self.citations.add(call.event_id)


class RetryStorm(RunDetector[ModelCall]):
    """Keeps the longest and the current sequence of failed model calls."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._longest = _Sequence()
        self._current = _Sequence()
        self._last: ModelCall | None = None

    def observe(self, span: ModelCall, /) -> None:
        self._last = span
        if not span.failed:
            if self._current.count:
                self._longest, self._current = self._longest_so_far(), _Sequence()
        elif provider_failure_cause(span) != "stopped":
            self._current.add(span)

    def _longest_so_far(self) -> _Sequence:
        return self._current if self._current.count > self._longest.count else self._longest

    def findings(self) -> list[Draft]:
        longest = self._longest_so_far()
        last = longest.last
        if last is None or longest.count < MIN_FAILED_CALLS:
            return []
        first, second = longest.first
        cause = provider_failure_cause(last)
        fatal = last is self._last
        return [
            Draft(
                type=TYPE,
                about=(cause,),
                severity="medium",  # that none of them succeeded is reported by `provider_failure`
                confidence=90,
                title=f"{counted(longest.count, 'model call')} failed in a row",
                explanation="Each call was sent after the previous one had failed"
                + (", and none succeeded." if fatal else "; a later one succeeded.")
                + " Retries without enough delay keep a provider from recovering, and are often billed.",
                evidence=longest.citations.cited(),
                occurrences=longest.count,
                first_bad_step=second.event_id,
                chain=[
                    CausalStep(first.event_id, f"The model call failed: {cause}", None),
                    CausalStep(second.event_id, "Sent again, failed again", "retried"),
                    CausalStep(last.event_id, f"Failure number {longest.count} in a row", "retried"),
                ],
                wasted_model_calls=longest.wasted,
                scope=self.run.scope,
                recommendation="Limit the number of retries, wait longer between them, and configure a fallback model.",
                verification=f"Run the same task again: fewer than {MIN_FAILED_CALLS} model calls fail in a row.",
            )
        ]
