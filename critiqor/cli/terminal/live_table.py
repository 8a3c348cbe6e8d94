"""A table of lab scenarios that is updated while they run; terminals only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from critiqor.cli.terminal.cursor import restored_cursor
from critiqor.cli.terminal.screen import screen
from critiqor.cli.terminal.styled_text import FAINT, untrusted

if TYPE_CHECKING:
    from critiqor.lab.batch import ProgressCallback, ScenarioResult

NUMERIC = ("trust", "seconds")
FRAME_LINES = 4
"""Number of lines around the rows. Rows that do not fit on the screen cannot be updated."""


@contextmanager
def live_table(count: int) -> Iterator[ProgressCallback]:
    """Draw the table on standard error until the end of the block; yields the function that reports a scenario.

    `count` is the number of scenarios. The table shows the latest ones, and at the end all of them.
    """
    known: dict[str, ScenarioResult | None] = {}
    lock = threading.Lock()
    console = screen(sys.stderr)
    with restored_cursor(), Live(Table.grid(), console=console, refresh_per_second=8) as live:

        def report(name: str, result: ScenarioResult | None) -> None:
            with lock:
                known[name] = result
                latest = list(known)[-max(1, console.height - FRAME_LINES) :]
                live.update(_table(_title(known, count), {one: known[one] for one in latest}))

        yield report
        live.update(_table(_title(known, count), known))


def _title(known: Mapping[str, ScenarioResult | None], count: int) -> str:
    return f"{sum(result is not None for result in known.values())} of {count} scenarios"


def _table(title: str, shown: Mapping[str, ScenarioResult | None]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for head in ("", "scenario", "expected", "seen", "trust", "seconds"):
        # On a narrow terminal texts are shortened, the verdict and numbers are not.
        table.add_column(head, justify="right" if head in NUMERIC else "left", no_wrap=head in ("", *NUMERIC))
    for name, result in shown.items():
        table.add_row(*_cells(name, result))
    return table


def _cells(name: str, result: ScenarioResult | None) -> list[Text]:
    if result is None:
        return [Text("running", FAINT), _text(name), *(Text("") for _ in range(4))]
    seen = result.plays[-1].seen
    seconds = sum(verdict.seconds for verdict in result.plays)
    found = ", ".join(seen.findings) or "nothing" if seen else "not run"
    trust = "" if seen is None or seen.trust is None else str(seen.trust)
    verdict = Text("ok", "green") if result.passed else Text("FAILED", "bold red")
    return [verdict, _text(name), _text(result.expected), _text(found), Text(trust), Text(f"{seconds:.1f}")]


def _text(text: str) -> Text:
    line = untrusted(text)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
