"""Two runs beside each other on a terminal: is it better, what became of each problem, and what the figures did."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.bars import bar, score_style
from critiqor.cli.terminal.screen import FAINT, SEVERITIES, facts_grid, indented, next_command, styled, untrusted
from critiqor.cli.terminal.tables import FittingTable, draw_parts
from critiqor.cli.wording import LABELS, difference, figure
from critiqor.comparison.compare import CauseChange, Comparison
from critiqor.model.timing import TimingComparison
from critiqor.timeline.comparison import timing_parts

VERDICTS = {
    "better": ("✓", "bold green"),
    "worse": ("✗", "bold red"),
    "mixed": ("!", "bold yellow"),
    "cannot tell": ("?", "bold yellow"),
}
"""How a verdict is marked; others are neither good nor bad."""
MORE_IS_BETTER = {"trust": True, "confidence": True, "findings": False}
"""Which way a figure should go, where there is a way; cost and time vary from run to run by themselves."""


def comparison_drawing(result: Comparison, timing: TimingComparison) -> Group:
    """What changed, the verdict first."""
    return Group(*_parts(result, timing))


def _parts(result: Comparison, timing: TimingComparison) -> Iterator[RenderableType]:
    mark, style = VERDICTS.get(result.verdict, ("·", "bold"))
    yield styled(f"{mark} ", style).append_text(untrusted(result.summary, style))
    yield untrusted(f"{result.before} → {result.after}", FAINT)
    yield Text()
    trust = result.figures.trust
    yield facts_grid([("before", _trust(trust.before)), ("after", _trust(trust.after))])
    problems = [
        *(_problem("gone", "green", change) for change in result.gone),
        *(_problem("new", "red", change) for change in result.new),
        *(_problem("still there", "yellow", change) for change in result.still_there),
    ]
    if problems:
        yield Text()
        yield FittingTable(["", "", "", "", ""], problems, wrapped=True)
    yield Text()
    yield FittingTable(["", "before", "after", "difference"], list(_figures(result)))
    if result.notes:
        yield Text()
        yield from (indented(untrusted(f"· {note}", FAINT)) for note in result.notes)
    yield Text()
    yield from draw_parts(list(timing_parts(timing)))
    yield next_command(f"critiqor show {result.after}")


def _trust(trust: float | None) -> Text:
    if trust is None:
        return Text("trust unknown")
    return bar(trust / 100, style=score_style(trust)).append(f"  trust {trust}")


def _problem(became: str, style: str, change: CauseChange) -> list[Text]:
    severities = [severity for severity in (change.severity_before, change.severity_after) if severity]
    counts = [f"{number}x" for number in (change.occurrences_before, change.occurrences_after) if number]
    # Each once where nothing changed.
    severity, count = (" → ".join(dict.fromkeys(words)) for words in (severities, counts))
    return [
        Text(became, style),
        Text(severity, SEVERITIES[severities[-1]]),
        Text(count),
        untrusted(change.cause, max_length=60),
        untrusted(change.title),
    ]


def _figures(result: Comparison) -> Iterator[list[Text]]:
    outcomes = (state.replace("_", " ") for state in (result.outcome_before, result.outcome_after))
    yield [Text("outcome"), *map(Text, outcomes), Text()]
    for name, label in LABELS.items():
        change = getattr(result.figures, name)
        told = [Text(figure(name, change.before)), Text(figure(name, change.after))]
        yield [Text(label), *told, Text(difference(name, change.difference), _judged(name, change.difference))]


def _judged(name: str, changed: float | None) -> str:
    if not changed or name not in MORE_IS_BETTER:
        return FAINT
    return "green" if (changed > 0) is MORE_IS_BETTER[name] else "red"
