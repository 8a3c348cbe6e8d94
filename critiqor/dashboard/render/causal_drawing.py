"""The causal graph of a diagnosis as a drawing: boxes from top to bottom, causes above their effects."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from critiqor.model import Diagnosis, GraphEdge, GraphNode
from critiqor.model.sanitize import sanitize_for_page

MAX_NODES = 150
MAX_COLUMNS = 5
"""Maximum number of boxes side by side; a wider drawing cannot be read on paper."""
BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN = 204, 78, 22, 40, 10
"""Sizes in pixels."""
MAX_LABEL_LINES, LINE_CHARACTERS = 4, 30
"""Maximum number of lines of a label, and of characters of a line."""
MAX_LABEL = 400
"""Maximum length in characters of the full label, which is shown as a tooltip."""


class VisibleGraph(NamedTuple):
    """The part of a causal graph that is drawn, on the page and in the offline report."""

    nodes: list[GraphNode]
    """Without duplicates."""
    edges: list[GraphEdge]
    """Between two different nodes."""
    severities: dict[str, str]
    """Severity of each finding, by its id."""
    left_out: int
    """Number of nodes that are not drawn."""


class Box(NamedTuple):
    """A node with its position."""

    x: int
    y: int
    lines: list[str]
    """The label, wrapped."""
    label: str
    css: str
    target: str
    """Id of the finding or of the event."""
    is_finding: bool


class Arrow(NamedTuple):
    """An edge with its path and the position of its label."""

    path: str
    x: float
    y: float
    relation: str


class CausalDrawing(NamedTuple):
    """The drawing of a causal graph; sizes in pixels."""

    boxes: list[Box]
    arrows: list[Arrow]
    width: int
    height: int
    left_out: int
    """Number of nodes that are not drawn."""


class _Cell(NamedTuple):
    column: float
    row: int


def visible_graph(diagnosis: Diagnosis) -> VisibleGraph | None:
    """Select the part of the causal graph to draw; None if it is empty."""
    known = {node.id: node for node in diagnosis.causal_graph.nodes}
    nodes = {name: known[name] for name in list(known)[:MAX_NODES]}
    if not nodes:
        return None
    return VisibleGraph(
        nodes=list(nodes.values()),
        edges=[
            edge
            for edge in diagnosis.causal_graph.edges
            if edge.source in nodes and edge.target in nodes and edge.source != edge.target
        ],
        severities={finding.id: finding.severity for finding in diagnosis.failure_analysis.findings},
        left_out=len(known) - len(nodes),
    )


def draw_causal_graph(diagnosis: Diagnosis) -> CausalDrawing | None:
    """Lay out the causal graph of a diagnosis; None if it is empty."""
    graph = visible_graph(diagnosis)
    if graph is None:
        return None
    cells = _place_nodes([node.id for node in graph.nodes], graph.edges)
    corners = {
        name: (
            round(MARGIN + cell.column * (BOX_WIDTH + COLUMN_GAP)),
            MARGIN + cell.row * (BOX_HEIGHT + ROW_GAP),
        )
        for name, cell in cells.items()
    }
    return CausalDrawing(
        boxes=[_box(node, corners[node.id], graph.severities.get(node.id, "")) for node in graph.nodes],
        arrows=[_arrow(edge, corners) for edge in graph.edges],
        width=max(x for x, _ in corners.values()) + BOX_WIDTH + MARGIN,
        height=max(y for _, y in corners.values()) + BOX_HEIGHT + MARGIN,
        left_out=graph.left_out,
    )


def _box(node: GraphNode, corner: tuple[int, int], severity: str) -> Box:
    is_finding = node.kind == "finding"
    label = sanitize_for_page(node.label)[:MAX_LABEL]
    lines = textwrap.wrap(label, LINE_CHARACTERS, max_lines=MAX_LABEL_LINES, placeholder="…") or [node.kind]
    css = f"box {severity}".strip() if is_finding else "box"
    return Box(*corner, lines, label, css, node.id, is_finding)


def _arrow(edge: GraphEdge, corners: dict[str, tuple[int, int]]) -> Arrow:
    (from_x, from_y), (to_x, to_y) = corners[edge.source], corners[edge.target]
    start_x, end_x = from_x + BOX_WIDTH / 2, to_x + BOX_WIDTH / 2
    if to_y > from_y:
        start_y, end_y, bend = from_y + BOX_HEIGHT, to_y, ROW_GAP / 2
        path = f"M{start_x:g} {start_y}C{start_x:g} {start_y + bend:g} {end_x:g} {end_y - bend:g} {end_x:g} {end_y}"
        return Arrow(path, (start_x + end_x) / 2, (start_y + end_y) / 2 + 3, edge.relation)
    # An edge to a box above or in the same row is routed below both boxes.
    low = max(from_y, to_y) + BOX_HEIGHT
    under = low + ROW_GAP * 0.8
    path = f"M{start_x:g} {from_y + BOX_HEIGHT}C{start_x:g} {under:g} {end_x:g} {under:g} {end_x:g} {to_y + BOX_HEIGHT}"
    return Arrow(path, (start_x + end_x) / 2, low + ROW_GAP * 0.6, edge.relation)


def _place_nodes(names: list[str], edges: list[GraphEdge]) -> dict[str, _Cell]:
    """Lay out each connected component, and put components side by side as long as they fit."""
    cells: dict[str, _Cell] = {}
    column = top = bottom = 0
    for component in _components(names, edges):
        rows = _rows(component, edges)
        width = max(map(len, rows))
        if column and column + width > MAX_COLUMNS:
            column, top = 0, bottom
        for number, row in enumerate(rows):
            indent = column + (width - len(row)) / 2
            cells |= {name: _Cell(indent + place, top + number) for place, name in enumerate(row)}
        column, bottom = column + width, max(bottom, top + len(rows))
    return cells


def _components(names: list[str], edges: list[GraphEdge]) -> list[list[str]]:
    """Return the connected components, in the order of their first nodes (union-find)."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for edge in edges:
        parent[root(edge.target)] = root(edge.source)
    components: dict[str, list[str]] = {}
    for name in names:
        components.setdefault(root(name), []).append(name)
    return list(components.values())


def _rows(names: list[str], edges: list[GraphEdge]) -> list[list[str]]:
    """Arrange nodes in rows: each below all its causes, and near them within its row."""
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
        center = {name: sum(place[one] for one in above[name]) / len(above[name]) for name in layer if above[name]}
        layer.sort(key=lambda name: center.get(name, 0.0))
        place |= {name: number - len(layer) / 2 for number, name in enumerate(layer)}
        rows += [layer[start : start + MAX_COLUMNS] for start in range(0, len(layer), MAX_COLUMNS)]
    return rows


def _depths(names: list[str], edges: list[GraphEdge]) -> dict[str, int]:
    """Return the length of the longest path to each node; a cycle is cut at its first node."""
    after: dict[str, list[str]] = {name: [] for name in names}
    pending = dict.fromkeys(names, 0)
    for edge in edges:
        if edge.source in after:
            after[edge.source].append(edge.target)
            pending[edge.target] += 1
    depth: dict[str, int] = dict.fromkeys(names, 0)
    waiting = dict.fromkeys(names)
    while waiting:
        name = next((one for one in waiting if pending[one] <= 0), next(iter(waiting)))
        del waiting[name]
        for target in after[name]:
            pending[target] -= 1
            if target in waiting:
                depth[target] = max(depth[target], depth[name] + 1)
    return depth
