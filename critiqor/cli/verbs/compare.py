"""`critiqor compare BEFORE AFTER`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.comparison.compare import CauseChange, Comparison
    from critiqor.model.timing import TimingComparison


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", shell_complete=run_names)
@click.argument("after", shell_complete=run_names)
@runs_dir_option
@json_option
def compare(before: str, after: str, runs_dir: str, as_json: bool) -> None:
    """Did the change work? Compare run BEFORE it with run AFTER it: problems gone, new and still there, and figures.

    Where OpenClaw wrote a timeline of both, times are compared too, span name by span name, and noise is called noise.
    """
    import msgspec

    from critiqor.comparison import compare as comparison
    from critiqor.run.diagnosis import load_diagnosed, load_proof
    from critiqor.run.timing import compare_timings

    proofs = {run: load_proof(run, runs_dir) for run in (before, after)}
    unproven = [f"{run}: {proof.told}" for run, proof in proofs.items() if not proof.is_intact]
    result = comparison.compare(load_diagnosed(before, runs_dir), load_diagnosed(after, runs_dir), unproven)
    timing = compare_timings(before, after, runs_dir)
    data = {**msgspec.structs.asdict(result), "timing": timing}
    answer("compare", data, _text(result, timing), as_json=as_json, drawing=lambda: _drawing(result, timing))


def _drawing(result: Comparison, timing: TimingComparison) -> RenderableType:
    from critiqor.cli.views.compare import comparison_drawing

    return comparison_drawing(result, timing)


def _text(result: Comparison, timing: TimingComparison) -> str:
    from critiqor.cli.wording import LABELS, difference, figure, page, table
    from critiqor.timeline.comparison import timing_parts
    from critiqor.timeline.layout import as_lines

    lines = [f"{result.before} → {result.after}  {result.summary}"]
    problems = [
        *(_row("gone", change) for change in result.gone),
        *(_row("new", change) for change in result.new),
        *(_row("still there", change) for change in result.still_there),
    ]
    if problems:
        lines += ["", *table(problems)]
    rows = [["", "before", "after", "difference"]]
    rows.append(["outcome", *(state.replace("_", " ") for state in (result.outcome_before, result.outcome_after)), ""])
    for name, label in LABELS.items():
        change = getattr(result.figures, name)
        told = figure(name, change.before), figure(name, change.after), difference(name, change.difference)
        rows.append([label, *told])
    lines += ["", *table(rows)]
    if result.notes:
        lines += ["", *(f"  · {note}" for note in result.notes)]
    lines += ["", *as_lines(timing_parts(timing))]
    return page([*lines, "", f"  Next: {add_runs_dir(f'critiqor show {result.after}')}"])


def _row(became: str, change: CauseChange) -> list[str]:
    severities = [severity for severity in (change.severity_before, change.severity_after) if severity]
    counts = [f"{number}x" for number in (change.occurrences_before, change.occurrences_after) if number]
    # Each once where nothing changed.
    told = (" → ".join(dict.fromkeys(words)) for words in (severities, counts))
    return [became, *told, change.cause, change.title]
