"""How a process came up: the chain of steps that its readiness waited for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.timeline import SpanNode, Startup
from critiqor.timeline.reader.records import Line, detail_of
from critiqor.timeline.spans import ClosedSpan, closed_span
from critiqor.timeline.trees import grow, pruned
from critiqor.timeline.turns.processes import Process

MOST_STARTUPS = 5
SMALLEST_SHARE = 0.005
"""Of the whole start-up; shorter steps are left out."""
READY = "gateway.ready"


FIRST_STEP = "session-state"
"""The stage with which the preparation of a turn begins."""


def is_startup(record: Line, *, working: bool) -> bool:
    """Whether a line tells of starting up. The steps that prepare a turn are called so as well.

    Those of a process that has not worked yet are part of its start-up, until a session is looked for.
    """
    if record.name == "agent.startup":
        return not working and detail_of(record) != FIRST_STEP
    phase = record.phase
    return not record.name.startswith("agent.") and (phase is None or phase.endswith("startup"))


def startups_of(processes: Iterable[Process]) -> list[Startup]:
    """How the processes came up: gateways first, then the slowest."""
    told = [startup for process in processes if (startup := _startup_of(process)) is not None]
    told.sort(key=lambda startup: (startup.role != "gateway", -startup.path.duration_ms, startup.pid or 0))
    return told[:MOST_STARTUPS]


def _startup_of(process: Process) -> Startup | None:
    spans = [closed_span(record) for record in process.startup]
    moment = process.ready or process.working
    end = moment.timestamp() * 1000 if moment else max((span.end for span in spans), default=0.0)
    # What went on beyond that moment was not waited for.
    steps = [span for span in spans if span.end <= end + 1]
    begin = min([process.born.timestamp() * 1000, *(span.start for span in steps)])
    if not steps or end <= begin:
        return None
    root = ClosedSpan("startup", None, "", None, begin, end, False)
    path = critical_path(grow(root, steps))
    path = pruned(path, SMALLEST_SHARE * path.duration_ms)
    ready = process.ready is not None
    return Startup(pid=process.pid, role=process.role, ready=ready, line=process.longest_line, path=path)


def critical_path(node: SpanNode) -> SpanNode:
    """The tree with only those children, on every level, that the end of their parent waited for."""
    chain = [critical_path(child) for child in _chain(node.children, node.start_ms + node.duration_ms)]
    waited = sum(child.duration_ms for child in chain)
    own = max(0.0, round(node.duration_ms - waited, 3))
    return msgspec.structs.replace(node, children=chain, self_ms=own, more=0)


def _chain(children: Sequence[SpanNode], end: float) -> list[SpanNode]:
    """Backwards from the end: what ended last before it, what ended last before that began, and so on."""
    chain: list[SpanNode] = []
    left = sorted(children, key=lambda child: (child.start_ms + child.duration_ms, child.duration_ms))
    moment = end
    while left:
        child = left.pop()
        over = child.start_ms + child.duration_ms - moment
        # A little overlap is the rounding of timestamps; more means that it went on beside the others.
        if over <= max(2.0, child.duration_ms / 100):
            chain.append(child)
            moment = child.start_ms
    return chain[::-1]
