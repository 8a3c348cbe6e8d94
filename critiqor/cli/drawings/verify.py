"""Drawing of `critiqor verify`: whether the seal is intact, and where it is broken."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.styled_text import indented, next_command, styled, untrusted
from critiqor.cli.terminal.tables import facts_grid
from critiqor.storage.seals.verification import Verification


def seal_drawing(result: Verification) -> Group:
    """Draw the result, what was sealed, and what differs."""
    return Group(*_parts(result))


def _parts(result: Verification) -> Iterator[RenderableType]:
    if result.intact:
        yield styled("✓ INTACT  ", "bold green").append(
            f"the evidence of {result.run_id} is unchanged since it was sealed", "bold"
        )
    else:
        yield styled("✗ BROKEN  ", "bold red").append(
            f"the evidence of {result.run_id} was changed after sealing", "bold"
        )
    yield Text()
    sealed = [("events", Text(str(result.events))), ("sealed", untrusted(result.digest))]
    if not result.intact:
        sealed.append(("found", untrusted(result.found or "nothing", "red")))
    yield facts_grid(sealed)
    if result.problems:
        yield Text()
        yield from (indented(untrusted(f"· {problem}")) for problem in result.problems)
    if result.intact:
        yield next_command(f"critiqor show {result.run_id}")
