"""The causal graph of a diagnosis as a drawing: boxes and arrows, causes before their effects."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from critiqor.dashboard.render.graph_layout import Layout, lay_out
from critiqor.dashboard.render.text_width import text_width, wrap
from critiqor.model import Diagnosis, GraphEdge, GraphNode
from critiqor.model.sanitize import sanitize_for_page

MAX_NODES = 300
MAX_COLUMNS = 5
"""Maximum number of boxes side by side: what fits on a page and, made smaller, on paper."""
MAX_LAYERS_ACROSS, MAX_ROWS_ACROSS = 4, 6
"""Maximum size of a drawing from left to right, in boxes; a larger graph is drawn only from top to bottom."""
BOX_WIDTH, PADDING, LINE_HEIGHT, MARGIN = 210, 12, 16, 12
DOWN_GAP, ACROSS_GAP = 46, 104
"""Distances between layers in pixels, with space for the label of an arrow."""
PORT_GAP, HEAD = 14, 5
"""Maximum distance between arrows at a box, and half the width of an arrow head, in pixels."""
MAX_LABEL_LINES = 4
MAX_LABEL = 200
"""Maximum length in characters of the full label."""


class CausalBox(NamedTuple):
    """A node with its position; sizes in pixels."""

    x: float
    y: float
    width: float
    height: float
    lines: list[str]
    """The label, wrapped."""
    label: str
    css: str
    href: str | None

    def line_y(self, number: int) -> float:
        """Return the baseline of a line of the label of a cause or effect: it is centered in the box."""
        return self.y + self.height / 2 + (number - (len(self.lines) - 1) / 2) * LINE_HEIGHT + 4


class Arrow(NamedTuple):
    """An edge with its path and the position of its label."""

    path: str
    source: int
    """Number of a box."""
    target: int
    relation: str
    label: tuple[float, float] | None
    """None if the label would cover another one."""


class CausalDrawing(NamedTuple):
    """The drawing of a causal graph; sizes in pixels."""

    boxes: list[CausalBox]
    arrows: list[Arrow]
    width: int
    height: int


class CausalPicture(NamedTuple):
    """A causal graph in the drawings that suit different screens; they differ only in their layout."""

    down: CausalDrawing
    """From top to bottom."""
    across: CausalDrawing | None
    """From left to right, for wide screens; None if the graph is too large for it."""
    left_out: int
    """Number of nodes that are not drawn."""


class _Node(NamedTuple):
    lines: list[str]
    label: str
    css: str
    href: str | None

    @property
    def height(self) -> int:
        return 2 * PADDING + LINE_HEIGHT * len(self.lines)


class _Span(NamedTuple):
    """Where a layer starts and ends, in the direction of the arrows."""

    start: float
    end: float


class _Point(NamedTuple):
    along: float
    across: float


def draw_causal_graph(diagnosis: Diagnosis, address: Callable[[GraphNode], str | None]) -> CausalPicture | None:
    """Draw the causal graph of a diagnosis, with an address for each node; None if the graph is empty."""
    known = {node.id: node for node in diagnosis.causal_graph.nodes}
    shown = list(known)[:MAX_NODES]
    if not shown:
        return None
    numbers = {name: number for number, name in enumerate(shown)}
    edges = [
        edge
        for edge in diagnosis.causal_graph.edges
        if edge.source in numbers and edge.target in numbers and edge.source != edge.target
    ]
    severities = {finding.id: finding.severity for finding in diagnosis.failure_analysis.findings}
    nodes = [_node(known[name], severities.get(name, ""), address(known[name])) for name in shown]
    ends = [(numbers[edge.source], numbers[edge.target]) for edge in edges]
    down = lay_out([BOX_WIDTH] * len(nodes), ends, MAX_COLUMNS)
    is_small = len(nodes) <= MAX_LAYERS_ACROSS * MAX_ROWS_ACROSS
    across = lay_out([node.height for node in nodes], ends, MAX_ROWS_ACROSS) if is_small else None
    if across is not None and max(across.layers) >= MAX_LAYERS_ACROSS:
        across = None
    return CausalPicture(
        _draw(nodes, edges, ends, down, is_down=True),
        _draw(nodes, edges, ends, across, is_down=False) if across is not None else None,
        len(known) - len(nodes),
    )


def _node(node: GraphNode, severity: str, href: str | None) -> _Node:
    is_finding = node.kind == "finding"
    # A drawing has one font, so that backticks mean nothing in it.
    label = sanitize_for_page(node.label[:MAX_LABEL]).replace("`", "").strip() or node.kind
    room = (BOX_WIDTH - 2 * PADDING) / (1.1 if is_finding else 1)
    return _Node(
        wrap(label, room, MAX_LABEL_LINES), label, f"box is-finding {severity}".strip() if is_finding else "box", href
    )


def _draw(
    nodes: list[_Node], edges: list[GraphEdge], ends: list[tuple[int, int]], layout: Layout, *, is_down: bool
) -> CausalDrawing:
    spans = _spans(nodes, layout, is_down=is_down)
    boxes = [_box(node, number, layout, spans, is_down=is_down) for number, node in enumerate(nodes)]
    routes = _routes(boxes, ends, layout, spans, is_down=is_down)
    labels = _Labels(is_down=is_down)
    arrows = [
        Arrow(_path(route, is_down=is_down), *pair, edge.relation, labels.place(route, edge.relation))
        for edge, pair, route in zip(edges, ends, routes, strict=True)
    ]
    along, across = round(spans[-1].end + MARGIN), round(layout.size + 2 * MARGIN)
    return CausalDrawing(boxes, arrows, *((across, along) if is_down else (along, across)))


def _spans(nodes: list[_Node], layout: Layout, *, is_down: bool) -> list[_Span]:
    depths = [0.0] * (max(layout.layers) + 1)
    for node, layer in zip(nodes, layout.layers, strict=True):
        depths[layer] = max(depths[layer], node.height if is_down else BOX_WIDTH)
    spans, start = [], float(MARGIN)
    for depth in depths:
        spans.append(_Span(start, start + depth))
        start += depth + (DOWN_GAP if is_down else ACROSS_GAP)
    return spans


def _box(node: _Node, number: int, layout: Layout, spans: list[_Span], *, is_down: bool) -> CausalBox:
    span, center = spans[layout.layers[number]], layout.centers[number] + MARGIN
    text = (node.lines, node.label, node.css, node.href)
    if is_down:
        return CausalBox(round(center - BOX_WIDTH / 2, 1), span.start, BOX_WIDTH, span.end - span.start, *text)
    return CausalBox(span.start, round(center - node.height / 2, 1), BOX_WIDTH, node.height, *text)


def _routes(
    boxes: list[CausalBox], ends: list[tuple[int, int]], layout: Layout, spans: list[_Span], *, is_down: bool
) -> list[list[_Point]]:
    """Return the points of each arrow: where it leaves and enters boxes and layers."""
    ways = [[place + MARGIN for place in way] for way in layout.ways]
    centers = [center + MARGIN for center in layout.centers]
    # Arrows of one side of a box are spread in the order of where they come from; those that share a way share a port.
    sides: dict[tuple[int, bool], set[float]] = {}
    uses = []
    for (source, target), way in zip(ends, ways, strict=True):
        is_forward = layout.layers[target] > layout.layers[source]
        leaving, entering = (way[0], way[-1]) if way else (centers[target], centers[source])
        use = ((source, is_forward), leaving), ((target, not is_forward), entering)
        for side, place in use:
            sides.setdefault(side, set()).add(place)
        uses.append(use)
    ports = {
        (side, place): centers[side[0]] + offset
        for side, places in sides.items()
        for place, offset in _ports(sorted(places), boxes[side[0]].width if is_down else boxes[side[0]].height)
    }
    routes = []
    for (source, target), way, (leaves, enters) in zip(ends, ways, uses, strict=True):
        first, last = layout.layers[source], layout.layers[target]
        step = 1 if last > first else -1
        points = [_Point(spans[first].end if step > 0 else spans[first].start, ports[leaves])]
        for layer, place in zip(range(first + step, last, step), way, strict=True):
            near, far = spans[layer] if step > 0 else reversed(spans[layer])
            points += [_Point(near, place), _Point(far, place)]
        routes.append([*points, _Point(spans[last].start if step > 0 else spans[last].end, ports[enters])])
    return routes


def _ports(places: list[float], size: float) -> list[tuple[float, float]]:
    """Return the distance of each arrow from the middle of the side of a box."""
    gap = min(PORT_GAP, (size - 24) / max(1, len(places) - 1))
    return [(place, (number - (len(places) - 1) / 2) * gap) for number, place in enumerate(places)]


def _path(route: list[_Point], *, is_down: bool) -> str:
    """Return the path of an arrow: curves between layers, straight lines through them, and an open head."""
    start, end = route[0], route[-1]
    pieces = [f"M{_xy(start, is_down=is_down)}"]
    for number, (one, other) in enumerate(pairwise(route)):
        if number % 2:
            pieces.append(f"L{_xy(other, is_down=is_down)}")
        else:
            middle = (one.along + other.along) / 2
            bends = (_Point(middle, one.across), _Point(middle, other.across), other)
            pieces.append("C" + " ".join(_xy(point, is_down=is_down) for point in bends))
    back = -1.4 * HEAD if end.along > start.along else 1.4 * HEAD
    head = [_Point(end.along + back, end.across - HEAD), end, _Point(end.along + back, end.across + HEAD)]
    return "".join(pieces) + "M" + "L".join(_xy(point, is_down=is_down) for point in head)


def _xy(point: _Point, *, is_down: bool) -> str:
    x, y = (point.across, point.along) if is_down else (point.along, point.across)
    return f"{round(x, 1):g} {round(y, 1):g}"


class _Labels:
    """Places the labels of arrows, each where it covers no other."""

    def __init__(self, *, is_down: bool) -> None:
        self._is_down = is_down
        self._taken: dict[float, list[tuple[float, float, float]]] = {}
        """By the layer that an arrow leaves: center and half the width of each label."""

    def place(self, route: list[_Point], text: str) -> tuple[float, float] | None:
        # The first part of an arrow is its own, while later ones may be shared.
        start, end = route[0], route[1]
        half = text_width(text) / 2
        beside = self._taken.setdefault(start.along, [])
        for part in (0.5, 0.35, 0.65) if self._is_down else (0.5,):
            # A point of the cubic curve of `_path`.
            bend = part * part * (3 - 2 * part)
            along = start.along + (end.along - start.along) * (1.5 * part * (1 - part) + part**3)
            across = start.across + (end.across - start.across) * bend
            x, y = (across, along) if self._is_down else (along, across)
            if all(abs(x - left) > half + other or abs(y - top) > 12 for left, top, other in beside):
                beside.append((x, y, half))
                return round(x, 1), round(y + 4, 1)
        return None
