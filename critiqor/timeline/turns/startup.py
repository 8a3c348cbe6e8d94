"""Start-up of processes: the chain of spans that delayed readiness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.timeline import SpanNode, Startup
from critiqor.timeline.process_state import ProcessState
from critiqor.timeline.reader.records import Line, detail_of
from critiqor.timeline.span_tree import build_tree, prune_tree
from critiqor.timeline.spans import ClosedSpan, closed_span

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


def critical_path(node: SpanNode) -> SpanNode:
    """Return the tree with only those children, on every level, that delayed the end of their parent."""
    chain = [critical_path(child) for child in _chain(node.children, node.start_ms + node.duration_ms)]
    waited = sum(child.duration_ms for child in chain)
    own = max(0.0, round(node.duration_ms - waited, 3))
    return msgspec.structs.replace(node, children=chain, self_ms=own, more=0)


def _chain(children: Sequence[SpanNode], end: float) -> list[SpanNode]:
    """Find the chain backwards: the span that ended last, then the last one that ended before it began, and so on."""
    chain: list[SpanNode] = []
    left = sorted(children, key=lambda child: (child.start_ms + child.duration_ms, child.duration_ms))
    moment = end
    while left:
        child = left.pop()
        over = child.start_ms + child.duration_ms - moment
        # A small overlap is rounding of timestamps; a larger one means that the span ran in parallel.
        if over <= max(2.0, child.duration_ms / 100):
            chain.append(child)
            moment = child.start_ms
    return chain[::-1]
