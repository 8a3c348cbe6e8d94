"""The causal graph: what led to what, as far as findings need it."""

from __future__ import annotations

from critiqor.model import CausalGraph, Finding, GraphEdge, GraphNode, Relation

MOST_FINDINGS = 30
"""Findings that are drawn: a picture of more explains nothing."""
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
"""Which kind of failure brings about which, where both happened to the same events or in one agent run; no circles."""
_EXHAUSTED = frozenset(("cost_explosion", "timeout"))


def causal_graph(findings: list[Finding]) -> CausalGraph:
    """The chains of the findings, and the findings that brought about others."""
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str], GraphEdge] = {}

    def join(source: str, target: str, relation: Relation) -> None:
        if source != target:
            edges.setdefault((source, target), GraphEdge(source, target, relation))

    drawn = findings[:MOST_FINDINGS]
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
            if effect.type in LEADS_TO.get(cause.type, ()) and _belong(cause, effect):
                join(cause.id, effect.id, "exhausted" if effect.type in _EXHAUSTED else "caused")
    return CausalGraph(list(nodes.values()), list(edges.values()))


def _belong(cause: Finding, effect: Finding) -> bool:
    alone = cause.scope.agent_run_id is None or effect.scope.agent_run_id is None
    return alone or cause.scope == effect.scope or bool(set(cause.evidence) & set(effect.evidence))


def causes_behind(graph: CausalGraph, finding_id: str) -> set[str]:
    """The findings that brought this one about, directly or through others."""
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
    """How many findings lie behind each finding: 0 for one that no other brought about."""
    findings = [node.id for node in graph.nodes if node.kind == "finding"]
    behind = dict.fromkeys(findings, 0)
    between = [(edge.source, edge.target) for edge in graph.edges if edge.source in behind and edge.target in behind]
    # As often as the longest way can be: there are no circles, and at most a few dozen findings.
    for _ in findings:
        for source, target in between:
            behind[target] = max(behind[target], min(behind[source] + 1, len(findings)))
    return behind
