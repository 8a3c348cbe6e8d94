"""The timing of runs: one with all that is known of it, two compared, many of the same kind taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from critiqor.errors import CritiqorError, UsageError
from critiqor.model.timeline import TimelineSummary
from critiqor.model.timing import RepeatedTimings, TimingComparison
from critiqor.run.diagnosis import run_timeline
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR
from critiqor.storage import paths_for
from critiqor.timeline import read_timeline
from critiqor.timeline.comparison import compare_timelines
from critiqor.timeline.repetition import repeated_figures


def timing_of(what: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> TimelineSummary:
    """Where the time of a run went; or what a timeline file tells, where `what` is one and no run."""
    file = Path(what)
    if file.is_file() and not paths_for(runs_dir).has_run(what):
        return read_timeline(file)
    return run_timeline(what, runs_dir)


def compare_timings(before: str, after: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> TimingComparison:
    """What took longer or shorter in one run than in another. A run whose timeline cannot be read has none."""
    first, second = (_if_readable(run_id, runs_dir) for run_id in (before, after))
    return compare_timelines(first, second, profiled_before=first.profiled, profiled_after=second.profiled)


def _if_readable(run_id: str, runs_dir: str | Path) -> TimelineSummary:
    try:
        return timing_of(run_id, runs_dir)
    except (CritiqorError, OSError) as error:
        return TimelineSummary(present=False, unavailable=str(error))


def repeat_timings(whats: Sequence[str], runs_dir: str | Path = DEFAULT_RUNS_DIR) -> RepeatedTimings:
    """How the times of a run vary that was repeated; each one is named by its run, or by its timeline file.

    Runs that were deeply profiled are never mixed with others. Where some have a timeline, those without are left out,
    because the recorder alone sees less of a turn.
    """
    [(most_named, times)] = Counter(whats).most_common(1)
    if times > 1:
        raise UsageError(f"{most_named} is named {times} times, and would look like runs that do not vary")
    known = {what: timing_of(what, runs_dir) for what in whats}
    profiled = [what for what, summary in known.items() if summary.profiled]
    if profiled and len(profiled) < len(known):
        raise UsageError(
            f"deeply profiled runs are slower and are not mixed with others: {', '.join(profiled)} of {len(known)}",
            fix=f"critiqor timeline {' '.join(what for what in whats if what not in profiled)}",
        )
    missing = [what for what, summary in known.items() if not summary.present]
    left_out = missing if len(missing) < len(known) else []
    counted = [what for what in whats if what not in left_out]
    return RepeatedTimings(
        runs=counted,
        profiled=bool(profiled),
        figures=repeated_figures([known[what] for what in counted]),
        notes=[
            f"{what} {'is left out' if what in left_out else 'has turns only'}, because OpenClaw's diagnostics are "
            f"unavailable: {known[what].unavailable}"
            for what in missing
        ],
    )
