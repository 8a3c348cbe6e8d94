"""`slow_startup`: a process took very long to become ready."""

from __future__ import annotations

from collections.abc import Iterator

from critiqor.diagnosis.detector import TimelineDetector
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import format_duration
from critiqor.model.timeline import SpanNode, Startup, line_id

TYPE = "slow_startup"
MEANING = "a process took very long to become ready"
MIN_SLOW_MS = 60_000
"""Minimum duration of a start-up that is reported; a small machine needs a third of that."""


class SlowStartup(TimelineDetector[Startup]):
    """Keeps the start-ups in OpenClaw's timeline that took too long."""

    def __init__(self) -> None:
        self._slow: list[Startup] = []

    def observe(self, span: Startup, /) -> None:
        if span.path.duration_ms >= MIN_SLOW_MS:
            self._slow.append(span)

    def findings(self) -> list[Draft]:
        return [_draft(startup) for startup in self._slow]


def _draft(startup: Startup) -> Draft:
    took = startup.path.duration_ms
    longest = max(_descendants(startup.path), key=lambda node: node.self_ms, default=startup.path)
    name = f"`{longest.name}`" + (f" ({longest.detail})" if longest.detail else "")
    process = {"gateway": "gateway", "agent": "agent process"}.get(startup.role, "process")
    share = min(1.0, longest.self_ms / took)
    return Draft(
        type=TYPE,
        about=(startup.role, longest.name),
        severity="low",
        confidence=90,
        title=f"The {process} took {format_duration(took)} to start",
        explanation=f"The longest part of the critical path was {name}: "
        f"{format_duration(longest.self_ms)} ({share:.0%})."
        + ("" if startup.ready else " The process never reported that it was ready."),
        evidence=[line_id(startup.line)],
        first_bad_step=line_id(startup.line),
        chain=[CausalStep(line_id(startup.line), "The longest part of the start-up ended", None)],
        recommendation=f"See {name} in `critiqor timeline`. Disable plugins that you do not need, and cache files "
        "that are copied or scanned at every start.",
        verification=f"Start it again: it is ready in less than {format_duration(MIN_SLOW_MS)}.",
    )


def _descendants(node: SpanNode) -> Iterator[SpanNode]:
    for child in node.children:
        yield child
        yield from _descendants(child)
