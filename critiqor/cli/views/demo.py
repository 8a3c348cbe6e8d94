"""The stories of the demo on a terminal: each with its lesson and its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.screen import FAINT, indented, styled, unbroken, untrusted
from critiqor.cli.views.show import concluded
from critiqor.lab.demo import Act


def acts_drawing(acts: Sequence[Act], following: Iterable[tuple[str, str]]) -> Group:
    """Story by story, then what to type next: commands, each with what it is good for."""
    return Group(*_parts(acts, following))


def _parts(acts: Sequence[Act], following: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    for number, act in enumerate(acts, 1):
        yield styled(f"{number}. {act.lesson}", "bold underline").append(f"  {act.run_id}", FAINT)
        yield indented(Text(act.description, FAINT))
        yield Text()
        yield from (indented(part) for part in concluded(act.diagnosis))
        yield Text()
    yield Text("Next", "bold")
    for command, purpose in following:
        yield indented(Text(purpose, FAINT))
        yield unbroken(Text("    ").append_text(untrusted(command, "bold")))
