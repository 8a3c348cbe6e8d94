"""The spans of one trace as the tree that they are, whatever is missing, doubled or out of place in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.importers.ledger import MAIN
from critiqor.importers.span_records import Span
from critiqor.importers.trace import Notes


class Node(msgspec.Struct):
    """A span and its place in the tree; what is below is filled in by whoever walks it."""

    span: Span
    children: list[Node]
    parent: Node | None = None
    start: int = 0
    """Nanoseconds since 1970; where the span does not tell, the earliest that it can have begun."""
    kind: str = ""
    agent: str = MAIN
    """The agent run that it belongs to."""
    is_in_model: bool = False
    """Whether it is a part of a model call."""
    has_failed_child: bool = False
    exit_code: int | None = None
    """How a command ended that it ran."""
    inner_usage: dict[str, Any] | None = None
    """What a part of this model call said of its usage."""


def tree_of(spans: list[Span], notes: Notes, first: int) -> list[Node]:
    """The roots, in order. A span whose parent is not there is one; `first` is where those begin that tell no time."""
    nodes = _linked(spans, notes)
    reached: set[int] = set()
    roots = [node for node in nodes if node.parent is None]
    for root in roots:
        reached |= _placed(root, first)
    for node in nodes:
        if id(node) not in reached:
            # All that is left belongs to circles; each is opened at its first span.
            notes.add("spans that are their own ancestors", node.span.name[:40])
            if node.parent is not None:
                node.parent.children = [child for child in node.parent.children if child is not node]
            node.parent = None
            roots.append(node)
            reached |= _placed(node, first)
    return sorted(roots, key=_start)


def walk(root: Node) -> Iterator[tuple[Node, bool]]:
    """Every node twice: on the way down, and on the way up, then with True. A stack, because traces can be deep."""
    waiting = [(root, False)]
    while waiting:
        node, is_over = waiting.pop()
        yield node, is_over
        if not is_over:
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(node.children)]


def _linked(spans: list[Span], notes: Notes) -> list[Node]:
    nodes: list[Node] = []
    by_id: dict[str, Node] = {}
    for span in spans:
        twin = by_id.get(span.span_id or "")
        if twin is not None:
            notes.add("spans that were there twice", span.name[:40])
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


def _placed(root: Node, first: int) -> set[int]:
    """Give every node of a tree its start, put siblings in order, and tell which nodes these are."""
    reached: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.add(id(node))
        told = node.span.start if node.span.start is not None else node.span.end
        node.start = told if told is not None else node.parent.start if node.parent else first
        waiting += node.children
    for node, is_over in walk(root):
        if is_over:
            node.children.sort(key=_start)
    return reached


def _start(node: Node) -> int:
    return node.start
