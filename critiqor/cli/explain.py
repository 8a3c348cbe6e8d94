"""`critiqor explain RUN FINDING`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.names import finding_names, run_names
from critiqor.cli.output import answer, json_option, runs_dir_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.explanations import ExplainedStep, Explanation
    from critiqor.model import Impact

SHOWN = 3
"""Cited events that are shown beside the chain."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("finding", shell_complete=finding_names)
@runs_dir_option
@json_option
def explain(run: str, finding: str, runs_dir: str, as_json: bool) -> None:
    """Explain FINDING of RUN, named by its id or its type: the chain, step by step, with the events themselves."""
    from critiqor.explanations import explain_finding

    explanation = explain_finding(run, finding, runs_dir)
    text = _text(run, explanation)
    answer("explain", explanation, text, as_json=as_json, drawing=lambda: _drawing(run, explanation))


def _drawing(run: str, explanation: Explanation) -> RenderableType:
    from critiqor.cli.drawing.finding import finding_drawing

    return finding_drawing(run, explanation, _cost(explanation.finding.impact))


def _text(run: str, explanation: Explanation) -> str:
    from critiqor.cli.wording import page

    finding = explanation.finding
    lines = [
        f"{run} {finding.id}  {finding.severity.upper()} {finding.type}, {finding.confidence}% sure",
        "",
        f"  {finding.title}",
        f"  {finding.explanation}",
    ]
    if explanation.chain:
        lines += ["", "  How it came about:"]
        for step in explanation.chain:
            lines += _step_lines(step)
    shown = {step.event_id for step in explanation.chain}
    others = [step for step in explanation.evidence if step.event_id not in shown]
    if others:
        lines += ["", f"  Cited as well, of {finding.occurrences} in all:"]
        for step in others[:SHOWN]:
            lines += _step_lines(step)
        if len(others) > SHOWN:
            lines.append(f"      and {len(others) - SHOWN} more: --json has them all")
    lines += ["", f"  It cost: {_cost(finding.impact)}"]
    lines += [f"  Change:  {finding.recommendation}", f"  Verify:  {finding.verification}"]
    return page(lines)


def _cost(impact: Impact) -> str:
    cost = [
        f"{impact.trust_points} points of trust" if impact.trust_points else "",
        f"{impact.wasted_tokens} tokens" if impact.wasted_tokens else "",
        f"${impact.wasted_usd:.4f}" if impact.wasted_usd else "",
        f"{impact.wasted_ms / 1000:.1f} s" if impact.wasted_ms else "",
    ]
    return ", ".join(part for part in cost if part) or "nothing that was measured"


def _step_lines(step: ExplainedStep) -> list[str]:
    joint = f"{step.relation} → " if step.relation else ""
    said = f"    {joint}{step.happened}" if step.happened else None
    event = step.event
    if step.line is not None:
        facts = ", ".join(f"{name} {value}" for name, value in step.line.items())
        return [*([said] if said else []), f"      {step.event_id}  {facts}"]
    if event is None:
        return [*([said] if said else []), f"      {step.event_id}: not in the evidence"]
    name = f"{event.event_type} {event.tool_name or ''}".strip()
    where = f"      {event.timestamp}  {event.event_id}  {name}  {event.status}"
    return [*([said] if said else []), where, *(f"        {line}" for line in step.shown)]
