"""`critiqor benchmark RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import fleet_option, json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from critiqor.comparison.ranking import Ranking


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@fleet_option
@json_option
def benchmark(run: str, runs_dir: str, fleet: bool, as_json: bool) -> None:
    """Rank RUN among the runs of its tenant that have the same benchmark id and difficulty tier.

    With --fleet, RUN is HOST/RUN, and it is ranked among the runs of all hosts.
    """
    if fleet:
        from critiqor.cli.fleet.benchmark import fleet_ranking

        ranking, texts = fleet_ranking(run)
        answer("benchmark", ranking, _text(ranking, texts), as_json=as_json)
        return
    from critiqor.comparison.ranking import rank_run
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView, summarize_runs

    store = RunStore(runs_dir)
    # A run whose diagnosis does not match its sealed evidence cannot be ranked; the error names the command to run.
    view = RunView(store.run(run))
    view.require_proof()
    result = rank_run(run, summarize_runs(store))
    answer("benchmark", result, _text(result, view.figure_texts()), as_json=as_json)


def _text(result: Ranking, texts: dict[str, str]) -> str:
    from critiqor.cli.text_layout import page, table
    from critiqor.comparison.figures import FIGURE_LABELS, format_figure
    from critiqor.model.sanitize import collapse_whitespace

    kind = collapse_whitespace(f"{result.benchmark_id}, {result.difficulty_tier}")
    lines = [f"{result.run_id}  {kind}  comparable with {result.others} other runs", ""]
    lines += table(
        [
            [
                FIGURE_LABELS[place.figure],
                texts.get(place.figure, format_figure(place.figure, place.value)),
                place.statement,
            ]
            for place in result.placements
        ]
    )
    if result.notes:
        lines += ["", *(f"  · {note}" for note in result.notes)]
    return page(lines)
