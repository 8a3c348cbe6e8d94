"""`slow_provider`: the model answered, but very slowly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from critiqor.diagnosis.detector import RunDetector, TimelineDetector
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted, format_duration
from critiqor.model.timeline import ProviderRequest, line_id
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, Moment
from critiqor.spans.late_usage import MAX_WAITING

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


class _SlowCalls:
    """Model calls that were slow."""

    def __init__(self) -> None:
        self.count = 0
        self.waited = 0
        """Milliseconds."""
        self.waited_for_known = 0
        """The same, without answers of unknown length, which may have been long."""
        self.first: ModelCall | None = None
        self.slowest: ModelCall | None = None
        self.citations = CitedEvents()

    def add(self, call: ModelCall) -> None:
        if not _is_slow(call):
            return
        self.count += 1
        self.waited += call.duration_ms
        if _written(call) or (call.first_byte_ms or 0) >= MIN_FIRST_BYTE_MS:
            self.waited_for_known += call.duration_ms
        self.citations.add(call.event_id)
        # Usage that arrives late is judged late.
        if self.first is None or call.order < self.first.order:
            self.first = call
        slowest = self.slowest
        if slowest is None or (call.duration_ms, -call.order) > (slowest.duration_ms, -slowest.order):
            self.slowest = call

    def with_calls(self, others: Iterable[ModelCall]) -> _SlowCalls:
        """Return a copy to which calls are added."""
        same = _SlowCalls()
        same.count, same.first, same.slowest = self.count, self.first, self.slowest
        same.waited, same.waited_for_known = self.waited, self.waited_for_known
        same.citations.update(self.citations)
        for call in others:
            same.add(call)
        return same


class SlowProvider(RunDetector[ModelCall | Moment]):
    """Keeps the model calls that took long. Failed calls are reported by `provider_failure`."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._calls = 0
        self._slow = _SlowCalls()
        self._unknown: deque[ModelCall] = deque(maxlen=MAX_WAITING)
        """Long calls that are slow, unless their usage, which may arrive later, shows a long answer."""

    def observe(self, span: ModelCall | Moment, /) -> None:
        if isinstance(span, Moment):
            if self._unknown and span.event_type == "agent_end":
                self._slow = self._slow.with_calls(self._unknown)
                self._unknown.clear()
            return
        self._calls += 1
        if not span.failed and ((span.first_byte_ms or 0) >= MIN_FIRST_BYTE_MS or span.duration_ms >= MIN_SLOW_MS):
            if span.tokens is None:
                self._unknown.append(span)
            else:
                self._slow.add(span)

    def findings(self) -> list[Draft]:
        slow = self._slow.with_calls(self._unknown) if self._unknown else self._slow
        first, slowest = slow.first, slow.slowest
        if first is None or slowest is None:
            return []
        until_first = (
            f", {format_duration(slowest.first_byte_ms)} of it until the first byte" if slowest.first_byte_ms else ""
        )
        return [
            _draft(
                "medium" if slow.waited_for_known >= MIN_TOTAL_FOR_MEDIUM_MS else "low",
                f"The provider took {format_duration(slowest.duration_ms)} for one answer",
                f"{slow.count} of {counted(self._calls, 'answer')} {'was' if slow.count == 1 else 'were'} slow, "
                f"{format_duration(slow.waited)} in total; the slowest took "
                f"{format_duration(slowest.duration_ms)}{until_first}.",
                slow.citations.cited(),
                slow.count,
                first.event_id,
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
        step = CausalStep(line, f"A request took {took}", None)
        return [_draft("low", title, explanation, [line], 1, line, step, Scope())]


def _is_slow(call: ModelCall) -> bool:
    if (call.first_byte_ms or 0) >= MIN_FIRST_BYTE_MS:
        return True
    return call.duration_ms >= MIN_SLOW_MS and _written(call) * 1000 < MIN_TOKENS_PER_SECOND * call.duration_ms


def _written(call: ModelCall) -> int:
    """Return the number of tokens that the model wrote; zero if no usage was recorded."""
    return (call.tokens or 0) - (call.input_tokens or 0)


def _draft(
    severity: Severity,
    title: str,
    explanation: str,
    evidence: list[str],
    occurrences: int,
    first: str,
    slowest: CausalStep,
    scope: Scope,
) -> Draft:
    return Draft(
        type=TYPE,
        about=("slow",),
        severity=severity,
        confidence=85,
        title=title,
        explanation=f"{explanation} Nothing failed, but the user had to wait.",
        evidence=evidence,
        occurrences=occurrences,
        first_bad_step=first,
        chain=[slowest],
        scope=scope,
        recommendation="Send the same request to another model or provider and compare; for a local model, check the "
        "machine it runs on. Set a shorter timeout and a fallback model for this provider.",
        verification=f"Run the same task again: the first byte arrives within {format_duration(MIN_FIRST_BYTE_MS)}, "
        f"and answers within {format_duration(MIN_SLOW_MS)} unless they are long.",
    )
