"""Comparison of two runs, one from before a change and one from after it.

Findings are matched by cause, never by id, place or order. A figure that is unknown for one run has no difference. Cost
and time vary from run to run, so a single pair of runs gives no verdict about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from critiqor.comparison.causes import CauseChange, cause_changes
from critiqor.comparison.commands import diagnose_command, show_command
from critiqor.comparison.figure_notes import estimate_note, session_note
from critiqor.comparison.figures import Figures, figures_of, was_profiled
from critiqor.diagnosis.scoring import RECORDER_TYPES
from critiqor.model.diagnosis import Diagnosis, OutcomeState, severity_rank
from critiqor.model.formatting import counted
from critiqor.model.verdict import why_unobserved

Verdict = Literal["better", "worse", "mixed", "no difference", "cannot tell", "cannot be compared"]
_JUDGED = ("trust", "confidence", "findings")
"""Figures that depend on the rule set."""
_SPENT = {
    "cost_usd": "cost",
    "tokens": "tokens",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "wall_ms": "time",
}
"""Figures that depend on how far a run got, with their names in a summary."""


class Difference(msgspec.Struct, frozen=True):
    """One figure before and after."""

    before: int | float | None
    after: int | float | None
    difference: int | float | None
    """After minus before; null if unknown."""


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """Every figure before and after."""

    trust: Difference
    confidence: Difference
    findings: Difference
    cost_usd: Difference
    tokens: Difference
    model_calls: Difference
    tool_calls: Difference
    wall_ms: Difference


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two runs, and the verdict."""

    before: str
    after: str
    verdict: Verdict
    summary: str
    """The verdict and its reasons in one sentence."""
    outcome_before: OutcomeState
    outcome_after: OutcomeState
    gone: list[CauseChange]
    """Causes only in the run before, most severe first. The three lists are empty if the runs cannot be compared."""
    new: list[CauseChange]
    """Causes only in the run after, most severe first."""
    still_there: list[CauseChange]
    """Causes in both runs, most severe first."""
    figures: Differences
    notes: list[str]
    """Reservations about the comparison, one sentence each."""


def compare(before: Diagnosis, after: Diagnosis, unproven: Sequence[str] = ()) -> Comparison:
    """Compare two runs. `unproven` has a sentence for each run whose evidence differs from what was sealed."""
    obstacles = _obstacles(before, after)
    unfinished = [run for run in (before, after) if not run.outcome.has_finished]
    doubts = [*unproven, *_unfinished(unfinished)]
    changes = [] if obstacles else cause_changes(before, after)
    same_rules = before.rule_set_version == after.rule_set_version
    unknown = {*(() if same_rules else _JUDGED), *(_SPENT if unfinished else ()), *(_JUDGED if doubts else ())}
    figures = _differences(figures_of(before), figures_of(after), unknown)
    verdict, summary = _judge(obstacles, doubts, changes, figures)
    gone = [change for change in changes if change.severity_after is None]
    return Comparison(
        before=before.run_id,
        after=after.run_id,
        verdict=verdict,
        summary=f"{verdict}: {summary}",
        outcome_before=before.outcome.state,
        outcome_after=after.outcome.state,
        gone=gone,
        new=[change for change in changes if change.severity_before is None],
        still_there=[change for change in changes if change.severity_before and change.severity_after],
        figures=figures,
        notes=[*_unfinished_notes(unfinished), *_notes(before, after, gone)],
    )


def _obstacles(before: Diagnosis, after: Diagnosis) -> list[str]:
    obstacles = [
        f"{why_unobserved(run)} in {run.run_id}, so it has no trust score (see {show_command(run.run_id)})"
        for run in (before, after)
        if run.trust_score is None
    ]
    if before.rule_set_version != after.rule_set_version:
        obstacles.append(
            f"{before.run_id} was diagnosed with rule set {before.rule_set_version} and {after.run_id} with rule set "
            f"{after.rule_set_version}; diagnose both again with the current rules: "
            f"{', '.join(dict.fromkeys(map(diagnose_command, (before.run_id, after.run_id))))}"
        )
    return obstacles


def _unfinished(runs: list[Diagnosis]) -> list[str]:
    """Return why no verdict is possible: the rest of a run that was cut off is unknown.

    If only one run did not finish, and because it failed or timed out, the two runs can still be compared.
    """
    if len(runs) == 1 and runs[0].outcome.state in ("failed", "timed_out"):
        return []
    return [f"{run.run_id} did not finish" for run in {run.run_id: run for run in runs}.values()]


