"""Spans as trees: by the parents that they name, and by their times where they name none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.timeline import SpanNode
from critiqor.timeline.spans import ClosedSpan, covered

MOST_CHILDREN = 40
"""Children of one node that are kept, the longest ones."""
DEEPEST = 32
"""Levels of a tree; what is deeper stands beside its parents."""
ROOT = -1
SLACK_MS = 1.0
"""Timestamps are whole milliseconds, durations are not: what sticks out by less is inside."""


def grow(root: ClosedSpan, spans: Iterable[ClosedSpan]) -> SpanNode:
    """The tree of these spans under a root that stands for all of them."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    parents = _parents(ordered)
    children = _arranged(parents)
    keys = {span.key for span in ordered}
    nodes: dict[int, SpanNode] = {}
    # From the bottom to the top: a node is made of its children.
    for index in [child for parent in reversed(children) for child in reversed(children[parent])]:
        span = ordered[index]
        by_time = parents[index] != ROOT and span.parent not in keys
        nodes[index] = node_of(span, [nodes[child] for child in children.get(index, ())], by_time=by_time)
    return node_of(root, [nodes[child] for child in children[ROOT]])


def node_of(span: ClosedSpan, children: Sequence[SpanNode], *, by_time: bool = False) -> SpanNode:
    """A node with these children, as many as fit."""
    longest = sorted(children, key=lambda child: child.duration_ms, reverse=True)[:MOST_CHILDREN]
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


def flatten(node: SpanNode, parent: str | None = None, place: str = "0") -> list[ClosedSpan]:
    """The spans of a tree, without its root, so that others can be added to it."""
    spans = []
    for number, child in enumerate(node.children):
        key = f"{place}.{number}"
        end = child.start_ms + child.duration_ms
        named = None if child.by_time else parent
        spans.append(ClosedSpan(child.name, child.detail, key, named, child.start_ms, end, child.failed, child.kind))
        spans += flatten(child, key, key)
    return spans


def pruned(node: SpanNode, shortest_ms: float) -> SpanNode:
    """The tree without what took less time than that."""
    kept = [pruned(child, shortest_ms) for child in node.children if child.duration_ms >= shortest_ms]
    return msgspec.structs.replace(node, children=kept, more=node.more + len(node.children) - len(kept))


def _parents(ordered: Sequence[ClosedSpan]) -> list[int]:
    """For each span the index of the one that it is inside of; -1 for the root."""
    index_of = {span.key: index for index, span in enumerate(ordered)}
    parents = []
    around: list[int] = []
    for index, span in enumerate(ordered):
        around = [other for other in around if ordered[other].end >= span.start]
        named = index_of.get(span.parent) if span.parent is not None else None
        if named is None or named == index:
            inside_of = (other for other in reversed(around) if span.end <= ordered[other].end + SLACK_MS)
            named = next(inside_of, -1)
        parents.append(named)
        around.append(index)
    return parents


def _arranged(parents: Sequence[int]) -> dict[int, list[int]]:
    """The children of each span, parents first, none too deep. Spans that are each other's parents go to the root."""
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
            holder = index if depths[index] < DEEPEST else holders[index]
            for child in inside.get(index, ()):
                if child not in depths:
                    children.setdefault(holder, []).append(child)
                    holders[child], depths[child] = holder, depths[holder] + 1
                    waiting.append(child)
    return children
