"""Trees of spans: built from the parents that spans name, or from their times if they name none, and reduced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.timeline import SpanNode
from critiqor.timeline.durations import covered_ms
from critiqor.timeline.reader.records import Line
from critiqor.timeline.spans import ClosedSpan

MAX_CHILDREN = 40
"""Children of one node that are kept, the longest ones."""
MAX_DEPTH = 32
"""Levels of a tree; deeper spans become siblings of their parents."""
ROOT = -1
SLACK_MS = 1.0
"""Timestamps are whole milliseconds, durations are not: a span that ends later than another by less than this still
counts as inside it."""


def build_tree(root: ClosedSpan, spans: Iterable[ClosedSpan]) -> SpanNode:
    """Build the tree of these spans below a root."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    parents = _parents(ordered)
    children = _arrange(parents)
    keys = {span.key for span in ordered}
    nodes: dict[int, SpanNode] = {}
    # Bottom up: a node is built from its children.
    for index in [child for parent in reversed(children) for child in reversed(children[parent])]:
        span = ordered[index]
        by_time = parents[index] != ROOT and span.parent not in keys
        nodes[index] = _build_node(span, [nodes[child] for child in children.get(index, ())], by_time=by_time)
    return _build_node(root, [nodes[child] for child in children[ROOT]])


def _build_node(span: ClosedSpan, children: Sequence[SpanNode], *, by_time: bool = False) -> SpanNode:
    """Build a node with these children, at most MAX_CHILDREN of them."""
    longest = sorted(children, key=lambda child: child.duration_ms, reverse=True)[:MAX_CHILDREN]
    inside = covered_ms(
        (max(child.start_ms, span.start), min(child.start_ms + child.duration_ms, span.end)) for child in children
    )
    return SpanNode(
        name=span.name,
        detail=span.detail,
        kind=span.kind,
        start_ms=round(span.start, 3),
        duration_ms=round(span.duration, 3),
        self_ms=round(max(0.0, span.duration - inside), 3),
        failed=span.failed,
        by_time=by_time,
        children=sorted(longest, key=lambda child: (child.start_ms, -child.duration_ms)),
        more=len(children) - len(longest),
    )


def flatten_tree(node: SpanNode, parent: str | None = None, place: str = "0") -> list[ClosedSpan]:
    """Return the spans of a tree without its root, so that a larger tree can be built from them."""
    spans = []
    for number, child in enumerate(node.children):
        key = f"{place}.{number}"
        end = child.start_ms + child.duration_ms
        named = None if child.by_time else parent
        spans.append(ClosedSpan(child.name, child.detail, key, named, child.start_ms, end, child.failed, child.kind))
        spans += flatten_tree(child, key, key)
    return spans


def prune_tree(node: SpanNode, shortest_ms: float) -> SpanNode:
    """Return the tree without spans shorter than `shortest_ms`."""
    kept = [prune_tree(child, shortest_ms) for child in node.children if child.duration_ms >= shortest_ms]
    return msgspec.structs.replace(node, children=kept, more=node.more + len(node.children) - len(kept))


def descendants(key: str, records: Sequence[Line], limit: int) -> list[Line]:
    """Return the spans at any level below a span; `records` are sorted by end, so parents come after children."""
    family = {key}
    found: list[Line] = []
    for record in reversed(records):
        if record.parent_span_id in family and len(found) < limit:
            family.add(record.span_id or record.name)
            found.append(record)
    return found


def critical_path(node: SpanNode) -> SpanNode:
    """Return the tree with only those spans, on every level, that delayed the end of their parent."""
    chain = [critical_path(child) for child in _chain(node.children, node.start_ms + node.duration_ms)]
    waited = sum(child.duration_ms for child in chain)
    own = max(0.0, round(node.duration_ms - waited, 3))
    return msgspec.structs.replace(node, children=chain, self_ms=own, more=0)


def _parents(ordered: Sequence[ClosedSpan]) -> list[int]:
    """Return, for each span, the index of the span that contains it; ROOT if none does."""
    index_of = {span.key: index for index, span in enumerate(ordered)}
    parents = []
    around: list[int] = []
    for index, span in enumerate(ordered):
        around = [other for other in around if ordered[other].end >= span.start]
        named = index_of.get(span.parent) if span.parent is not None else None
        if named is None or named == index:
            inside_of = (other for other in reversed(around) if span.end <= ordered[other].end + SLACK_MS)
            named = next(inside_of, ROOT)
        parents.append(named)
        around.append(index)
    return parents


def _arrange(parents: Sequence[int]) -> dict[int, list[int]]:
    """Return the children of each span, parents first and at most MAX_DEPTH deep. Cycles are attached to the root."""
    inside: dict[int, list[int]] = {}
    for index, parent in enumerate(parents):
        inside.setdefault(parent, []).append(index)
    children: dict[int, list[int]] = {ROOT: []}
    holders = {ROOT: ROOT}
    depths = {ROOT: 0}
    for start in (ROOT, *range(len(parents))):
        if start not in depths:
            children[ROOT].append(start)
            holders[start], depths[start] = ROOT, 1
        elif start != ROOT:
            continue
        waiting = [start]
        for index in waiting:
            holder = index if depths[index] < MAX_DEPTH else holders[index]
            for child in inside.get(index, ()):
                if child not in depths:
                    children.setdefault(holder, []).append(child)
                    holders[child], depths[child] = holder, depths[holder] + 1
                    waiting.append(child)
    return children


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
