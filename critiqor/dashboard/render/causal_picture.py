"""The causal graph as a picture that needs no program: boxes from top to bottom, causes above what came of them."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from critiqor.dashboard.render.drawn_graph import drawn_graph
from critiqor.dashboard.render.formatting import visible
from critiqor.model import Diagnosis, GraphEdge, GraphNode

ACROSS = 5
"""Boxes beside each other; what is wider cannot be read on paper."""
BOX_WIDTH, BOX_HEIGHT, ACROSS_GAP, DOWN_GAP, MARGIN = 204, 78, 22, 40, 10
LINES, SIGNS = 4, 30
"""Of a label: lines, and signs on each."""


class Box(NamedTuple):
    """A node where it is drawn."""

    x: int
    y: int
    lines: list[str]
    label: str
    css: str
    address: str
    """The id of the finding, or that of the event."""
    is_finding: bool


class Arrow(NamedTuple):
    """An edge where it is drawn."""

    path: str
    x: float
    y: float
    relation: str


class Picture(NamedTuple):
    """The whole graph."""

    boxes: list[Box]
    arrows: list[Arrow]
    width: int
    height: int
    left_out: int
    """Nodes that are not drawn."""


class _Cell(NamedTuple):
    column: float
    row: int


def causal_picture(diagnosis: Diagnosis) -> Picture | None:
    """The causal graph of a diagnosis; None where there is nothing to draw."""
    graph = drawn_graph(diagnosis)
    if graph is None:
        return None
    cells = _cells([node.id for node in graph.nodes], graph.edges)
    corners = {
        name: (
            round(MARGIN + cell.column * (BOX_WIDTH + ACROSS_GAP)),
            MARGIN + cell.row * (BOX_HEIGHT + DOWN_GAP),
        )
        for name, cell in cells.items()
    }
    return Picture(
        boxes=[_box(node, corners[node.id], graph.severities.get(node.id, "")) for node in graph.nodes],
        arrows=[_arrow(edge, corners) for edge in graph.edges],
        width=max(x for x, _ in corners.values()) + BOX_WIDTH + MARGIN,
        height=max(y for _, y in corners.values()) + BOX_HEIGHT + MARGIN,
        left_out=graph.left_out,
    )


def _box(node: GraphNode, corner: tuple[int, int], severity: str) -> Box:
    is_finding = node.kind == "finding"
    label = visible(node.label)
    lines = textwrap.wrap(label[:400], SIGNS, max_lines=LINES, placeholder="…") or [node.kind]
    css = f"box {severity}".strip() if is_finding else "box"
    return Box(*corner, lines, label[:400], css, node.id, is_finding)


def _arrow(edge: GraphEdge, corners: dict[str, tuple[int, int]]) -> Arrow:
    (from_x, from_y), (to_x, to_y) = corners[edge.source], corners[edge.target]
    start_x, end_x = from_x + BOX_WIDTH / 2, to_x + BOX_WIDTH / 2
    if to_y > from_y:
        start_y, end_y, bend = from_y + BOX_HEIGHT, to_y, DOWN_GAP / 2
        path = f"M{start_x:g} {start_y}C{start_x:g} {start_y + bend:g} {end_x:g} {end_y - bend:g} {end_x:g} {end_y}"
        return Arrow(path, (start_x + end_x) / 2, (start_y + end_y) / 2 + 3, edge.relation)
    # Back or beside: around below the boxes.
    low = max(from_y, to_y) + BOX_HEIGHT
    under = low + DOWN_GAP * 0.8
    path = f"M{start_x:g} {from_y + BOX_HEIGHT}C{start_x:g} {under:g} {end_x:g} {under:g} {end_x:g} {to_y + BOX_HEIGHT}"
    return Arrow(path, (start_x + end_x) / 2, low + DOWN_GAP * 0.6, edge.relation)


def _cells(names: list[str], edges: list[GraphEdge]) -> dict[str, _Cell]:
    """Where the nodes stand: what hangs together is laid out alone, and that beside each other as far as it fits."""
    cells: dict[str, _Cell] = {}
    column = top = below = 0
    for together in _groups(names, edges):
        rows = _rows(together, edges)
        wide = max(map(len, rows))
        if column and column + wide > ACROSS:
            column, top = 0, below
        for number, row in enumerate(rows):
            indent = column + (wide - len(row)) / 2
            cells |= {name: _Cell(indent + place, top + number) for place, name in enumerate(row)}
        column, below = column + wide, max(below, top + len(rows))
    return cells


def _groups(names: list[str], edges: list[GraphEdge]) -> list[list[str]]:
    """Nodes that hang together, in the order of their first ones."""
    group = {name: name for name in names}

    def first(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    for edge in edges:
        group[first(edge.target)] = first(edge.source)
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(first(name), []).append(name)
    return list(found.values())


def _rows(names: list[str], edges: list[GraphEdge]) -> list[list[str]]:
    """Each node below all that led to it; in a row, near what it came from."""
    depth = _depths(names, edges)
    above: dict[str, list[str]] = {name: [] for name in names}
    for edge in edges:
        if edge.target in above and depth[edge.source] < depth[edge.target]:
            above[edge.target].append(edge.source)
    layers: dict[int, list[str]] = {}
    for name in names:
        layers.setdefault(depth[name], []).append(name)
    place: dict[str, float] = {}
    rows = []
    for level in sorted(layers):
        layer = layers[level]
        wished = {name: sum(place[one] for one in above[name]) / len(above[name]) for name in layer if above[name]}
        layer.sort(key=lambda name: wished.get(name, 0.0))
        place |= {name: number - len(layer) / 2 for number, name in enumerate(layer)}
        rows += [layer[start : start + ACROSS] for start in range(0, len(layer), ACROSS)]
    return rows


def _depths(names: list[str], edges: list[GraphEdge]) -> dict[str, int]:
    """How many steps lead to each node at most; a circle is cut at its first node."""
    after: dict[str, list[str]] = {name: [] for name in names}
    missing = dict.fromkeys(names, 0)
    for edge in edges:
        if edge.source in after:
            after[edge.source].append(edge.target)
            missing[edge.target] += 1
    depth: dict[str, int] = dict.fromkeys(names, 0)
    waiting = dict.fromkeys(names)
    while waiting:
        name = next((one for one in waiting if missing[one] <= 0), next(iter(waiting)))
        del waiting[name]
        for target in after[name]:
            missing[target] -= 1
            if target in waiting:
                depth[target] = max(depth[target], depth[name] + 1)
    return depth
