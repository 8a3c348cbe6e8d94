"""What of a causal graph is drawn, whoever draws it: a script on the page, or the picture in a file."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.model import Diagnosis, GraphEdge, GraphNode

MOST_NODES = 150


class DrawnGraph(NamedTuple):
    """The part of a graph that can be looked at."""

    nodes: list[GraphNode]
    """Each once."""
    edges: list[GraphEdge]
    """Between them, from one to another."""
    severities: dict[str, str]
    """Of findings, by their ids."""
    left_out: int
    """Nodes that are not drawn."""


def drawn_graph(diagnosis: Diagnosis) -> DrawnGraph | None:
    """The causal graph of a diagnosis; None where there is nothing to draw."""
    known = {node.id: node for node in diagnosis.causal_graph.nodes}
    nodes = {name: known[name] for name in list(known)[:MOST_NODES]}
    if not nodes:
        return None
    return DrawnGraph(
        nodes=list(nodes.values()),
        edges=[
            edge
            for edge in diagnosis.causal_graph.edges
            if edge.source in nodes and edge.target in nodes and edge.source != edge.target
        ],
        severities={finding.id: finding.severity for finding in diagnosis.failure_analysis.findings},
        left_out=len(known) - len(nodes),
    )
