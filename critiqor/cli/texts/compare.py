"""Text of `critiqor compare`: what happened to each problem, and the figures."""

from __future__ import annotations

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.text_layout import page, table
from critiqor.comparison.causes import CauseChange
from critiqor.comparison.commands import show_command
from critiqor.comparison.compare import Comparison
from critiqor.comparison.figures import FIGURE_LABELS, format_difference, format_figure
from critiqor.model.formatting import format_identifier
from critiqor.model.timeline import TimingComparison
from critiqor.timeline.reports.comparison_report import comparison_parts
from critiqor.timeline.reports.layout import as_lines

Texts = tuple[dict[str, str], dict[str, str]]
"""Trust, cost and time of the run before and of the run after."""


def figure_cells(result: Comparison, name: str, texts: Texts) -> tuple[str, str, str]:
    """Return a figure before and after, and its difference.

    `texts` has trust, cost and time of both runs, even if they cannot be compared.
    """
    change = getattr(result.figures, name)
    known = (change.before, change.after)
    before, after = (text.get(name, format_figure(name, value)) for text, value in zip(texts, known, strict=True))
    return before, after, format_difference(name, change.difference)


def comparison_text(result: Comparison, timing: TimingComparison, texts: Texts) -> str:
    """Return the comparison of two runs as plain text."""
    lines = [f"{result.before} → {result.after}  {result.summary}"]
    problems = [
        *(_row("gone", change) for change in result.gone),
        *(_row("new", change) for change in result.new),
        *(_row("still there", change) for change in result.still_there),
    ]
    if problems:
        lines += ["", *table(problems)]
    rows = [["", "before", "after", "difference"]]
    rows.append(["outcome", *(format_identifier(state) for state in (result.outcome_before, result.outcome_after)), ""])
    rows += [[label, *figure_cells(result, name, texts)] for name, label in FIGURE_LABELS.items()]
    lines += ["", *table(rows)]
    if result.notes:
        lines += ["", *(f"  · {note}" for note in result.notes)]
    lines += ["", *as_lines(comparison_parts(timing))]
    return page([*lines, "", f"  Next: {add_runs_dir(show_command(result.after))}"])


def _row(state: str, change: CauseChange) -> list[str]:
    severities = [severity for severity in (change.severity_before, change.severity_after) if severity]
    counts = [f"{number}x" for number in (change.occurrences_before, change.occurrences_after) if number]
    # A value that did not change is shown once.
    texts = (" → ".join(dict.fromkeys(words)) for words in (severities, counts))
    return [state, *texts, change.cause, change.title + f" ({change.place})" * bool(change.place)]
