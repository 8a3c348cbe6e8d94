"""Text of `critiqor explain`: a finding, its causal chain, what it cost and what to change."""

from __future__ import annotations

from critiqor.cli.text_layout import page
from critiqor.model.formatting import format_lost_trust, format_waste
from critiqor.run.explanation import ExplainedStep, Explanation

SHOWN = 3
"""Maximum number of cited events that are shown besides the causal chain."""


def explanation_text(run: str, explanation: Explanation) -> str:
    """Return the explanation of a finding as plain text."""
    finding = explanation.finding
    lines = [
        f"{run} {finding.id}  {finding.severity.upper()} {finding.type_label}, confidence {finding.confidence} of 100",
        *([explanation.place] if explanation.place else []),
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
    lines += ["", f"  Trust:   {format_lost_trust(impact)}", f"  Wasted:  {format_waste(impact)}"]
    lines += [f"  Fix:     {finding.recommendation}", f"  Verify:  {finding.verification}"]
    return page(lines)


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
