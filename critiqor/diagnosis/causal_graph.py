"""The causal graph: which events led to a finding, and which findings led to others."""

from __future__ import annotations

from critiqor.model import CausalGraph, Finding, GraphEdge, GraphNode, Relation

MAX_FINDINGS = 30
"""Findings in the graph: a larger one is unreadable."""
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
"""Which type of failure causes which, where both concern the same events or the same agent run. Has no cycles."""
_EXHAUSTED = frozenset(("cost_explosion", "timeout"))


def causal_graph(findings: list[Finding]) -> CausalGraph:
    """Build the graph from the causal chains of findings, and connect findings that caused others."""
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
            if effect.type in LEADS_TO.get(cause.type, ()) and _are_related(cause, effect):
                join(cause.id, effect.id, "exhausted" if effect.type in _EXHAUSTED else "caused")
    return CausalGraph(list(nodes.values()), list(edges.values()))


def _are_related(cause: Finding, effect: Finding) -> bool:
    is_global = cause.scope.agent_run_id is None or effect.scope.agent_run_id is None
    return is_global or cause.scope == effect.scope or bool(set(cause.evidence) & set(effect.evidence))


def causes_behind(graph: CausalGraph, finding_id: str) -> set[str]:
    """Return the ids of the findings that caused this one, directly or through others."""
    findings = {node.id for node in graph.nodes if node.kind == "finding"}
    behind: set[str] = set()
    waiting = [finding_id]
    while waiting:
        effect = waiting.pop()
        causes = {edge.source for edge in graph.edges if edge.target == effect and edge.source in findings} - behind
        behind |= causes
        waiting += causes
    return behind - {finding_id}


def depths(graph: CausalGraph) -> dict[str, int]:
    """Return the length of the longest chain of findings behind each finding: 0 for one that no other caused."""
    findings = [node.id for node in graph.nodes if node.kind == "finding"]
    behind = dict.fromkeys(findings, 0)
    between = [(edge.source, edge.target) for edge in graph.edges if edge.source in behind and edge.target in behind]
    # As often as the longest path can be: there are no cycles, and at most a few dozen findings.
    for _ in findings:
        for source, target in between:
            behind[target] = max(behind[target], min(behind[source] + 1, len(findings)))
    return behind
