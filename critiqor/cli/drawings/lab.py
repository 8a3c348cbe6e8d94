"""Drawing of `critiqor lab list`: the scenarios."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from critiqor.cli.terminal.styled_text import next_command, untrusted
from critiqor.cli.terminal.tables import FittingTable
from critiqor.model.formatting import counted

HEADS = ("scenario", "must lead to", "on", "")


def scenarios_drawing(rows: Sequence[Sequence[str]], following: str) -> Group:
    """Draw name, expected finding, location and description of each scenario, and the next command."""
    table = FittingTable(HEADS, [[untrusted(cell) for cell in row] for row in rows], wrapped=True)
    return Group(table, Text(), Text(counted(len(rows), "scenario")), next_command(following))
