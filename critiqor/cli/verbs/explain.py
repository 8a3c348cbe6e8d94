"""`critiqor explain RUN [FINDING]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import finding_names, run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.model import Impact
    from critiqor.run.explanation import ExplainedStep, Explanation
    from critiqor.run.view import RunView

SHOWN = 3
"""Maximum number of cited events that are shown besides the causal chain."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("finding", required=False, shell_complete=finding_names)
@runs_dir_option
@json_option
def explain(run: str, finding: str | None, runs_dir: str, as_json: bool) -> None:
    """Explain FINDING of RUN, by its id, its number or its type: the causal chain step by step, with its events.

    Without FINDING, the main finding is explained.

    \b
    critiqor explain run_001
    critiqor explain run_001 2
    critiqor explain run_001 false_success_claim
    """
    from critiqor.run.explanation import explain_finding
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView

    view = RunView(RunStore(runs_dir).run(run))
    explanation = explain_finding(view, _name(view, finding))
    if view.unproven is not None:
        say(f"not verified: {view.unproven.message}\n  → {add_runs_dir(f'critiqor verify {run}')}")
    text = _text(run, explanation)
    answer("explain", explanation, text, as_json=as_json, drawing=lambda: _drawing(run, explanation))


def _name(view: RunView, wanted: str | None) -> str:
    """Return the id or the type of the finding to explain."""
    if wanted is not None:
        is_number = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
        return f"finding_{int(wanted):03d}" if is_number else wanted
    main = view.require_diagnosis().primary_diagnosis
    return "" if main is None else main.finding_id


def _drawing(run: str, explanation: Explanation) -> RenderableType:
    from critiqor.cli.drawings.explain import finding_drawing

    impact = explanation.finding.impact
    return finding_drawing(run, explanation, _lost_trust(impact), _wasted(impact))


def _text(run: str, explanation: Explanation) -> str:
    from critiqor.cli.text_layout import page

    finding = explanation.finding
    lines = [
        f"{run} {finding.id}  {finding.severity.upper()} {finding.type}, confidence {finding.confidence} of 100",
        "",
        f"  {finding.title}",
        f"  {finding.explanation}",
    ]
    if explanation.chain:
        lines += ["", "  How it happened:"]
        for step in explanation.chain:
            lines += _step_lines(step)
    shown = {step.event_id for step in explanation.chain}
    others = [step for step in explanation.evidence if step.event_id not in shown]
    if others:
        lines += ["", f"  Other cited events ({finding.occurrences} occurrences in total):"]
        for step in others[:SHOWN]:
            lines += _step_lines(step)
        if len(others) > SHOWN:
            lines.append(f"      and {len(others) - SHOWN} more: --json has them all")
    impact = finding.impact
    lines += ["", f"  Trust:   {_lost_trust(impact)}", f"  Wasted:  {_wasted(impact)}"]
    lines += [f"  Fix:     {finding.recommendation}", f"  Verify:  {finding.verification}"]
    return page(lines)


def _lost_trust(impact: Impact) -> str:
    from critiqor.model.formatting import counted

    return f"-{counted(impact.trust_points, 'point')}" if impact.trust_points else "no points lost"


def _wasted(impact: Impact) -> str:
    from critiqor.model.formatting import counted, format_duration, format_money

    wasted = [
        format_money(impact.wasted_usd) if impact.wasted_usd else "",
        counted(impact.wasted_tokens, "token") if impact.wasted_tokens else "",
        format_duration(impact.wasted_ms) if impact.wasted_ms else "",
    ]
    return ", ".join(part for part in wasted if part) or "no waste measured"


def _step_lines(step: ExplainedStep) -> list[str]:
    joint = f"{step.relation} → " if step.relation else ""
    happened = [f"    {joint}{step.happened}"] if step.happened else []
    event = step.event
    if step.line is not None:
        facts = ", ".join(f"{name} {value}" for name, value in step.line.items())
        return [*happened, f"      {step.event_id}  {facts}"]
    if event is None:
        return [*happened, f"      {step.event_id}: not in the evidence"]
    name = f"{event.event_type} {event.tool_name or ''}".strip()
    where = f"      {event.timestamp}  {event.event_id}  {name}  {event.status}"
    return [*happened, where, *(f"        {line}" for line in step.shown)]
