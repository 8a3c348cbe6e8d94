"""What a real terminal shows of a verb: a process with a terminal of its own, and an emulator that obeys it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import pexpect
import pyte
from support import PATIENCE_SECONDS, critiqor_command, environment
from wcwidth import wcswidth

ROWS = 50
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COLOR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;0-9]*m")


@dataclass(frozen=True)
class Shown:
    """What a verb wrote to a terminal, and what that looked like in the end."""

    raw: str
    columns: int
    code: int | None

    @cached_property
    def lines(self) -> list[str]:
        """All lines from the first on, including those scrolled away; rendered on access."""
        return displayed(self.raw, self.columns)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def words(self) -> str:
        """On one line, wherever it was wrapped."""
        return " ".join(self.text.split())

    @property
    def unstyled(self) -> str:
        """What was written, without the styles: nothing that a terminal obeys is left in it."""
        return _STYLE.sub("", self.raw)

    @property
    def has_color(self) -> bool:
        return _COLOR.search(self.raw) is not None

    @property
    def widths(self) -> list[int]:
        """Columns that each line was written for; a command to be pasted is not broken into lines, and left out."""
        lines = self.unstyled.split("\r\n")
        return [wcswidth(line) for line in lines if not line.startswith(("Next: critiqor ", "sealed: "))]


def spawn(
    *arguments: str | Path,
    home: Path,
    columns: int = 80,
    rows: int = ROWS,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> pexpect.spawn[str]:
    """A verb in a terminal of its own, which goes on."""
    [program, *words] = critiqor_command(*arguments)
    return pexpect.spawn(
        program,
        words,
        dimensions=(rows, columns),
        cwd=str(home),
        env=environment(home, **{"TERM": "xterm-256color", **variables}),
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )


def shown(
    *arguments: str | Path, home: Path, columns: int = 80, variables: Mapping[str, str] = MappingProxyType({})
) -> Shown:
    """A verb in a terminal, to its end."""
    child = spawn(*arguments, home=home, columns=columns, variables=variables)
    child.expect(pexpect.EOF)
    child.close()
    assert child.before is not None
    return Shown(child.before, columns, child.exitstatus)


def displayed(raw: str, columns: int, rows: int = ROWS) -> list[str]:
    """The lines that a terminal shows after all that."""
    screen = pyte.HistoryScreen(columns, rows, history=10_000)
    pyte.Stream(screen).feed(raw)
    gone = ["".join(line[column].data for column in range(columns)) for line in screen.history.top]
    return "\n".join(line.rstrip() for line in (*gone, *screen.display)).rstrip("\n").split("\n")