def _unfinished_notes(runs: list[Diagnosis]) -> list[str]:
    names = dict.fromkeys(run.run_id for run in runs)
    return [f"{name} did not finish: its cost and time cover only a part of the task" for name in names]


def _differences(before: Figures, after: Figures, unknown: set[str]) -> Differences:
    return Differences(
        **{
            name: _difference(getattr(before, name), getattr(after, name), is_known=name not in unknown)
            for name in Figures.__struct_fields__
        }
    )


def _difference(before: float | None, after: float | None, *, is_known: bool) -> Difference:
    if before is None or after is None or not is_known:
        return Difference(before, after, None)
    # Digits beyond the ninth are rounding errors of binary floats.
    return Difference(before, after, round(after - before, 9))


def _judge(
    obstacles: list[str], doubts: list[str], changes: list[CauseChange], figures: Differences
) -> tuple[Verdict, str]:
    if obstacles:
        return "cannot be compared", "; ".join([*obstacles, *doubts])
    if doubts:
        return "cannot tell", "; ".join(doubts)
    counting = [change for change in changes if _counts(change)]
    gone = [change for change in counting if change.severity_after is None]
    new = [change for change in counting if change.severity_before is None]
    milder = [change for change in counting if min(_worsening(change)) < 0]
    harsher = [change for change in counting if max(_worsening(change)) > 0]
    trust = figures.trust
    rise = trust.difference or 0
    trust_phrase = [f"trust {trust.before} → {trust.after}"] if rise else []
    good = _phrases((gone, "gone"), (milder, "milder or less frequent")) + (trust_phrase if rise > 0 else [])
    bad = _phrases((new, "new"), (harsher, "worse or more frequent")) + (trust_phrase if rise < 0 else [])
    if good and bad:
        return "mixed", f"{', '.join(good)}; but {', '.join(bad)}"
    if good:
        return "better", ", ".join(good)
    if bad:
        return "worse", ", ".join(bad)
    return "no difference", _sameness(figures)


def _counts(change: CauseChange) -> bool:
    """Return whether a change counts for the verdict: `info` findings and findings about the recorder do not."""
    severities = {change.severity_before, change.severity_after} - {"info", None}
    return bool(severities) and change.type not in RECORDER_TYPES


def _worsening(change: CauseChange) -> tuple[int, int]:
    """Return by how much a cause became more severe and more frequent; negative values are improvements."""
    if change.severity_before is None or change.severity_after is None:
        return 0, 0
    worse = severity_rank(change.severity_before) - severity_rank(change.severity_after)
    return worse, change.occurrences_after - change.occurrences_before


def _phrases(*groups: tuple[list[CauseChange], str]) -> list[str]:
    return [f"{counted(len(changes), 'problem')} {became}" for changes, became in groups if changes]


def _sameness(figures: Differences) -> str:
    moved = [word for name, word in _SPENT.items() if getattr(figures, name).difference]
    same = "the same problems and the same trust" if figures.findings.after else "no problems and the same trust"
    if not moved:
        return same
    return f"{same}; only {', '.join(moved)} differ, which may be chance: repeat both runs to be sure"


def _notes(before: Diagnosis, after: Diagnosis, gone: list[CauseChange]) -> list[str]:
    notes = [note for run in (before, after) if (note := session_note(run))]
    notes += [note for run in (before, after) if (note := _unknown_cost(run))]
    notes += [note for run in (before, after) if (note := estimate_note(run))]
    profiled = [run.run_id for run in (before, after) if was_profiled(run)]
    notes += [f"{run_id} was recorded with deep profiling: its time is not comparable" for run_id in profiled]
    if gone and after.confidence_score < before.confidence_score:
        confidence = f"confidence {before.confidence_score} → {after.confidence_score}"
        notes.append(
            f"less of {after.run_id} was recorded ({confidence}), so a problem listed as gone may be unrecorded"
        )
    return notes


def _unknown_cost(run: Diagnosis) -> str | None:
    reason = run.cost_analysis.unknown_cost
    unknown = "tokens and cost are" if run.cost_analysis.unknown_usage else "cost is"
    return f"{run.run_id}: {unknown} unknown, because {reason}" if reason else None
