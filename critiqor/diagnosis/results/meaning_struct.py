"""The meaning of a tool result: what it says about the call, and where it says so."""

from __future__ import annotations

from typing import Literal

import msgspec

ResultState = Literal["success", "failure", "not_final", "unknown"]
"""What a result says: the call did what it should, it did not, it is not decided yet, or nothing."""
MAX_QUOTE = 160
"""Maximum number of characters of a quote."""


class Meaning(msgspec.Struct, frozen=True, gc=False):
    """What the result of a tool call means."""

    state: ResultState
    reason: str
    """A fragment of a sentence, such as `exit code 7`; empty if unknown."""
    quote: str = ""
    """The line or member of the output that says so; empty if only the exit code does."""
    start: int = -1
    """Position of the quote in the text; -1 if there is none."""
    rule: str = ""
    """Name of the rule that applied."""
    failed: int | None = None
    """Number of failed items, if stated."""
    passed: int | None = None
    """Number of items that succeeded, if stated."""
    total: int | None = None
    """Number of all items, if stated."""
    items: tuple[str, ...] = ()
    """The names of the items that this is about, if only some failed or are not final."""


UNKNOWN = Meaning("unknown", "")
"""Nothing is said about the call."""
SEVERITY: dict[ResultState, int] = {"failure": 3, "not_final": 2, "success": 1, "unknown": 0}
"""Which of two statements about the same call decides."""
