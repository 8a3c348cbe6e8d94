"""Start-up of processes: the chain of spans that delayed readiness."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.model.timeline import Startup
from critiqor.timeline.process_state import ProcessState
from critiqor.timeline.reader.records import Line
from critiqor.timeline.span_tree import build_tree, critical_path, prune_tree
from critiqor.timeline.spans import ClosedSpan, closed_span, detail_of

MAX_STARTUPS = 5
SMALLEST_SHARE = 0.005
"""Share of the whole start-up; shorter spans are left out."""
READY = "gateway.ready"
FIRST_TURN_STAGE = "session-state"
"""The stage with which the preparation of a turn begins."""


def is_startup(record: Line, *, is_working: bool) -> bool:
    """Return whether a line belongs to the start-up of its process.

    Spans that prepare a turn have the same name. In a process that has not worked yet they belong to its start-up,
    until the stage that looks for a session.
    """
    if record.name == "agent.startup":
        return not is_working and detail_of(record) != FIRST_TURN_STAGE
    phase = record.phase
    return not record.name.startswith("agent.") and (phase is None or phase.endswith("startup"))


def build_startups(processes: Iterable[ProcessState]) -> list[Startup]:
    """Return the start-ups of the processes, gateways first, then the slowest."""
    startups = [startup for process in processes if (startup := _build_startup(process)) is not None]
    startups.sort(key=lambda startup: (startup.role != "gateway", -startup.path.duration_ms, startup.pid or 0))
    return startups[:MAX_STARTUPS]


def _build_startup(process: ProcessState) -> Startup | None:
    spans = [closed_span(record) for record in process.startup]
    moment = process.ready_at or process.working_since
    end = moment.timestamp() * 1000 if moment else max((span.end for span in spans), default=0.0)
    # Spans that ended after that moment did not delay it.
    finished = [span for span in spans if span.end <= end + 1]
    begin = min([process.born.timestamp() * 1000, *(span.start for span in finished)])
    if not finished or end <= begin:
        return None
    root = ClosedSpan("startup", None, "", None, begin, end, False)
    path = critical_path(build_tree(root, finished))
    path = prune_tree(path, SMALLEST_SHARE * path.duration_ms)
    ready = process.ready_at is not None
    return Startup(pid=process.pid, role=process.role, ready=ready, line=process.longest_startup_line, path=path)
