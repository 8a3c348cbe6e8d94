"""What is wrong with lines, counted by kind, with the first line numbers of each."""

from __future__ import annotations

from critiqor.model.timeline import LineProblem

MOST_EXAMPLES = 5
MOST_KINDS = 64
"""A file of nothing but new field names must not fill the memory; the rest is counted as one."""


class Problems:
    """A ledger of problems: what it is, how often, and where first."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None], list[int]] = {}
        self._counts: dict[tuple[str, str | None], int] = {}

    def note(self, line: int, kind: str, what: str | None = None) -> None:
        """One more of a kind."""
        key = (kind, what)
        if key not in self._counts and len(self._counts) >= MOST_KINDS:
            key = (kind, None)
        self._counts[key] = self._counts.get(key, 0) + 1
        lines = self._found.setdefault(key, [])
        if len(lines) < MOST_EXAMPLES:
            lines.append(line)

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def told(self) -> list[LineProblem]:
        """All of them, the most frequent first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
        return [LineProblem(kind, what, count, self._found[kind, what]) for (kind, what), count in ordered]
