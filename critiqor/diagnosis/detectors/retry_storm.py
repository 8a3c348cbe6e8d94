"""`retry_storm`: many model calls in a row to a provider that keeps failing."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.provider_failure import cause_of
from critiqor.diagnosis.draft import Citations, Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "retry_storm"
MEANING = "many requests in a row to a provider that keeps failing"
STORM = 5
"""Failed model calls in a row."""


class _Row:
    """Failed model calls in a row."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self.again: list[ModelCall] = []
        """All but the first."""
        self.citations = Citations()

    def add(self, call: ModelCall) -> None:
        if self.calls:
            self.again.append(call)
        self.calls.append(call)
        self.citations.add(call.event_id)


class RetryStorm(RunDetector[ModelCall]):
    """Keeps the longest row of failed model calls, and the current one."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._longest = _Row()
        self._row = _Row()
        self._last: ModelCall | None = None

    def observe(self, span: ModelCall, /) -> None:
        self._last = span
        if not span.failed:
            if self._row.calls:
                self._longest, self._row = self._longest_so_far(), _Row()
        elif cause_of(span) != "stopped":
            self._row.add(span)

    def _longest_so_far(self) -> _Row:
        return self._row if len(self._row.calls) > len(self._longest.calls) else self._longest

    def findings(self) -> list[Draft]:
        longest = self._longest_so_far()
        calls = longest.calls
        if len(calls) < STORM:
            return []
        cause = cause_of(calls[-1])
        fatal = calls[-1] is self._last
        return [
            Draft(
                type=TYPE,
                about=(cause,),
                severity="medium",  # `provider_failure` reports that none of them succeeded
                confidence=90,
                title=f"{counted(len(calls), 'model call')} failed in a row",
                explanation="Each call was sent after the previous one had failed"
                + (", and none succeeded." if fatal else "; a later one succeeded.")
                + " Retries without enough delay keep a provider from recovering, and are often billed.",
                evidence=longest.citations.cited(),
                occurrences=len(calls),
                first_bad_step=calls[1].event_id,
                chain=[
                    CausalStep(calls[0].event_id, f"The model call failed: {cause}", None),
                    CausalStep(calls[1].event_id, "Sent again, failed again", "retried"),
                    CausalStep(calls[-1].event_id, f"Failure number {len(calls)} in a row", "retried"),
                ],
                wasted_model_calls=longest.again,
                scope=self.run.scope,
                recommendation="Limit the number of retries, wait longer between them, and configure a fallback model.",
                verification=f"Run the same task again: fewer than {STORM} model calls fail in a row.",
            )
        ]
