"""`latency_stall`: an event loop stood still, and everything in its process with it."""

from __future__ import annotations

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, ms_from_iso
from critiqor.model.formatting import counted
from critiqor.model.timeline import Stall, TimelineSummary, line_id, spent

TYPE = "latency_stall"
STALL_MS = 2_000
"""Delay that users take for a hang."""
STARTING_MS = 10_000
"""The same while a process comes up, when nobody talks to it yet."""
GRAVE_MS = 10_000
"""All of them together, from where on it is no longer a detail."""


def detect(timing: TimelineSummary) -> list[Draft]:
    """Stalls of one process, by what held it up; a profiler holds everything up, so a profiled run is not judged."""
    if timing.profiled:
        return []
    causes: dict[str, list[Stall]] = {}
    for stall in timing.stalls:
        if stall.delay_ms >= (STARTING_MS if _while_starting(stall, timing) else STALL_MS):
            causes.setdefault(_held_by(stall), []).append(stall)
    return [_draft(cause, stalls) for cause, stalls in causes.items()]


def _while_starting(stall: Stall, timing: TimelineSummary) -> bool:
    """Whether it belongs to how its process came up; the delay is told with the first sample after it."""
    at = ms_from_iso(stall.at) or 0
    ends = [each.path.start_ms + each.path.duration_ms for each in timing.startups if each.pid == stall.pid]
    return any(at - stall.delay_ms <= end for end in ends)


def _held_by(stall: Stall) -> str:
    return stall.cause or " or ".join(stall.suspects) or "something that is not told"


def _draft(cause: str, stalls: list[Stall]) -> Draft:
    longest = max(stalls, key=lambda stall: stall.delay_ms)
    total = sum(stall.delay_ms for stall in stalls)
    held = "nothing that was told went on for as long" if longest.cause is None else f"`{cause}` went on all the time"
    return Draft(
        type=TYPE,
        about=(cause,),
        severity="medium" if total >= GRAVE_MS else "low",
        confidence=85 if longest.cause is not None else 60,
        title=f"The event loop stood still for {spent(longest.delay_ms)}, held by {cause}",
        explanation=f"{counted(len(stalls), 'stall')}, {spent(total)} together. Meanwhile the process answered nobody, "
        f"took no message and streamed no word; {held}.",
        evidence=cite(line_id(stall.line) for stall in stalls),
        occurrences=len(stalls),
        first_bad_step=line_id(min(stall.line for stall in stalls)),
        chain=[CausalStep(line_id(longest.line), f"a delay of {spent(longest.delay_ms)} was measured", None)],
        recommendation=f"Look at what {cause} does without giving way: large files read at once, plugins that "
        "compute. `--deep-profile` names the functions.",
        verification=f"Run the same task again: no delay of {spent(STALL_MS)} or more in `critiqor timeline`.",
    )
