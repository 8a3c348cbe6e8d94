"""The timing of runs: of one run, of two runs compared, and of repeated runs together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from critiqor.errors import CritiqorError, UsageError
from critiqor.model.timeline import RepeatedTimings, TimelineSummary, TimingComparison
from critiqor.run.store import Run, RunStore
from critiqor.timeline import read_timeline
from critiqor.timeline.comparison import compare_timelines
from critiqor.timeline.repeated_runs import repeated_figures


def read_timing(name: str, store: RunStore) -> TimelineSummary:
    """Return the timing of a run, or of a timeline file if `name` is a file and not a run."""
    file = Path(name)
    if file.is_file() and name not in store:
        return read_timeline(file)
    return store.run(name).timing()


def compare_timings(before: Run, after: Run) -> TimingComparison:
    """Compare the timing of two runs. A run whose timeline cannot be read has none."""
    first, second = map(timing_if_readable, (before, after))
    return compare_timelines(first, second, profiled_before=first.profiled, profiled_after=second.profiled)


def timing_if_readable(run: Run) -> TimelineSummary:
    """Return the timing of a run; one that says why it is unavailable if the run cannot be read."""
    try:
        return run.timing()
    except (CritiqorError, OSError) as error:
        return TimelineSummary(present=False, unavailable=str(error))


def repeat_timings(names: Sequence[str], store: RunStore) -> RepeatedTimings:
    """Return how the timing of a repeated run varies; each repetition is named by its run or by its timeline file.

    Deeply profiled runs are never mixed with others. If some runs have a timeline, those without one are left out,
    because the recorder alone sees less of a turn.
    """
    [(most_named, times)] = Counter(names).most_common(1)
    if times > 1:
        raise UsageError(
            f"{most_named} is given {times} times; repetitions must be different runs",
            fix=f"critiqor timeline {' '.join(dict.fromkeys(names))}",
        )
    known = {name: read_timing(name, store) for name in names}
    profiled = [name for name, summary in known.items() if summary.profiled]
    if profiled and len(profiled) < len(known):
        raise UsageError(
            f"runs with and without --deep-profile cannot be mixed; profiled: {', '.join(profiled)} of {len(known)}",
            fix=f"critiqor timeline {' '.join(name for name in names if name not in profiled)}",
        )
    missing = [name for name, summary in known.items() if not summary.present]
    left_out = missing if len(missing) < len(known) else []
    included = [name for name in names if name not in left_out]
    return RepeatedTimings(
        runs=included,
        profiled=bool(profiled),
        figures=repeated_figures([known[name] for name in included]),
        notes=[
            f"{name} {'is left out' if name in left_out else 'has agent runs only'}: no OpenClaw timeline "
            f"({known[name].unavailable})"
            for name in missing
        ],
    )
