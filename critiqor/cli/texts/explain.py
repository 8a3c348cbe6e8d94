"""Text of `critiqor explain`: a finding, its causal chain, what it cost and what to change; or the checked answers."""

from __future__ import annotations

from collections.abc import Sequence

from critiqor.cli.text_layout import page
from critiqor.conversation.checked_text import checked_text, numbered_claims
from critiqor.model import Claim
from critiqor.model.formatting import format_claims, format_lost_trust, format_session, format_waste
from critiqor.model.sanitize import excerpt
from critiqor.run.explanation import CheckedAnswer, ExplainedStep, Explanation

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


SHOWN_ANSWERS = 5
"""Maximum number of sessions whose answer is shown."""
NO_ANSWER = "No agent answered."


def answers_text(run: str, answers: Sequence[CheckedAnswer]) -> str:
    """Return the final answers of a run as plain text: each claim is followed by its number in the list below."""
    lines = [] if answers else [f"{run}: {NO_ANSWER}"]
    for answer in answers[:SHOWN_ANSWERS]:
        lines += [*([""] if lines else []), f"{run} {format_session(answer.session_key)}  {answer.event_id}"]
        if answer.request:
            lines.append(f"  Request: {excerpt(answer.request, 300)}")
        lines += ["", *(f"  {line}" for line in _numbered_text(answer).split("\n")), ""]
        lines.append(f"  Claims: {format_claims(answer.claims) or 'none'}")
        lines += [f"  [{number}] {claim_line(claim)}" for number, claim in numbered_claims(answer.text, answer.claims)]
    if len(answers) > SHOWN_ANSWERS:
        lines += ["", f"and {len(answers) - SHOWN_ANSWERS} more sessions: --json has them all"]
    return page(lines)


def claim_line(claim: Claim) -> str:
    """Return the explanation of a claim on one line: what became of it, and the events that decide it."""
    cited = f" ({', '.join(claim.evidence[:SHOWN])})" if claim.evidence else ""
    return f"{claim.status}: {claim.reason}{cited}"


def _numbered_text(answer: CheckedAnswer) -> str:
    text, number = "", 0
    for piece in checked_text(answer.text, answer.claims):
        text += piece.text
        for _ in piece.claims:
            number += 1
            text += f"[{number}]"
    return text


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
