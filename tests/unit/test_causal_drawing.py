"""The drawing of the causal graph: layers, crossings, labels, limits."""

from __future__ import annotations

from itertools import combinations, pairwise

import msgspec
from diagnosed import diagnosis, finding
from hypothesis import given
from hypothesis import strategies as st
from large import large_diagnosis

from critiqor.dashboard.render.causal_drawing import (
    BOX_WIDTH,
    MAX_COLUMNS,
    MAX_LABEL_LINES,
    MAX_NODES,
    CausalBox,
    CausalDrawing,
    CausalPicture,
    draw_causal_graph,
)
from critiqor.dashboard.render.graph_layout import BOX_GAP, lay_out
from critiqor.dashboard.render.text_width import text_width, wrap
from critiqor.model import CausalGraph, Finding, GraphEdge, GraphNode


def drawn(graph: CausalGraph, *findings: Finding) -> CausalPicture | None:
    concluded = msgspec.structs.replace(diagnosis("run_001", *findings), causal_graph=graph)
    return draw_causal_graph(concluded, lambda node: f"/{node.id}")


def by_address(drawing: CausalDrawing) -> dict[str | None, CausalBox]:
    return {box.href: box for box in drawing.boxes}


def touch(one: CausalBox, other: CausalBox) -> bool:
    return abs(one.x - other.x) < one.width and abs(one.y - other.y) < (one.height + other.height) / 2


def test_causes_are_before_their_effects_and_cycles_are_drawn() -> None:
    nodes = [GraphNode(name, "event", f"label {name}") for name in "abcd"] + [GraphNode("f", "finding", "found")]
    edges = [GraphEdge("a", "b", "caused"), GraphEdge("b", "f", "caused"), GraphEdge("a", "f", "caused")]
    circle = [GraphEdge("c", "d", "caused"), GraphEdge("d", "c", "caused"), GraphEdge("gone", "c", "caused")]
    picture = drawn(CausalGraph(nodes, edges + circle), finding(id="f", severity="high"))
    assert picture is not None and picture.across is not None
    down, across = by_address(picture.down), by_address(picture.across)
    assert down["/a"].y < down["/b"].y < down["/f"].y and across["/a"].x < across["/b"].x < across["/f"].x
    assert down["/c"].y < down["/d"].y
    assert down["/f"].css == "box is-finding high"
    assert len(picture.down.arrows) == len(picture.across.arrows) == 5
    forth, back = picture.down.arrows[3:]
    assert (forth.source, forth.target) == (back.target, back.source) and forth.path != back.path


def test_the_effect_of_a_cycle_is_after_it() -> None:
    nodes = [GraphNode(name, "event", name) for name in "xab"]
    edges = [GraphEdge("a", "b", "caused"), GraphEdge("b", "a", "caused"), GraphEdge("b", "x", "caused")]
    picture = drawn(CausalGraph(nodes, edges))
    assert picture is not None
    boxes = by_address(picture.down)
    assert boxes["/b"].y < boxes["/x"].y


def test_three_hundred_nodes_fit_on_paper_without_overlaps() -> None:
    concluded = large_diagnosis("run_001")
    picture = draw_causal_graph(concluded, lambda node: None)
    assert picture is not None and picture.across is None and picture.left_out == 0
    boxes = picture.down.boxes
    assert len(boxes) == len(concluded.causal_graph.nodes) == 300
    assert not [pair for pair in combinations(boxes, 2) if touch(*pair)]
    assert max(box.x + box.width for box in boxes) <= picture.down.width < MAX_COLUMNS * (BOX_WIDTH + BOX_GAP) + 150
    assert max(box.y + box.height for box in boxes) <= picture.down.height
    assert all(boxes[arrow.source].y < boxes[arrow.target].y for arrow in picture.down.arrows)


def test_nodes_beyond_the_limit_are_counted() -> None:
    nodes = [GraphNode(f"n{number}", "event", "x " * 300) for number in range(MAX_NODES + 10)]
    edges = [GraphEdge("n0", node.id, "caused") for node in nodes[1:60]]
    picture = drawn(CausalGraph(nodes, edges))
    assert picture is not None and picture.left_out == 10
    assert drawn(CausalGraph()) is None


def test_a_chain_of_causes_is_a_straight_line() -> None:
    nodes = [GraphNode(f"n{number}", "event", "x") for number in range(8)]
    picture = drawn(CausalGraph(nodes, [GraphEdge(one.id, other.id, "caused") for one, other in pairwise(nodes)]))
    assert picture is not None and picture.across is None
    assert len({box.x for box in picture.down.boxes}) == 1


def test_crossings_that_can_be_avoided_are_avoided() -> None:
    # In the order of their numbers, each of the three edges crosses the others.
    layout = lay_out([100] * 6, [(0, 5), (1, 4), (2, 3)], capacity=3)
    assert sorted(layout.centers[:3]) == sorted(layout.centers[3:])
    assert [layout.centers[one] for one in (0, 1, 2)] == [layout.centers[one] for one in (5, 4, 3)]
    # Two causes that share their effects in the opposite order.
    ladder = lay_out([100] * 6, [(0, 2), (1, 3), (2, 5), (3, 4)], capacity=2)
    assert (ladder.centers[2] < ladder.centers[3]) == (ladder.centers[5] < ladder.centers[4])


def test_an_arrow_passes_beside_the_boxes_between_its_ends() -> None:
    layout = lay_out([100] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)], capacity=5)
    assert [len(way) for way in layout.ways] == [0, 0, 0, 2]
    assert all(abs(place - layout.centers[node]) > 50 for place, node in zip(layout.ways[3], (1, 2), strict=True))


@given(st.data(), st.integers(1, 25), st.integers(1, 6))
def test_every_graph_has_a_layout_without_overlaps(data: st.DataObject, count: int, capacity: int) -> None:
    node = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(node, node).filter(lambda edge: edge[0] != edge[1]), max_size=60))
    layout = lay_out([100.0] * count, edges, capacity)
    for layer in set(layout.layers):
        centers = sorted(layout.centers[one] for one in range(count) if layout.layers[one] == layer)
        assert len(centers) <= capacity
        assert all(right - left >= 100 + BOX_GAP - 0.01 or right - left >= 100 for left, right in pairwise(centers))
    assert all(layout.layers[source] != layout.layers[target] for source, target in edges)
    assert all(
        len(way) == abs(layout.layers[source] - layout.layers[target]) - 1
        for (source, target), way in zip(edges, layout.ways, strict=True)
    )
    assert min(layout.centers) >= 50 and max(layout.centers) <= layout.size - 50 + 0.01


@given(st.text(max_size=300))
def test_a_label_is_wrapped_to_its_box(text: str) -> None:
    lines = wrap(text, 180, MAX_LABEL_LINES)
    assert len(lines) <= MAX_LABEL_LINES
    assert all(text_width(line.rstrip()) <= 180 for line in lines)
    whole, shown = " ".join(text.split()), "".join(lines)
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))
