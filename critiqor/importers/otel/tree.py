"""The tree of the spans of one trace, even if spans are missing, repeated or inconsistent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.importers.event_writer import MAIN
from critiqor.importers.notes import ImportNotes
from critiqor.importers.otel.records import Span


class Node(msgspec.Struct):
    """A span and its place in the tree; the fields from `kind` on are set while the tree is walked."""

    span: Span
    children: list[Node]
    parent: Node | None = None
    start: int = 0
    """Nanoseconds since 1970; for a span without a time, the earliest possible start."""
    kind: str = ""
    agent: str = MAIN
    """The agent run that it belongs to."""
    session: str | None = None
    """The session that it belongs to; None if neither it nor a span around it names one."""
    is_in_model: bool = False
    """Whether it is part of a model call."""
    has_failed_child: bool = False
    exit_code: int | None = None
    """Exit code of a command that it ran."""
    inner_usage: dict[str, Any] | None = None
    """Usage stated by a part of this model call."""


def build_tree(spans: list[Span], notes: ImportNotes, first: int) -> list[Node]:
    """Return the roots in order. A span without its parent is a root; `first` is the start of spans without a time."""
    nodes = _link(spans, notes)
    reached: set[int] = set()
    roots = [node for node in nodes if node.parent is None]
    for root in roots:
        reached |= _set_starts(root, first)
    for node in nodes:
        if id(node) not in reached:
            # The remaining spans form cycles; each is opened at its first span.
            notes.add("spans that are their own ancestors", node.span.name[:40])
            if node.parent is not None:
                node.parent.children = [child for child in node.parent.children if child is not node]
            node.parent = None
            roots.append(node)
            reached |= _set_starts(node, first)
    return sorted(roots, key=_start)


def walk(root: Node) -> Iterator[tuple[Node, bool]]:
    """Yield every node of a tree on the way down and again, with True, on the way up. Trees can be deep."""
    waiting = [(root, False)]
    while waiting:
        node, is_exit = waiting.pop()
        yield node, is_exit
        if not is_exit:
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(node.children)]


def _link(spans: list[Span], notes: ImportNotes) -> list[Node]:
    nodes: list[Node] = []
    by_id: dict[str, Node] = {}
    for span in spans:
        twin = by_id.get(span.span_id or "")
        if twin is not None:
            notes.add("spans that occur twice", span.name[:40])
            if twin.span == span:
                continue
        node = Node(span, [])
        nodes.append(node)
        if span.span_id is not None:
            by_id.setdefault(span.span_id, node)
    for node in nodes:
        node.parent = by_id.get(node.span.parent_id or "")
        if node.parent is not None:
            node.parent.children.append(node)
        elif node.span.parent_id is not None:
            notes.add("spans whose parent is missing", node.span.name[:40])
    return nodes


def _set_starts(root: Node, first: int) -> set[int]:
    """Set the start of every node of a tree, sort siblings, and return the identities of the nodes."""
    reached: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.add(id(node))
        time = node.span.start if node.span.start is not None else node.span.end
        node.start = time if time is not None else node.parent.start if node.parent else first
        waiting += node.children
    for node, is_exit in walk(root):
        if is_exit:
            node.children.sort(key=_start)
    return reached


def _start(node: Node) -> int:
    return node.start
