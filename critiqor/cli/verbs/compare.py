"""`critiqor compare BEFORE AFTER`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import fleet_option, json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.cli.texts.compare import Texts
    from critiqor.comparison.compare import Comparison
    from critiqor.model.timeline import TimingComparison


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", shell_complete=run_names)
@click.argument("after", shell_complete=run_names)
@runs_dir_option
@fleet_option
@json_option
def compare(before: str, after: str, runs_dir: str, fleet: bool, as_json: bool) -> None:
    """Compare run BEFORE a change with run AFTER it: resolved, new and remaining problems, and figures.

    If OpenClaw wrote a timeline of both, times are compared too, by span name; differences within noise are marked as
    noise. With --fleet, both are HOST/RUN, and their newest diagnoses come from the store.
    """
    if fleet:
        from critiqor.fleet.settings import required_store
        from critiqor.fleet.store.object_store import open_store
        from critiqor.fleet.views.run_comparison import compare_in_fleet

        found = compare_in_fleet(open_store(required_store()), before, after)
        hosts = {"host_before": found.hosts[0], "host_after": found.hosts[1]}
        _answer(found.result, found.timing, found.texts, hosts, as_json=as_json)
        return
    from critiqor.comparison.compare import compare as compare_diagnoses
    from critiqor.run.store import RunStore
    from critiqor.run.timing import compare_timings
    from critiqor.run.view import RunView

    store = RunStore(runs_dir)
    views = [RunView(store.run(name)) for name in (before, after)]
    first, second = (view.require_diagnosis() for view in views)
    result = compare_diagnoses(first, second, [view.unproven.message for view in views if view.unproven is not None])
    timing = compare_timings(views[0].run, views[1].run)
    texts = views[0].figure_texts(), views[1].figure_texts()
    _answer(result, timing, texts, {}, as_json=as_json)


def _answer(
    result: Comparison, timing: TimingComparison, texts: Texts, hosts: dict[str, str], *, as_json: bool
) -> None:
    import msgspec

    from critiqor.cli.texts.compare import comparison_text

    data = {**msgspec.structs.asdict(result), "timing": timing, **hosts}
    text = comparison_text(result, timing, texts)
    answer("compare", data, text, as_json=as_json, drawing=lambda: _drawing(result, timing, texts))


def _drawing(result: Comparison, timing: TimingComparison, texts: Texts) -> RenderableType:
    from critiqor.cli.drawings.compare import comparison_drawing

    return comparison_drawing(result, timing, texts)
