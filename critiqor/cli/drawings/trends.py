"""Drawing of `critiqor trends`: the runs of one agent over time."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, indented, next_command, preformatted, styled, untrusted
from critiqor.cli.terminal.tables import FittingTable
from critiqor.cli.texts.trends import FIGURES, Texts, figure_cells, notes_of, title_of, when, where
from critiqor.comparison.commands import show_command
from critiqor.comparison.figures import FIGURE_LABELS
from critiqor.comparison.trends import CauseTrend, RunPoint, Trends
from critiqor.model.formatting import format_identifier

MAX_CAUSE = 60
"""Maximum length of the cause below a title in characters."""


def trends_drawing(result: Trends, texts: Texts) -> Group:
    """Draw the runs in order of time, the recurring problems, and notes. `texts` has cost and time of each run."""
    return Group(*_parts(result, texts))


def _parts(result: Trends, texts: Texts) -> Iterator[RenderableType]:
    yield untrusted(title_of(result), "bold")
    if result.runs:
        yield Text()
        heads = ("run", "created", *(FIGURE_LABELS[name] for name in FIGURES), "main problem")
        yield FittingTable(heads, [_run(run, texts) for run in result.runs], wrapped=True)
    for cause in result.causes:
        yield Text()
        yield from _cause(cause)
    if notes := notes_of(result):
        yield Text()
        yield from (indented(preformatted(f"· {note}", FAINT)) for note in notes)
    if result.runs:
        yield next_command(show_command(result.runs[-1].run_id))


def _run(run: RunPoint, texts: Texts) -> list[Text]:
    figures = map(Text, figure_cells(run, texts))
    created = (run.created_at or "-")[:16].replace("T", " ")
    problem = untrusted(format_identifier(run.primary_type or "-") + where(run))
    return [untrusted(run.run_id, "bold"), untrusted(created, FAINT), *figures, problem]


def _cause(cause: CauseTrend) -> Iterator[RenderableType]:
    severity = styled(f"{cause.severity.upper()}  ", SEVERITIES[cause.severity])
    yield severity.append_text(untrusted(cause.title, "bold"))
    yield indented(preformatted(f"in {cause.runs} of {cause.of} runs, {when(cause)}"))
    yield indented(untrusted(cause.cause, FAINT, max_length=MAX_CAUSE))
