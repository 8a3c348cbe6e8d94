"""Drawing of `critiqor verify`: whether the seal is intact, and where it is broken."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.terminal.styled_text import FAINT, indented, next_command, styled, untrusted
from critiqor.cli.terminal.tables import facts_grid
from critiqor.storage.seals.verification import Verification

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not checked": ("·", FAINT)}


def seal_drawing(result: Verification) -> Group:
    """Draw the result, what was sealed, and what differs."""
    return Group(*_parts(result))


def _parts(result: Verification) -> Iterator[RenderableType]:
    if result.intact:
        yield styled("✓ INTACT  ", "bold green").append(
            f"the evidence of {result.run_id} is unchanged since it was sealed", "bold"
        )
    else:
        is_evidence = any(check.name == "evidence" and check.state == "failed" for check in result.checks)
        what = f"the evidence of {result.run_id} was" if is_evidence else f"files of {result.run_id} were"
        yield styled("✗ BROKEN  ", "bold red").append(f"{what} changed after sealing", "bold")
    yield Text()
    sealed = [("events", Text(str(result.events))), ("sealed", untrusted(result.digest))]
    if result.found != result.digest:
        sealed.append(("found", untrusted(result.found or "nothing", "red")))
    yield facts_grid(sealed)
    yield Text()
    for check in result.checks:
        mark, style = _MARKS[check.state]
        line = styled(f"{mark} ", style).append(f"{check.name.replace('_', ' ')}: ", FAINT)
        yield indented(line.append_text(untrusted(check.explanation)))
        if check.fix is not None and check.state == "failed":
            yield indented(untrusted(f"  → {add_runs_dir(check.fix)}"))
    if result.intact:
        yield next_command(f"critiqor show {result.run_id}")
