"""Causal chain of a finding as a tree: its steps in order, with the event of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text
from rich.tree import Tree

from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, styled, untrusted
from critiqor.model import CausalStep, Finding
from critiqor.run.explanation import ExplainedStep


def chain_tree(finding: Finding) -> Tree:
    """Return the steps in short form."""
    tree = Tree(Text("how it happened", FAINT), guide_style=FAINT)
    for step in finding.causal_chain:
        tree.add(_happened(step))
    return tree


def explained_tree(finding: Finding, chain: Iterable[ExplainedStep]) -> Tree:
    """Return the steps with their events."""
    tree = Tree(untrusted(finding.title, SEVERITIES[finding.severity]), guide_style=FAINT)
    for step in chain:
        add_step(tree, step)
    return tree


def evidence_tree(title: str, steps: Sequence[ExplainedStep], left_out: int) -> Tree:
    """Return further events under a title."""
    tree = Tree(Text(title), guide_style=FAINT)
    for step in steps:
        add_step(tree, step)
    if left_out:
        tree.add(Text(f"and {left_out} more: --json has them all", FAINT))
    return tree


def add_step(tree: Tree, step: ExplainedStep) -> None:
    """Add one step with the facts of its event."""
    facts = list(_facts(step))
    branch = tree.add(_happened(step) if step.happened else facts.pop(0))
    for fact in facts:
        branch.add(fact)


def _happened(step: CausalStep | ExplainedStep) -> Text:
    joint = styled(f"{step.relation} → ", "italic") if step.relation else Text()
    return joint.append_text(untrusted(step.happened))


def _facts(step: ExplainedStep) -> Iterable[Text]:
    event = step.event
    if step.line is not None:
        fields = ", ".join(f"{name} {value}" for name, value in step.line.items())
        yield untrusted(f"{step.event_id}  {fields}", FAINT)
    elif event is None:
        yield untrusted(f"{step.event_id}: not in the evidence", FAINT)
    else:
        name = f"{event.event_type} {event.tool_name or ''}".strip()
        where = untrusted(f"{event.timestamp} {event.event_id} {name} ", FAINT)
        yield where.append(" ").append_text(untrusted(event.status, "red" if event.status == "error" else "green"))
        yield from map(untrusted, step.shown)
