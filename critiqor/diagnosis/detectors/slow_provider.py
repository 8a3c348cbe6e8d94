"""`slow_provider`: the model answered, but very slowly."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector, TimelineDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted, format_duration
from critiqor.model.timeline import ProviderRequest, line_id
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "slow_provider"
MEANING = "the model answered, but very slowly"
MIN_FIRST_BYTE_MS = 30_000
"""Minimum time to the first byte of a slow answer. Models that reason without output take half of that."""
MIN_SLOW_MS = 60_000
"""Minimum duration of a slow answer, unless the answer is long."""
MIN_TOKENS_PER_SECOND = 10
"""Minimum output rate at which an answer of that duration counts as long and not as slow."""
MIN_TOTAL_FOR_MEDIUM_MS = 300_000
"""Minimum total duration of slow answers for severity medium."""


class SlowProvider(RunDetector[ModelCall]):
    """Keeps the model calls that took long. Failed calls are reported by `provider_failure`."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._calls = 0
        self._long: list[ModelCall] = []
        """Calls that are slow, unless their usage, which may arrive later, shows a long answer."""

    def observe(self, span: ModelCall, /) -> None:
        self._calls += 1
        if not span.failed and ((span.first_byte_ms or 0) >= MIN_FIRST_BYTE_MS or span.duration_ms >= MIN_SLOW_MS):
            self._long.append(span)

    def findings(self) -> list[Draft]:
        slow = [call for call in self._long if _is_slow(call)]
        if not slow:
            return []
        waited = sum(call.duration_ms for call in slow)
        slowest = max(slow, key=lambda call: call.duration_ms)
        first = (
            f", {format_duration(slowest.first_byte_ms)} of it until the first byte" if slowest.first_byte_ms else ""
        )
        return [
            _draft(
                "medium" if waited >= MIN_TOTAL_FOR_MEDIUM_MS else "low",
                f"The provider took {format_duration(slowest.duration_ms)} for one answer",
                f"{len(slow)} of {counted(self._calls, 'answer')} {'was' if len(slow) == 1 else 'were'} slow, "
                f"{format_duration(waited)} in total; the slowest took {format_duration(slowest.duration_ms)}{first}.",
                [call.event_id for call in slow],
                CausalStep(slowest.event_id, f"An answer took {format_duration(slowest.duration_ms)}", None),
                self.run.scope,
            )
        ]


class SlowTimelineRequest(TimelineDetector[ProviderRequest]):
    """Keeps the slowest request in OpenClaw's timeline. It may be outside of all recorded agent runs."""

    def __init__(self) -> None:
        self._slowest: ProviderRequest | None = None

    def observe(self, span: ProviderRequest, /) -> None:
        if self._slowest is None or span.duration_ms > self._slowest.duration_ms:
            self._slowest = span

    def findings(self) -> list[Draft]:
        slowest = self._slowest
        if slowest is None or slowest.ok is False or slowest.duration_ms < MIN_SLOW_MS:
            return []
        name = " ".join(filter(None, (slowest.provider, slowest.operation, slowest.model))) or "an unnamed provider"
        line, took = line_id(slowest.line), format_duration(slowest.duration_ms)
        title, explanation = f"A request to {name} took {took}", "Only OpenClaw's timeline shows this request."
        return [_draft("low", title, explanation, [line], CausalStep(line, f"A request took {took}", None), Scope())]


def _is_slow(call: ModelCall) -> bool:
    if (call.first_byte_ms or 0) >= MIN_FIRST_BYTE_MS:
        return True
    written = (call.tokens or 0) - (call.input_tokens or 0)
    return call.duration_ms >= MIN_SLOW_MS and written * 1000 < MIN_TOKENS_PER_SECOND * call.duration_ms


def _draft(
    severity: Severity, title: str, explanation: str, evidence: list[str], slowest: CausalStep, scope: Scope
) -> Draft:
    return Draft(
        type=TYPE,
        about=("slow",),
        severity=severity,
        confidence=85,
        title=title,
        explanation=f"{explanation} Nothing failed, but the user had to wait.",
        evidence=cite_events(evidence),
        occurrences=len(evidence),
        first_bad_step=evidence[0],
        chain=[slowest],
        scope=scope,
        recommendation="Send the same request to another model or provider and compare; for a local model, check the "
        "machine it runs on. Set a shorter timeout and a fallback model for this provider.",
        verification=f"Run the same task again: the first byte arrives within {format_duration(MIN_FIRST_BYTE_MS)}, "
        f"and answers within {format_duration(MIN_SLOW_MS)} unless they are long.",
    )
