"""Drawing of `critiqor compare`: the verdict, what happened to each problem, and the figures."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.bars import bar
from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, indented, next_command, score_style, styled, untrusted
from critiqor.cli.terminal.tables import FittingTable, draw_report_tables, facts_grid
from critiqor.cli.texts.compare import Texts, figure_cells
from critiqor.comparison.causes import CauseChange
from critiqor.comparison.compare import Comparison
from critiqor.comparison.figures import FIGURE_LABELS
from critiqor.model.formatting import UNKNOWN, format_identifier
from critiqor.model.timeline import TimingComparison
from critiqor.timeline.reports.comparison_report import comparison_parts

VERDICTS = {
    "better": ("✓", "bold green"),
    "worse": ("✗", "bold red"),
    "mixed": ("!", "bold yellow"),
    "cannot tell": ("?", "bold yellow"),
}
"""Marks and styles of verdicts; others are neither good nor bad."""
MORE_IS_BETTER = {"trust": True, "confidence": True, "findings": False}
"""Whether more is better, by figure; cost and time are left out because they vary from run to run."""


def comparison_drawing(result: Comparison, timing: TimingComparison, texts: Texts) -> Group:
    """Draw what changed, the verdict first. `texts` has trust, cost and time of both runs."""
    return Group(*_parts(result, timing, texts))


def _parts(result: Comparison, timing: TimingComparison, texts: Texts) -> Iterator[RenderableType]:
    mark, style = VERDICTS.get(result.verdict, ("·", "bold"))
    yield styled(f"{mark} ", style).append_text(untrusted(result.summary, style))
    yield untrusted(f"{result.before} → {result.after}", FAINT)
    yield Text()
    trust, (before, after) = result.figures.trust, texts
    yield facts_grid(
        [("before", _trust(trust.before, before["trust"])), ("after", _trust(trust.after, after["trust"]))]
    )
    problems = [
        *(_problem("gone", "green", change) for change in result.gone),
        *(_problem("new", "red", change) for change in result.new),
        *(_problem("still there", "yellow", change) for change in result.still_there),
    ]
    if problems:
        yield Text()
        yield FittingTable(["", "", "", "", ""], problems, wrapped=True)
    yield Text()
    yield FittingTable(["", "before", "after", "difference"], list(_figures(result, texts)))
    if result.notes:
        yield Text()
        yield from (indented(untrusted(f"· {note}", FAINT)) for note in result.notes)
    yield Text()
    yield from draw_report_tables(list(comparison_parts(timing)))
    yield next_command(f"critiqor show {result.after}")


def _trust(trust: float | None, text: str) -> Text:
    if trust is None or text == UNKNOWN:
        return Text(f"trust {UNKNOWN}")
    return bar(trust / 100, style=score_style(trust)).append(f"  trust {text}")


def _problem(state: str, style: str, change: CauseChange) -> list[Text]:
    severities = [severity for severity in (change.severity_before, change.severity_after) if severity]
    counts = [f"{number}x" for number in (change.occurrences_before, change.occurrences_after) if number]
    # A value that did not change is shown once.
    severity, count = (" → ".join(dict.fromkeys(words)) for words in (severities, counts))
    return [
        Text(state, style),
        Text(severity, SEVERITIES[severities[-1]]),
        Text(count),
        untrusted(change.cause, max_length=60),
        untrusted(change.title + f" ({change.place})" * bool(change.place)),
    ]


def _figures(result: Comparison, texts: Texts) -> Iterator[list[Text]]:
    outcomes = (format_identifier(state) for state in (result.outcome_before, result.outcome_after))
    yield [Text("outcome"), *map(Text, outcomes), Text()]
    for name, label in FIGURE_LABELS.items():
        before, after, difference = figure_cells(result, name, texts)
        changed = getattr(result.figures, name).difference
        yield [Text(label), Text(before), Text(after), Text(difference, _judged(name, changed))]


def _judged(name: str, changed: float | None) -> str:
    if not changed or name not in MORE_IS_BETTER:
        return FAINT
    return "green" if (changed > 0) is MORE_IS_BETTER[name] else "red"
