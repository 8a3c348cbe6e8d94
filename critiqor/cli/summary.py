"""One run in a few lines: what happened, what the recorder saw, and what to type next."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from critiqor.cli.hints import add_runs_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from critiqor.cli.terminal.lanes import Lane
    from critiqor.model import CostAnalysis, Diagnosis, Finding
    from critiqor.model.timeline import Stall
    from critiqor.run.diagnosis import Rediagnosis

SHOWN_FINDINGS = 8
MOST_CHARTED = 20_000
"""Events up to which a run is read once more to be drawn on lanes; `critiqor timeline` always does."""


def run_summary(record: dict[str, Any], runs_dir: str | Path) -> str:
    """A run for a terminal, the verdict first."""
    from msgspec import convert

    from critiqor.cli.wording import page, standing
    from critiqor.model import Diagnosis
    from critiqor.model.formatting import counted
    from critiqor.storage.paths import paths_for

    run_id = record["run_id"]
    whose = f"{record['metadata']['agent_id']}  {record['timestamps']['created_at']}"
    if not record.get("diagnosis"):
        state = _state(record)
        following = f"  Next: {add_runs_dir(state.following)}"
        return page([f"{run_id}  {standing(record)}  {whose}", "", f"  {state.words}", following])
    diagnosis = convert(record["diagnosis"], Diagnosis)
    lines = [f"{run_id}  {standing(record, diagnosis.outcome.state)}  {whose}", "", *diagnosis_lines(diagnosis)]
    notes = _coverage_notes(paths_for(runs_dir).evidence_summary_path(run_id))
    if notes:
        lines += ["", "  What the recorder did not see:", *(f"    · {note}" for note in notes)]
    if diagnosis.primary_diagnosis is not None:
        following = add_runs_dir(f"critiqor explain {run_id} {diagnosis.primary_diagnosis.finding_id}")
        lines += ["", f"  Next: {following}"]
    seal = record["seal"]
    verify = add_runs_dir(f"critiqor verify {run_id}")
    lines += ["", f"  sealed: {counted(seal['events'], 'event')}, {seal['digest'][:23]}…   {verify}"]
    return page(lines)


def run_drawing(record: dict[str, Any], runs_dir: str | Path) -> RenderableType:
    """The same as a drawing, with the run on lanes of time unless it is a very long one."""
    from msgspec import convert

    from critiqor.cli.views.show import ShownRun, sealed_run, unsealed_run
    from critiqor.model import Diagnosis
    from critiqor.storage.paths import paths_for

    run_id = record["run_id"]
    if not record.get("diagnosis"):
        return unsealed_run(record, *_state(record))
    diagnosis = convert(record["diagnosis"], Diagnosis)
    notes = _coverage_notes(paths_for(runs_dir).evidence_summary_path(run_id))
    stalls = diagnosis.timeline.stalls if diagnosis.timeline is not None else []
    lanes = run_lanes(run_id, runs_dir, stalls) if record["seal"]["events"] <= MOST_CHARTED else []
    return sealed_run(ShownRun(record, diagnosis, notes, lanes))


def run_lanes(run_id: str, runs_dir: str | Path, stalls: Iterable[Stall]) -> list[Lane]:
    """A run on lanes of time; none where its evidence cannot be read, which is no reason to show nothing of it."""
    from msgspec import DecodeError

    from critiqor.cli.terminal.lanes import build_lanes
    from critiqor.errors import CritiqorError
    from critiqor.exporters.trace.activity import activity
    from critiqor.run.diagnosis import load_diagnosed
    from critiqor.run.lifecycle import evidence_events

    findings: list[Finding] = []
    with suppress(CritiqorError):  # a run that is not diagnosed yet has none
        findings = load_diagnosed(run_id, runs_dir).failure_analysis.findings
    try:
        return build_lanes(activity(evidence_events(run_id, runs_dir)), findings, stalls)
    except (CritiqorError, OSError, DecodeError, UnicodeDecodeError, RecursionError):
        return []


def diagnosis_lines(diagnosis: Diagnosis) -> list[str]:
    """The verdict, the figures and the findings."""
    trust = (
        "unknown: the agent was not observed" if diagnosis.trust_score is None else f"{diagnosis.trust_score} of 100"
    )
    outcome = diagnosis.outcome
    findings = diagnosis.failure_analysis.findings
    lines = [
        f"  {diagnosis.headline}",
        f"  trust {trust}, confidence {diagnosis.confidence_score} of 100, {diagnosis.readiness}",
        f"  outcome: {outcome.state.replace('_', ' ')} ({outcome.known_from})",
        f"  cost: {cost_words(diagnosis.cost_analysis)}",
    ]
    if (spent := time_words(diagnosis)) is not None:
        lines.append(f"  time: {spent}")
    for finding in findings[:SHOWN_FINDINGS]:
        lines += ["", *_finding_lines(finding)]
    if len(findings) > SHOWN_FINDINGS:
        lines += ["", f"  and {len(findings) - SHOWN_FINDINGS} more, none of them graver"]
    return lines


def changed_lines(change: Rediagnosis) -> list[str]:
    """What another diagnosis of the same evidence says differently."""
    if change.previous_rule_set is None:
        return []
    rules = (
        f"rule set {change.rule_set}, as before"
        if change.previous_rule_set == change.rule_set
        else f"rule set {change.previous_rule_set} → {change.rule_set}"
    )
    told = [
        *(f"    gone: {cause}" for cause in change.gone),
        *(f"    new:  {cause}" for cause in change.new),
    ]
    if change.previous_trust != change.trust:
        told.append(f"    trust: {change.previous_trust} → {change.trust}")
    return ["", f"  Against the last diagnosis ({rules}):", *(told or ["    nothing changed"])]


def _finding_lines(finding: Finding) -> list[str]:
    cited = finding.evidence
    shown = ", ".join(cited[:3]) + (f" and {len(cited) - 3} more" if len(cited) > 3 else "")
    points = finding.impact.trust_points
    lost = f"  ({points} points of trust)" if points else ""
    return [
        f"  {finding.severity.upper():8} {finding.title}{lost}",
        f"           {finding.explanation}",
        f"           {finding.id} {finding.type}, evidence: {shown or 'none'}",
        f"           → {finding.recommendation}",
    ]


class _State(NamedTuple):
    """Where an unsealed run stands."""

    words: str
    following: str
    """What to type next."""


def _state(record: dict[str, Any]) -> _State:
    from critiqor.run.lifecycle import owner_is_alive

    run_id = record["run_id"]
    if record["status"] == "ABORTED":
        return _State("Aborted; what was recorded is kept.", f"critiqor diagnose {run_id}")
    if record["owner"] is None and record["status"] == "MONITORING":
        return _State("Attached to an OpenClaw that runs by itself.", f"critiqor finalize {run_id}")
    if owner_is_alive(record):
        return _State("Being recorded.", f"critiqor finalize {run_id}")
    return _State(
        "The process that recorded it is gone.", f"critiqor finalize {run_id}   (or: critiqor abort {run_id})"
    )


def cost_words(cost: CostAnalysis) -> str:
    """What a run cost, and how much of it bought nothing."""
    from critiqor.comparison.figures import tokens_of, untold_cost
    from critiqor.model.formatting import counted, money, number

    if cost.cost_usd is None:
        price = "no price known" if tokens_of(cost) else "unknown"
    else:
        price = f"{'at least ' if untold_cost(cost) else ''}{money(cost.cost_usd)}"
    read = cost.input_tokens + cost.cache_read_tokens + cost.cache_write_tokens
    tokens = f"{counted(read, 'token')} in, {number(cost.output_tokens)} out"
    calls = f"{counted(cost.model_calls, 'model call')}, {counted(cost.tool_calls, 'tool call')}"
    told = f"{price}, {tokens}, {calls}"
    if not cost.wasted_tokens:
        return told
    wasted = f" ({money(cost.wasted_usd)})" if cost.wasted_usd else ""
    return f"{told}; wasted: {counted(cost.wasted_tokens, 'token')}{wasted}"


def time_words(diagnosis: Diagnosis) -> str | None:
    """Where the time of the slowest turn went, where that is known."""
    from critiqor.model.timeline import spent

    turn = diagnosis.timeline.turns[0] if diagnosis.timeline is not None and diagnosis.timeline.turns else None
    if turn is None:
        return None
    parts = {
        "before the provider": turn.split.before_provider_ms,
        "with the provider": turn.split.with_provider_ms,
        "in tools": turn.split.in_tools_ms,
        "between them": turn.split.between_ms,
        "retrying": turn.split.retrying_ms,
        "after": turn.split.after_ms,
        "unattributed": turn.split.unattributed_ms,
    }
    told = ", ".join(f"{spent(part)} {name}" for name, part in parts.items() if part >= turn.duration_ms / 20)
    return f"the slowest turn took {spent(turn.duration_ms)}" + (f": {told}" if told else "")


def _coverage_notes(document: Path) -> list[str]:
    from msgspec import DecodeError

    from critiqor.errors import BrokenRecordError
    from critiqor.storage.session_document import read_coverage

    try:
        return read_coverage(document).notes
    except FileNotFoundError:
        return ["session.json is gone"]
    except (BrokenRecordError, DecodeError, UnicodeDecodeError, RecursionError):
        return ["session.json was changed since it was sealed"]
