"""`slow_startup`: a process needed very long before it could do anything."""

from __future__ import annotations

from collections.abc import Iterator

from critiqor.diagnosis.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.timeline import SpanNode, Startup, TimelineSummary, line_id, spent

TYPE = "slow_startup"
SLOW_MS = 60_000
"""A small machine needs a third of that."""


def detect(timing: TimelineSummary) -> list[Draft]:
    """Start-ups that took too long, by role and by the step that took the most; a profiled run is not judged."""
    if timing.profiled:
        return []
    return [_draft(startup) for startup in timing.startups if startup.path.duration_ms >= SLOW_MS]


def _draft(startup: Startup) -> Draft:
    took = startup.path.duration_ms
    step = max(_steps(startup.path), key=lambda step: step.self_ms, default=startup.path)
    name = f"`{step.name}`" + (f" ({step.detail})" if step.detail else "")
    who = {"gateway": "gateway", "agent": "agent's process"}.get(startup.role, "process")
    share = min(1.0, step.self_ms / took)
    return Draft(
        type=TYPE,
        about=(startup.role, step.name),
        severity="low",
        confidence=90,
        title=f"The {who} needed {spent(took)} to come up",
        explanation=f"The longest step that everything waited for was {name}, {spent(step.self_ms)} of it ({share:.0%})"
        + ("." if startup.ready else "; that it was ready, it never said."),
        evidence=[line_id(startup.line)],
        first_bad_step=line_id(startup.line),
        chain=[CausalStep(line_id(startup.line), "the longest step of the start-up ended", None)],
        recommendation=f"Look at {name} in `critiqor timeline`: plugins that are not needed can be turned off, and "
        "what is staged or scanned at every start can be kept.",
        verification=f"Start it again: it is ready in less than {spent(SLOW_MS)}.",
    )


def _steps(node: SpanNode) -> Iterator[SpanNode]:
    """Everything below, on any level."""
    for child in node.children:
        yield child
        yield from _steps(child)
