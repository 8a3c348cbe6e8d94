"""Problems with lines of a timeline, counted by kind, with the first line numbers of each."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.model.timeline import LineProblem

MAX_EXAMPLES = 5
MAX_KINDS = 64
"""Maximum number of kinds, which bounds the memory for a file of unknown field names; further kinds share one count."""


class ProblemCounter:
    """Problems by kind: how often each occurred, and in which lines first."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str | None], list[int]] = {}
        self._counts: dict[tuple[str, str | None], int] = {}
        self._incomplete: set[str] = set()

    def add(self, line: int, kind: str, what: str | None = None) -> None:
        """Count a problem of this kind in this line."""
        key = (kind, what)
        if key not in self._counts and len(self._counts) >= MAX_KINDS:
            key = (kind, None)
        self._counts[key] = self._counts.get(key, 0) + 1
        lines = self._lines.setdefault(key, [])
        if len(lines) < MAX_EXAMPLES:
            lines.append(line)

    def mark_incomplete(self, kind: str) -> None:
        """Note that not every line was searched for problems of this kind: their counts are lower bounds."""
        self._incomplete.add(kind)

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def summary(self) -> list[LineProblem]:
        """Return all problems, the most frequent first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
        return [
            LineProblem(kind, what, count, self._lines[kind, what], at_least=kind in self._incomplete)
            for (kind, what), count in ordered
        ]


class LineProblems(NamedTuple):
    """The problems found while one file is read."""

    unreadable: ProblemCounter
    """Lines that are lost."""
    irregular: ProblemCounter
    """Lines that are used although something about them is wrong."""

    @classmethod
    def empty(cls) -> LineProblems:
        """Return counters without any problem."""
        return cls(ProblemCounter(), ProblemCounter())
