"""Drawing of `critiqor explain`: a finding, its causal chain event by event, what it cost and what to change.

With `--answer`, the final answers with their claims, underlined by status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from critiqor.cli.terminal.bars import bar
from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, next_command, styled, untrusted
from critiqor.cli.terminal.tables import facts_grid
from critiqor.cli.texts.explain import NO_ANSWER, SHOWN, SHOWN_ANSWERS, claim_line
from critiqor.conversation.checked_text import checked_text, numbered_claims
from critiqor.model import CausalStep, ClaimStatus, Finding
from critiqor.model.formatting import format_claims, format_lost_trust, format_session, format_waste
from critiqor.model.sanitize import sanitize_for_terminal
from critiqor.run.explanation import CheckedAnswer, ExplainedStep, Explanation

CLAIMS: dict[ClaimStatus, str] = {
    "contradicted": "bold underline red",
    "unsupported": "underline yellow",
    "unverifiable": "underline",
    "supported": "underline green",
}
"""Styles of claims."""


def finding_drawing(run_id: str, explanation: Explanation) -> Group:
    """Draw a finding with its events, what it cost and what to change."""
    return Group(*_parts(run_id, explanation))


def answers_drawing(run_id: str, answers: Sequence[CheckedAnswer]) -> Group:
    """Draw the explanation of the final answers of a run: each answer with its claims."""
    return Group(*_answer_parts(run_id, answers))


def _answer_parts(run_id: str, answers: Sequence[CheckedAnswer]) -> Iterator[RenderableType]:
    if not answers:
        yield Text(NO_ANSWER)
    for answer in answers[:SHOWN_ANSWERS]:
        yield untrusted(f"{run_id} · {format_session(answer.session_key)} · {answer.event_id}", FAINT)
        if answer.request:
            yield styled("Request  ", FAINT).append_text(untrusted(answer.request))
        yield Text()
        yield _claimed_text(answer)
        yield Text()
        yield Text(f"Claims: {format_claims(answer.claims) or 'none'}", FAINT)
        for number, claim in numbered_claims(answer.text, answer.claims):
            yield styled(f"[{number}] ", CLAIMS[claim.status]).append_text(untrusted(claim_line(claim)))
        yield Text()
    if len(answers) > SHOWN_ANSWERS:
        yield Text(f"and {len(answers) - SHOWN_ANSWERS} more sessions: --json has them all", FAINT)
    yield next_command(f"critiqor explain {run_id}")


def _claimed_text(answer: CheckedAnswer) -> Text:
    text, number = Text(), 0
    for piece in checked_text(answer.text, answer.claims):
        text.append(sanitize_for_terminal(piece.text), CLAIMS[piece.status] if piece.status else "")
        for claim in piece.claims:
            number += 1
            text.append(f"[{number}]", CLAIMS[claim.status])
    return text


def _parts(run_id: str, explanation: Explanation) -> Iterator[RenderableType]:
    finding = explanation.finding
    style = SEVERITIES[finding.severity]
    yield styled(f"{finding.severity.upper()}  ", style).append_text(untrusted(finding.title, "bold"))
    yield untrusted(f"{run_id} {finding.id} · {finding.type_label}", FAINT)
    if explanation.place:
        yield untrusted(explanation.place, FAINT)
    yield Text()
    yield untrusted(finding.explanation)
    yield Text()
    if explanation.chain:
        yield _explained_tree(finding, explanation.chain)
        yield Text()
    shown = {step.event_id for step in explanation.chain}
    others = [step for step in explanation.evidence if step.event_id not in shown]
    if others:
        title = f"Other cited events ({finding.occurrences} occurrences in total)"
        yield _evidence_tree(title, others[:SHOWN], max(0, len(others) - SHOWN))
        yield Text()
    yield facts_grid(
        [
            ("confidence", bar(finding.confidence / 100).append(f"  {finding.confidence} of 100")),
            ("trust", Text(format_lost_trust(finding.impact))),
            ("wasted", Text(format_waste(finding.impact))),
            ("fix", untrusted(finding.recommendation)),
            ("verify", untrusted(finding.verification)),
        ]
    )
    yield next_command(f"critiqor timeline {run_id}")


def chain_tree(finding: Finding) -> Tree:
    """Return the causal chain that `explain` draws: a tree of the steps of one finding, without their events."""
    tree = Tree(Text("how it happened", FAINT), guide_style=FAINT)
    for step in finding.causal_chain:
        tree.add(_happened(step))
    return tree


def _explained_tree(finding: Finding, chain: Iterable[ExplainedStep]) -> Tree:
    """Return the causal chain of a finding with the event of each step."""
    tree = Tree(untrusted(finding.title, SEVERITIES[finding.severity]), guide_style=FAINT)
    for step in chain:
        _add_step(tree, step)
    return tree


def _evidence_tree(title: str, steps: Sequence[ExplainedStep], left_out: int) -> Tree:
    """Return the other cited events of a finding under a title."""
    tree = Tree(Text(title), guide_style=FAINT)
    for step in steps:
        _add_step(tree, step)
    if left_out:
        tree.add(Text(f"and {left_out} more: --json has them all", FAINT))
    return tree


def _add_step(tree: Tree, step: ExplainedStep) -> None:
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
