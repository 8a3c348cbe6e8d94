"""Drawing of `critiqor demo`: each run with its lesson and its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.drawings.show import diagnosis_parts
from critiqor.cli.terminal.styled_text import FAINT, indented, styled, unbroken, untrusted
from critiqor.lab.demo import Act
from critiqor.model.verdict import fresh_verdict


def acts_drawing(acts: Sequence[Act], following: Iterable[tuple[str, str]]) -> Group:
    """Draw the runs one by one, then the suggested next commands with their purposes."""
    return Group(*_parts(acts, following))


def _parts(acts: Sequence[Act], following: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    for number, act in enumerate(acts, 1):
        yield styled(f"{number}. {act.lesson}", "bold underline").append(f"  {act.run_id}", FAINT)
        yield indented(Text(act.description, FAINT))
        yield Text()
        yield from (indented(part) for part in diagnosis_parts(act.diagnosis, fresh_verdict(act.diagnosis)))
        yield Text()
    yield Text("Next", "bold")
    for command, purpose in following:
        yield indented(Text(purpose, FAINT))
        yield unbroken(Text("    ").append_text(untrusted(command, "bold")))
