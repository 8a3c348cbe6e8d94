"""`critiqor benchmark RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from critiqor.comparison.ranking import Standing


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@json_option
def benchmark(run: str, runs_dir: str, as_json: bool) -> None:
    """Place RUN among the runs of this folder that have the same benchmark id and difficulty tier."""
    from critiqor.comparison.ranking import standing_of
    from critiqor.run.diagnosis import load_diagnosed, run_summaries

    # For its error: a run without a diagnosis has no place, and the user is told how to get one.
    load_diagnosed(run, runs_dir)
    result = standing_of(run, run_summaries(runs_dir))
    answer("benchmark", result, _text(result), as_json=as_json)


def _text(result: Standing) -> str:
    from critiqor.cli.wording import LABELS, figure, one_line, page, table

    kind = one_line(f"{result.benchmark_id}, {result.difficulty_tier}")
    lines = [f"{result.run_id}  {kind}  comparable with {result.others} other runs", ""]
    lines += table(
        [[LABELS[place.figure], figure(place.figure, place.value), place.statement] for place in result.placements]
    )
    if result.notes:
        lines += ["", *(f"  · {note}" for note in result.notes)]
    return page(lines)
