"""`slow_provider`: the model answered, but very slowly."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted, format_duration
from critiqor.model.timeline import ProviderRequest, line_id
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "slow_provider"
MEANING = "the model answered, but very slowly"
FIRST_BYTE_MS = 30_000
"""Time to the first byte. Models that reason silently take half of that."""
LONG_MS = 60_000
"""Duration of a whole answer, unless it is a long one."""
TOKENS_A_SECOND = 10
"""A long answer comes faster than that."""
GRAVE_MS = 300_000
"""Total waiting time from which the severity is medium."""


class SlowProvider(RunDetector[ModelCall]):
    """Keeps the model calls that took long; those that failed are reported by `provider_failure`."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._calls = 0
        self._long: list[ModelCall] = []
        """Calls that are slow, unless their usage, which may come later, shows a long answer."""

    def observe(self, span: ModelCall, /) -> None:
        self._calls += 1
        if not span.failed and ((span.first_byte_ms or 0) >= FIRST_BYTE_MS or span.duration_ms >= LONG_MS):
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
                "medium" if waited >= GRAVE_MS else "low",
                f"The provider took {format_duration(slowest.duration_ms)} for one answer",
                f"{len(slow)} of {counted(self._calls, 'answer')} {'was' if len(slow) == 1 else 'were'} slow, "
                f"{format_duration(waited)} in total; the slowest took {format_duration(slowest.duration_ms)}{first}.",
                [call.event_id for call in slow],
                CausalStep(slowest.event_id, f"An answer took {format_duration(slowest.duration_ms)}", None),
                self.run.scope,
            )
        ]


class SlowTimelineRequest:
    """Looks at requests in OpenClaw's timeline: they may belong to no agent, or to one that was only partly seen."""

    def __init__(self) -> None:
        self._slowest: ProviderRequest | None = None

    def observe(self, span: ProviderRequest, /) -> None:
        if self._slowest is None or span.duration_ms > self._slowest.duration_ms:
            self._slowest = span

    def findings(self) -> list[Draft]:
        slowest = self._slowest
        if slowest is None or slowest.ok is False or slowest.duration_ms < LONG_MS:
            return []
        name = " ".join(filter(None, (slowest.provider, slowest.operation, slowest.model))) or "an unnamed provider"
        line, took = line_id(slowest.line), format_duration(slowest.duration_ms)
        title, explanation = f"A request to {name} took {took}", "Only OpenClaw's timeline shows this request."
        return [_draft("low", title, explanation, [line], CausalStep(line, f"A request took {took}", None), Scope())]


def _is_slow(call: ModelCall) -> bool:
    if (call.first_byte_ms or 0) >= FIRST_BYTE_MS:
        return True
    written = (call.tokens or 0) - (call.input_tokens or 0)
    return call.duration_ms >= LONG_MS and written * 1000 < TOKENS_A_SECOND * call.duration_ms


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
        evidence=cite(evidence),
        occurrences=len(evidence),
        first_bad_step=evidence[0],
        chain=[slowest],
        scope=scope,
        recommendation="Send the same request to another model or provider and compare; for a local model, check the "
        "machine it runs on. Set a shorter timeout and a fallback model for this provider.",
        verification=f"Run the same task again: the first byte arrives within {format_duration(FIRST_BYTE_MS)}, and "
        f"answers within {format_duration(LONG_MS)} unless they are long.",
    )
