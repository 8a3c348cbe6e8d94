"""Text of `critiqor show`: the verdict, the findings, what the recorder did not see, and the next command."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.text_layout import page, table
from critiqor.model import CostAnalysis, Diagnosis, Finding, RunHead
from critiqor.model.formatting import (
    counted,
    format_cost,
    format_duration,
    format_identifier,
    format_judged,
    format_money,
    format_number,
    format_place,
    format_trust,
    format_verdict,
)
from critiqor.model.verdict import SESSION_HEADS, Verdict, verdict_table
from critiqor.run.owner import is_abandoned, is_owner_alive
from critiqor.run.view import RunView

SHOWN_FINDINGS = 8
SHOWN_SESSIONS = 8


def run_summary(view: RunView) -> str:
    """Return the summary of a run as plain text, the verdict first."""
    head, diagnosis = view.head, view.diagnosis
    whose = f"{head.metadata.agent_id}  {head.timestamps.created_at}"
    if diagnosis is None or view.verdict is None:
        state = unsealed_text(head)
        following = f"  Next: {add_runs_dir(state.following)}"
        return page([f"{view.run_id}  {format_status(head)}  {whose}", "", f"  {state.text}", following])
    status = format_status(head, diagnosis.outcome.state)
    lines = [f"{view.run_id}  {status}  {whose}", "", *diagnosis_lines(diagnosis, view.verdict)]
    if notes := coverage_notes(view):
        lines += ["", "  What the recorder did not see:", *(f"    · {note}" for note in notes)]
    if diagnosis.primary_diagnosis is not None:
        following = add_runs_dir(f"critiqor explain {view.run_id} {diagnosis.primary_diagnosis.finding_id}")
        lines += ["", f"  Next: {following}"]
    if head.seal is not None:
        verify = add_runs_dir(f"critiqor verify {view.run_id}")
        lines += ["", f"  sealed: {counted(head.seal.events, 'event')}, {head.seal.digest[:23]}…   {verify}"]
    return page(lines)


def diagnosis_lines(diagnosis: Diagnosis, verdict: Verdict) -> list[str]:
    """Return the verdict, the figures and the findings of a run as lines of plain text."""
    outcome = diagnosis.outcome
    findings = diagnosis.failure_analysis.findings
    trust, rest = f"trust {format_trust(verdict)}", f"confidence {verdict.confidence} of 100, {format_verdict(verdict)}"
    lines = [
        f"  {verdict.headline}",
        *([f"  {trust}, {rest}"] if verdict.sessions is None else [f"  {trust}", f"  {rest}"]),
        f"  outcome: {format_identifier(outcome.state)} ({outcome.known_from})",
        *(f"  {label}: {text}" for label, text in format_judged(diagnosis).items()),
        f"  cost: {cost_text(diagnosis.cost_analysis)}",
        f"  time: {time_text(diagnosis)}",
    ]
    sessions = verdict_table(diagnosis, verdict, SHOWN_SESSIONS)
    if sessions.rows:
        lines += ["", *table([SESSION_HEADS, *(row.cells for row in sessions.rows)])]
        lines += [f"  {sessions.more}"] if sessions.more else []
    for finding in findings[:SHOWN_FINDINGS]:
        lines += ["", *_finding_lines(finding, format_place(finding, diagnosis))]
    if more := diagnosis.failure_analysis.describe_hidden(SHOWN_FINDINGS):
        lines += ["", f"  {more}"]
    if problems := [each.problem for each in diagnosis.extensions if each.problem is not None]:
        lines += ["", *(f"  {problem}" for problem in problems)]
    return lines


def format_status(head: RunHead, outcome: str | None = None) -> str:
    """Return the status that `show` prints: that of the recording, and the outcome of the agent unless it completed."""
    if outcome not in (None, "completed"):
        return f"{head.status} (outcome: {format_identifier(str(outcome))})"
    return f"{head.status} (ended, not finalized)" if is_abandoned(head) else head.status


def _finding_lines(finding: Finding, place: str) -> list[str]:
    cited = finding.evidence
    shown = ", ".join(cited[:3]) + (f" and {len(cited) - 3} more" if len(cited) > 3 else "")
    points = finding.impact.trust_points
    lost = f"  ({points} trust points lost)" if points else ""
    return [
        f"  {finding.severity.upper():8} {finding.title}{lost}",
        f"           {finding.explanation}",
        *([f"           {place}"] if place else []),
        f"           {finding.id} {finding.type_label}, evidence: {shown or 'none'}",
        f"           → {finding.recommendation}",
    ]


class UnsealedText(NamedTuple):
    """What is shown of a run that is not sealed."""

    text: str
    following: str
    """The suggested next command."""


def unsealed_text(head: RunHead) -> UnsealedText:
    """Return what `show` prints of a run that is not sealed: a sentence, and the next command."""
    run_id = head.run_id
    if head.status == "ABORTED":
        return UnsealedText("Aborted; the recorded events are kept but not sealed.", f"critiqor diagnose {run_id}")
    if head.owner is None and head.status == "MONITORING":
        return UnsealedText("Being recorded from an attached OpenClaw.", f"critiqor finalize {run_id}")
    if is_owner_alive(head):
        return UnsealedText("Being recorded.", f"critiqor finalize {run_id}")
    return UnsealedText(
        "The recording process has ended; the run is not finalized.",
        f"critiqor finalize {run_id}   (or: critiqor abort {run_id})",
    )


def cost_text(cost: CostAnalysis) -> str:
    """Return what `show` prints of cost, tokens and calls of a run, and how much of them was wasted."""
    read = cost.input_tokens + cost.cache_read_tokens + cost.cache_write_tokens
    tokens = f"{counted(read, 'token')} in, {format_number(cost.output_tokens)} out"
    calls = f"{counted(cost.model_calls, 'model call')}, {counted(cost.tool_calls, 'tool call')}"
    text = f"{format_cost(cost)}, {tokens}, {calls}"
    if not cost.wasted_tokens:
        return text
    wasted = counted(cost.wasted_tokens, "token")
    if cost.wasted_usd:
        wasted += f", {format_money(cost.wasted_usd, is_estimated=cost.wasted_usd_is_estimated)}"
    return f"{text}; wasted: {wasted}"


def time_text(diagnosis: Diagnosis) -> str:
    """Return what `show` prints of the wall time of a run, and where that of its slowest turn went if it is known."""
    whole = format_duration(diagnosis.wall_time_ms)
    turn = diagnosis.timeline.turns[0] if diagnosis.timeline is not None and diagnosis.timeline.turns else None
    if turn is None:
        return whole
    parts = {
        "before the first model call": turn.split.before_provider_ms,
        "with the provider": turn.split.with_provider_ms,
        "in tools": turn.split.in_tools_ms,
        "between them": turn.split.between_ms,
        "retrying": turn.split.retrying_ms,
        "after": turn.split.after_ms,
        "unattributed": turn.split.unattributed_ms,
    }
    large = {name: part for name, part in parts.items() if part >= turn.duration_ms / 20}
    split = ", ".join(f"{format_duration(part)} {name}" for name, part in large.items())
    return f"{whole}; the slowest agent run took {format_duration(turn.duration_ms)}" + (f": {split}" if split else "")


def coverage_notes(view: RunView) -> list[str]:
    """Return what `show` prints under what the recorder did not see, or why that is unknown."""
    coverage, diagnosis = view.coverage(), view.diagnosis
    unread = [] if diagnosis is None else diagnosis.coverage.notes
    if coverage is not None:
        return [*coverage.notes, *unread]
    name = view.run.evidence_path.name
    return [f"{name} was changed after sealing" if view.run.evidence_path.exists() else f"{name} is gone"]
