"""`critiqor explain RUN [FINDING]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import finding_names, run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.model import Impact
    from critiqor.run.explanation import ExplainedStep, Explanation

SHOWN = 3
"""Cited events that are shown beside the chain."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("finding", required=False, shell_complete=finding_names)
@runs_dir_option
@json_option
def explain(run: str, finding: str | None, runs_dir: str, as_json: bool) -> None:
    """Explain FINDING of RUN, by its id, its number or its type: the chain, step by step, with the events themselves.

    Without FINDING it is the main one.

    \b
    critiqor explain run_001
    critiqor explain run_001 2
    critiqor explain run_001 false_success_claim
    """
    from critiqor.run.explanation import explain_finding

    explanation = explain_finding(run, _name(run, finding, runs_dir), runs_dir)
    text = _text(run, explanation)
    answer("explain", explanation, text, as_json=as_json, drawing=lambda: _drawing(run, explanation))


def _name(run: str, wanted: str | None, runs_dir: str) -> str:
    """The id or the type that is meant."""
    if wanted is not None:
        is_number = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
        return f"finding_{int(wanted):03d}" if is_number else wanted
    from critiqor.run.diagnosis import load_diagnosed

    main = load_diagnosed(run, runs_dir).primary_diagnosis
    return "" if main is None else main.finding_id


def _drawing(run: str, explanation: Explanation) -> RenderableType:
    from critiqor.cli.views.explain import finding_drawing

    impact = explanation.finding.impact
    return finding_drawing(run, explanation, _lost_trust(impact), _wasted(impact))


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
    impact = finding.impact
    lines += ["", f"  Trust:   {_lost_trust(impact)}", f"  Wasted:  {_wasted(impact)}"]
    lines += [f"  Change:  {finding.recommendation}", f"  Verify:  {finding.verification}"]
    return page(lines)


def _lost_trust(impact: Impact) -> str:
    from critiqor.model.formatting import counted

    return f"-{counted(impact.trust_points, 'point')}" if impact.trust_points else "no points lost"


def _wasted(impact: Impact) -> str:
    from critiqor.model.formatting import counted, money
    from critiqor.model.timeline import spent

    wasted = [
        money(impact.wasted_usd) if impact.wasted_usd else "",
        counted(impact.wasted_tokens, "token") if impact.wasted_tokens else "",
        spent(impact.wasted_ms) if impact.wasted_ms else "",
    ]
    return ", ".join(part for part in wasted if part) or "nothing that was measured"


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
