"""Commands that stand in a message: `/new`, `/reset`, `/stop`, `/compact`."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

CommandName = Literal["new", "reset", "stop", "compact"]
_COMMAND = re.compile(r"\s*/(new|reset|stop|compact)(?:\s+(.*))?\s*", re.DOTALL)


class Command(NamedTuple):
    """A command and what stands behind it."""

    name: CommandName
    rest: str


def command_in(message: str) -> Command | None:
    """The command that a message begins with; None for a message that is for the model."""
    found = _COMMAND.fullmatch(message)
    return Command(found[1], (found[2] or "").strip()) if found else None  # type: ignore[arg-type]
