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

    Texts = tuple[dict[str, str], dict[str, str]]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", shell_complete=run_names)
@click.argument("after", shell_complete=run_names)
@runs_dir_option
@json_option
def compare(before: str, after: str, runs_dir: str, as_json: bool) -> None:
    """Compare run BEFORE a change with run AFTER it: resolved, new and remaining problems, and figures.

    If OpenClaw wrote a timeline of both, times are compared too, by span name; differences within noise are marked as
    noise.
    """
    import msgspec

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
    data = {**msgspec.structs.asdict(result), "timing": timing}
    text = _text(result, timing, texts)
    answer("compare", data, text, as_json=as_json, drawing=lambda: _drawing(result, timing, texts))


def _drawing(result: Comparison, timing: TimingComparison, texts: Texts) -> RenderableType:
    from critiqor.cli.drawings.compare import comparison_drawing

    return comparison_drawing(result, timing, texts)


def figure_cells(result: Comparison, name: str, texts: Texts) -> tuple[str, str, str]:
    """Return a figure before and after, and its difference.

    `texts` has trust, cost and time of both runs, even if they cannot be compared.
    """
    from critiqor.model.formatting import format_difference, format_figure

    change = getattr(result.figures, name)
    known = (change.before, change.after)
    before, after = (text.get(name, format_figure(name, value)) for text, value in zip(texts, known, strict=True))
    return before, after, format_difference(name, change.difference)


def _text(result: Comparison, timing: TimingComparison, texts: Texts) -> str:
    from critiqor.cli.text_layout import page, table
    from critiqor.model.formatting import FIGURE_LABELS
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
    rows += [[label, *figure_cells(result, name, texts)] for name, label in FIGURE_LABELS.items()]
    lines += ["", *table(rows)]
    if result.notes:
        lines += ["", *(f"  · {note}" for note in result.notes)]
    lines += ["", *as_lines(timing_parts(timing))]
    return page([*lines, "", f"  Next: {add_runs_dir(f'critiqor show {result.after}')}"])


def _row(state: str, change: CauseChange) -> list[str]:
    severities = [severity for severity in (change.severity_before, change.severity_after) if severity]
    counts = [f"{number}x" for number in (change.occurrences_before, change.occurrences_after) if number]
    # A value that did not change is shown once.
    texts = (" → ".join(dict.fromkeys(words)) for words in (severities, counts))
    return [state, *texts, change.cause, change.title]
