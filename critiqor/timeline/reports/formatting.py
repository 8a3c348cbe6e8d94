"""Formatting of values and names of a timeline, the same in every report."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.model.formatting import format_duration
from critiqor.timeline.reports.layout import Name, Piece


def ms(duration: float | None) -> str:
    """Format milliseconds for a report of a timeline; empty if there is no duration."""
    return "" if duration is None else format_duration(duration)


def memory(size: int) -> str:
    """Format bytes as megabytes for a report of a timeline, in integers: a file can hold numbers beyond a float."""
    return f"{(size + 500_000) // 1_000_000} MB"


def span_label(name: str, detail: str | None) -> Name:
    """Return the name of a span in a report, with the detail that distinguishes it from others of that name."""
    return Name(f"{name} ({detail})" if detail else name)


def join_names(names: Iterable[Name]) -> list[Piece]:
    """Return names from a timeline as pieces of a report, with commas between them."""
    pieces: list[Piece] = []
    for name in names:
        pieces += [", ", name] if pieces else [name]
    return pieces


def format_pid(pid: int | None) -> str:
    """Format a process id for a report of a timeline; a question mark if it is unknown."""
    return "?" if pid is None else str(pid)
