"""`slow_provider`: answers of the model came, but very slowly."""

from __future__ import annotations

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.timeline import TimelineSummary, line_id, spent
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "slow_provider"
FIRST_BYTE_MS = 30_000
"""Until the first word; models that reason silently take half of that."""
LONG_MS = 60_000
"""A whole answer, unless it is a long one."""
TOKENS_A_SECOND = 10
"""A long answer comes faster than that."""
GRAVE_MS = 300_000
"""Waiting, all together, from where on it is what the run was about."""


def detect(run: AgentRun) -> list[Draft]:
    """The slow model calls of one agent run; those that failed are told by `provider_failure`."""
    slow = [call for call in run.model_calls if not call.failed and _is_slow(call)]
    if not slow:
        return []
    waited = sum(call.duration_ms for call in slow)
    slowest = max(slow, key=lambda call: call.duration_ms)
    first = f", {spent(slowest.first_byte_ms)} of it until the first byte" if slowest.first_byte_ms else ""
    chain = [CausalStep(slowest.event_id, f"an answer that took {spent(slowest.duration_ms)}", None)]
    return [
        _draft(
            "medium" if waited >= GRAVE_MS else "low",
            f"The provider took {spent(slowest.duration_ms)} for one answer",
            f"{counted(len(slow), 'slow answer')} of {len(run.model_calls)}, {spent(waited)} together; the slowest one "
            f"took {spent(slowest.duration_ms)}{first}.",
            [call.event_id for call in slow],
            chain,
            run,
        )
    ]


def detect_in_timing(timing: TimelineSummary, found: list[Draft]) -> list[Draft]:
    """A slow request that only the timeline shows: one of no agent, or of an agent whose recorder saw less of it."""
    slowest = timing.providers.slowest
    told = any(draft.type == TYPE for draft in found)
    if slowest is None or told or timing.profiled or slowest.ok is False or slowest.duration_ms < LONG_MS:
        return []
    what = " ".join(filter(None, (slowest.provider, slowest.operation, slowest.model))) or "an unnamed provider"
    line = line_id(slowest.line)
    chain = [CausalStep(line, f"a request that took {spent(slowest.duration_ms)}", None)]
    title = f"A request to {what} took {spent(slowest.duration_ms)}"
    return [_draft("low", title, "It was told in OpenClaw's timeline alone.", [line], chain)]


def _is_slow(call: ModelCall) -> bool:
    if (call.first_byte_ms or 0) >= FIRST_BYTE_MS:
        return True
    written = (call.tokens or 0) - (call.input_tokens or 0)
    return call.duration_ms >= LONG_MS and written * 1000 < TOKENS_A_SECOND * call.duration_ms


def _draft(
    severity: Severity,
    title: str,
    explanation: str,
    evidence: list[str],
    chain: list[CausalStep],
    run: AgentRun | None = None,
) -> Draft:
    draft = Draft(
        type=TYPE,
        about=("slow",),
        severity=severity,
        confidence=85,
        title=title,
        explanation=f"{explanation} Nothing failed, but somebody waited.",
        evidence=cite(evidence),
        occurrences=len(evidence),
        first_bad_step=evidence[0],
        chain=chain,
        recommendation="Ask the same of a second model or provider and compare; for a local model, look at the machine "
        "that it runs on. Give the provider a shorter timeout and a model to fall back to.",
        verification=f"Run the same task again: the first byte within {spent(FIRST_BYTE_MS)}, answers within "
        f"{spent(LONG_MS)} unless they are long.",
    )
    if run is not None:
        draft.scope = run.scope
    return draft
