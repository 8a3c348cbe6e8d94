"""Layered layout of a directed graph: each node in a layer after its causes, with few crossings and straight edges.

Positions are abstract: a layer number, and a coordinate across the layers. The caller decides which of them is
horizontal. The same graph gives the same layout.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Edge = tuple[int, int]
"""Numbers of the source and of the target."""

SWEEPS = 8
"""Number of times that nodes are moved towards their neighbours, in each direction."""
BOX_GAP, WAY_GAP = 24, 13
"""Distances in pixels: between two nodes of a layer, and between an edge that passes a layer and what is beside it."""


class Layout(NamedTuple):
    """Positions of nodes and edges."""

    layers: list[int]
    """The layer of each node."""
    centers: list[float]
    """The center of each node, across the layers, in pixels from 0."""
    ways: list[list[float]]
    """Of each edge, from its source to its target: where it passes the layers between them."""
    size: float
    """Extent across the layers in pixels."""


class _Item(NamedTuple):
    """Something that takes space in a layer."""

    layer: int
    size: float
    """0 if it is not a node but an edge that passes the layer."""
    rank: int
    """Initial order within the layer."""


class _Grid(NamedTuple):
    """Items by layer, and which of them are connected."""

    items: list[_Item]
    rows: list[list[int]]
    """Items of each layer, in order."""
    above: list[list[int]]
    """Of each item, the connected items of the layer before."""
    below: list[list[int]]


def lay_out(sizes: Sequence[float], edges: Sequence[Edge], capacity: int) -> Layout:
    """Lay out a graph; `sizes` are those of the nodes across the layers, and a layer holds up to `capacity` nodes."""
    layers, ranks = _assign_layers(len(sizes), edges, capacity)
    items = [_Item(layer, size, rank) for layer, size, rank in zip(layers, sizes, ranks, strict=True)]
    chains = _add_ways(items, edges)
    grid = _connect(items, chains)
    _order(grid)
    places = _straighten(grid)
    left = min((place - item.size / 2 for place, item in zip(places, items, strict=True)), default=0.0)
    centers = [place - left for place in places]
    right = max((center + item.size / 2 for center, item in zip(centers, items, strict=True)), default=0.0)
    return Layout(layers, centers[: len(sizes)], [[centers[one] for one in chain[1:-1]] for chain in chains], right)


def _assign_layers(count: int, edges: Sequence[Edge], capacity: int) -> tuple[list[int], list[int]]:
    """Return the layer of each node, and the number of its path.

    Nodes are taken in paths, which stay in consecutive layers: a chain of causes is drawn as a straight line.
    """
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    layers, ranks, used = [-1] * count, [0] * count, Counter[int]()
    waiting = dict.fromkeys(range(count))
    number = 0
    while waiting:
        path = [_next_start(waiting, before)]
        del waiting[path[0]]
        while follower := [one for one in after[path[-1]] if one in waiting and waiting.keys().isdisjoint(before[one])]:
            path.append(follower[0])
            del waiting[follower[0]]
        known = [layers[one] + 1 - step for step, node in enumerate(path) for one in before[node] if layers[one] >= 0]
        first = max([0, *known])
        # Effects are placed before a cause only in cycles; they must not share its layer.
        while any(
            used[first + step] >= capacity or any(layers[one] == first + step for one in after[node])
            for step, node in enumerate(path)
        ):
            first += 1
        for step, node in enumerate(path):
            layers[node], ranks[node] = first + step, number
            used[first + step] += 1
        number += 1
    return layers, ranks


def _next_start(waiting: dict[int, None], before: list[list[int]]) -> int:
    """Return a node whose causes are all placed; if there is none, a node of a cycle."""
    for node in waiting:
        if waiting.keys().isdisjoint(before[node]):
            return node
    node, seen = next(iter(waiting)), set[int]()
    while node not in seen:
        seen.add(node)
        node = next(one for one in before[node] if one in waiting)
    return node


def _add_ways(items: list[_Item], edges: Sequence[Edge]) -> list[list[int]]:
    """Add an item for each layer that an edge passes, and return the items of each edge from its source to its target.

    Edges to the same target share their way, so that many effects of many causes stay readable.
    """
    ways: dict[tuple[int, int, int], int] = {}
    chains = []
    for number, (source, target) in enumerate(edges):
        start, end = items[source].layer, items[target].layer
        step = 1 if end >= start else -1
        chain = [source]
        for layer in range(start + step, end, step):
            # A back edge has a way of its own: it is rare, and must not be mistaken for a forward edge.
            key = (target, layer, -1 if step > 0 else number)
            if key not in ways:
                ways[key] = len(items)
                items.append(_Item(layer, 0, items[target].rank))
            chain.append(ways[key])
        chains.append([*chain, target])
    return chains


def _connect(items: list[_Item], chains: list[list[int]]) -> _Grid:
    rows: list[list[int]] = [[] for _ in range(max((item.layer for item in items), default=-1) + 1)]
    for number, item in enumerate(items):
        rows[item.layer].append(number)
    for row in rows:
        row.sort(key=lambda number: items[number].rank)
    grid = _Grid(items, rows, [[] for _ in items], [[] for _ in items])
    for upper, lower in dict.fromkeys(
        (one, other) if items[one].layer < items[other].layer else (other, one)
        for chain in chains
        for one, other in pairwise(chain)
        if items[one].layer != items[other].layer
    ):
        grid.below[upper].append(lower)
        grid.above[lower].append(upper)
    return grid


def _order(grid: _Grid) -> None:
    """Sort each layer by the mean position of the connected items, and keep the order with the fewest crossings."""
    best, fewest = [list(row) for row in grid.rows], _crossings(grid)
    for sweep in range(2 * SWEEPS):
        if not fewest:
            break
        is_down = sweep % 2 == 0
        place = _places(grid)
        for row in grid.rows if is_down else reversed(grid.rows):
            beside = grid.above if is_down else grid.below
            row.sort(key=lambda number: _mean([place[one] for one in beside[number]], place[number]))
            place |= {number: position for position, number in enumerate(row)}
        crossings = _crossings(grid)
        if crossings < fewest:
            best, fewest = [list(row) for row in grid.rows], crossings
    grid.rows[:] = best


def _places(grid: _Grid) -> dict[int, int]:
    return {number: position for row in grid.rows for position, number in enumerate(row)}


def _crossings(grid: _Grid) -> int:
    """Count the crossings of edges between neighbouring layers: inversions of their ends."""
    place = _places(grid)
    crossings = 0
    for row in grid.rows:
        ends: list[int] = []
        for number in row:
            new = sorted(place[one] for one in grid.below[number])
            crossings += sum(len(ends) - bisect_right(ends, end) for end in new)
            for end in new:
                insort(ends, end)
    return crossings


def _straighten(grid: _Grid) -> list[float]:
    """Return the position of each item: as near to its neighbours as the order and the distances allow."""
    offsets = [_offsets(grid, row) for row in grid.rows]
    width = max((row[-1] for row in offsets if row), default=0.0)
    places = [0.0] * len(grid.items)
    for row, distances in zip(grid.rows, offsets, strict=True):
        indent = (width - distances[-1]) / 2 if row else 0.0
        for number, distance in zip(row, distances, strict=True):
            places[number] = indent + distance
    rows = list(zip(grid.rows, offsets, strict=True))
    for sweep in range(2 * SWEEPS):
        is_down = sweep % 2 == 0
        # The last sweeps look at both sides, or the layout would lean to one of them.
        is_last = sweep >= 2 * SWEEPS - 2
        for row, distances in rows if is_down else reversed(rows):
            if not row:
                continue
            wanted = []
            for number, distance in zip(row, distances, strict=True):
                sides = grid.above[number] if is_down else grid.below[number]
                sides = grid.above[number] + grid.below[number] if is_last else sides
                wanted.append(_mean([places[one] for one in sides], places[number]) - distance)
            weights = [4.0 if grid.items[number].size == 0 else 1.0 for number in row]
            fitted = _isotonic(wanted, weights)
            for number, distance, place in zip(row, distances, fitted, strict=True):
                places[number] = min(max(place, 0.0), width - distances[-1]) + distance
    return places


def _offsets(grid: _Grid, row: list[int]) -> list[float]:
    """Return the least distance of each item of a layer from the first one."""
    offsets = [0.0] if row else []
    for one, other in pairwise(row):
        left, right = grid.items[one].size, grid.items[other].size
        offsets.append(offsets[-1] + (left + right) / 2 + (BOX_GAP if left and right else WAY_GAP))
    return offsets


def _isotonic(wanted: list[float], weights: list[float]) -> list[float]:
    """Return the nearest numbers that do not decrease (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted, weights, strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, mass, count = blocks.pop()
            total = mass + block[1]
            block = ((mean * mass + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    return [mean for mean, _, count in blocks for _ in range(count)]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
