"""`latency_stall`: the event loop was blocked, and everything in its process with it."""

from __future__ import annotations

from critiqor.diagnosis.detector import TimelineDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, ms_from_iso
from critiqor.model.formatting import counted, format_duration
from critiqor.model.timeline import Stall, TimelineSummary, line_id

TYPE = "latency_stall"
MEANING = "the event loop was blocked, which stops everything in its process"
MIN_STALL_MS = 2_000
"""Minimum delay of a reported stall: users perceive it as a hang."""
MIN_STARTUP_STALL_MS = 10_000
"""Minimum delay of a reported stall while a process starts, when no user is waiting for it yet."""
MIN_TOTAL_FOR_MEDIUM_MS = 10_000
"""Minimum total delay for severity medium."""
_UNKNOWN = "unidentified code"
"""Text for an unknown cause in `Finding.cause`. It must not change, because causes are compared across runs."""


class LatencyStall(TimelineDetector[Stall]):
    """Groups the stalls in OpenClaw's timeline by what blocked the event loop."""

    def __init__(self, timing: TimelineSummary) -> None:
        self._startups = timing.startups
        self._causes: dict[str, list[Stall]] = {}

    def observe(self, span: Stall, /) -> None:
        if span.delay_ms >= (MIN_STARTUP_STALL_MS if self._is_startup(span) else MIN_STALL_MS):
            cause = span.cause or " or ".join(span.suspects) or _UNKNOWN
            self._causes.setdefault(cause, []).append(span)

    def _is_startup(self, stall: Stall) -> bool:
        """Return whether the process was still starting. A delay is reported in the first sample after it."""
        at = ms_from_iso(stall.at) or 0
        ends = [each.path.start_ms + each.path.duration_ms for each in self._startups if each.pid == stall.pid]
        return any(at - stall.delay_ms <= end for end in ends)

    def findings(self) -> list[Draft]:
        return [_draft(cause, stalls) for cause, stalls in self._causes.items()]


def _draft(cause: str, stalls: list[Stall]) -> Draft:
    longest = max(stalls, key=lambda stall: stall.delay_ms)
    total = sum(stall.delay_ms for stall in stalls)
    known = longest.cause is not None
    blocker = "an unknown cause" if cause == _UNKNOWN else cause
    suspect = f"`{cause}` ran all that time." if known else "No recorded span ran for that long."
    return Draft(
        type=TYPE,
        about=(cause,),
        severity="medium" if total >= MIN_TOTAL_FOR_MEDIUM_MS else "low",
        confidence=85 if known else 60,
        title=f"The event loop was blocked for {format_duration(longest.delay_ms)} by {blocker}",
        explanation=f"{counted(len(stalls), 'stall')}, {format_duration(total)} in total. Meanwhile the process could "
        f"not accept messages, answer requests or stream output. {suspect}",
        evidence=cite_events(line_id(stall.line) for stall in stalls),
        occurrences=len(stalls),
        first_bad_step=line_id(min(stall.line for stall in stalls)),
        chain=[CausalStep(line_id(longest.line), f"A delay of {format_duration(longest.delay_ms)} was measured", None)],
        recommendation=f"Find the blocking work in {blocker}: reading a large file synchronously, or a plugin with "
        "a long computation. Record with `critiqor monitor openclaw --deep-profile` to see the functions.",
        verification="Run the same task again: `critiqor timeline` shows no delay of "
        f"{format_duration(MIN_STALL_MS)} or more.",
    )
