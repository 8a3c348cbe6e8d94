"""The causal graph: which events led to a finding, and which findings led to others."""

from __future__ import annotations

from collections.abc import Callable, Collection

from critiqor.model import CausalGraph, Finding, GraphEdge, GraphNode, Relation, Scope

MAX_FINDINGS = 30
"""Maximum number of findings in the graph; a larger graph is unreadable."""
LEADS_TO = {
    "tool_misuse": {"repeated_tool_failure", "unresolved_tool_error"},
    "skill_failure": {"repeated_tool_failure", "false_success_claim"},
    "repeated_tool_failure": {"cost_explosion", "no_progress", "false_success_claim", "timeout"},
    "tool_loop": {"cost_explosion", "context_pollution", "timeout"},
    "memory_failure": {"ignored_tool_output", "tool_loop", "cost_explosion"},
    "provider_failure": {"retry_storm", "process_failure", "subagent_failure"},
    "context_pollution": {"compaction_loss", "cost_explosion"},
    "compaction_loss": {"repeated_side_effect"},
    "stuck_session": {"process_failure"},
    "subagent_failure": {"false_success_claim"},
}
"""Failure types that each failure type can cause, in related findings (see `_are_related`). Has no cycles."""
_EXHAUSTED = frozenset(("cost_explosion", "timeout"))
"""Failure types that mean that a limit was reached."""


AgentRuns = Callable[[Finding], Collection[Scope]]
"""Returns the agent runs in which a finding occurred."""


def _run_of(finding: Finding) -> Collection[Scope]:
    return (Scope(finding.session_key, finding.agent_run_id),)


def causal_graph(findings: list[Finding], runs_of: AgentRuns = _run_of) -> CausalGraph:
    """Build the graph from the causal chains of findings, and connect findings that caused others.

    `runs_of` returns all agent runs of a finding; without it, only that of its worst occurrence is known.
    """
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str], GraphEdge] = {}

    def join(source: str, target: str, relation: Relation) -> None:
        if source != target:
            edges.setdefault((source, target), GraphEdge(source, target, relation))

    drawn = findings[:MAX_FINDINGS]
    for finding in drawn:
        nodes[finding.id] = GraphNode(finding.id, "finding", finding.title)
        previous = None
        for step in finding.causal_chain:
            nodes.setdefault(step.event_id, GraphNode(step.event_id, "event", step.happened))
            if previous is not None:
                join(previous, step.event_id, step.relation or "precedes")
            previous = step.event_id
        if previous is not None:
            join(previous, finding.id, "caused")
    for cause in drawn:
        for effect in drawn:
            if effect.type in LEADS_TO.get(cause.type, ()) and _are_related(cause, effect, runs_of):
                join(cause.id, effect.id, "exhausted" if effect.type in _EXHAUSTED else "caused")
    return CausalGraph(list(nodes.values()), list(edges.values()))


def _are_related(cause: Finding, effect: Finding, runs_of: AgentRuns) -> bool:
    """Return whether findings share an agent run or an event; a finding about the recording is related to all."""
    if cause.is_of_recording or effect.is_of_recording or not set(runs_of(cause)).isdisjoint(runs_of(effect)):
        return True
    return not set(cause.evidence).isdisjoint(effect.evidence)


def causes_behind(graph: CausalGraph, finding_id: str) -> set[str]:
    """Return the ids of the findings that directly or indirectly caused this one."""
    findings = {node.id for node in graph.nodes if node.kind == "finding"}
    found: set[str] = set()
    waiting = [finding_id]
    while waiting:
        effect = waiting.pop()
        causes = {edge.source for edge in graph.edges if edge.target == effect and edge.source in findings} - found
        found |= causes
        waiting += causes
    return found - {finding_id}


def depths(graph: CausalGraph) -> dict[str, int]:
    """Return the depth of each finding in the causal graph of a diagnosis; 0 if no other finding caused it."""
    findings = [node.id for node in graph.nodes if node.kind == "finding"]
    depth = dict.fromkeys(findings, 0)
    between = [(edge.source, edge.target) for edge in graph.edges if edge.source in depth and edge.target in depth]
    # There are no cycles, so the longest path has fewer edges than there are findings: at most `MAX_FINDINGS`.
    for _ in findings:
        for source, target in between:
            depth[target] = max(depth[target], min(depth[source] + 1, len(findings)))
    return depth
