"""Trees of spans, built from the parents that spans name, or from their times if they name none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.timeline import SpanNode
from critiqor.timeline.spans import ClosedSpan, covered

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
        nodes[index] = build_node(span, [nodes[child] for child in children.get(index, ())], by_time=by_time)
    return build_node(root, [nodes[child] for child in children[ROOT]])


def build_node(span: ClosedSpan, children: Sequence[SpanNode], *, by_time: bool = False) -> SpanNode:
    """Build a node with these children, at most MAX_CHILDREN of them."""
    longest = sorted(children, key=lambda child: child.duration_ms, reverse=True)[:MAX_CHILDREN]
    inside = covered(
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
