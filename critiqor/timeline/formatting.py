"""Figures of timelines in words, the same in every report."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.model.timeline import spent
from critiqor.timeline.layout import Name, Piece


def ms(duration: float | None) -> str:
    """A duration, empty where there is none."""
    return "" if duration is None else spent(duration)


def memory(size: int) -> str:
    """Bytes in megabytes; whole numbers only, because a file can hold one that no float can."""
    return f"{(size + 500_000) // 1_000_000} MB"


def named(name: str, detail: str | None) -> Name:
    """A span and which one of that name."""
    return Name(f"{name} ({detail})" if detail else name)


def listed(names: Iterable[Name]) -> list[Piece]:
    """Names with commas."""
    pieces: list[Piece] = []
    for name in names:
        pieces += [", ", name] if pieces else [name]
    return pieces


def count_of(number: int, noun: str, nouns: str | None = None) -> str:
    """How many there are of something."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def pid_of(pid: int | None) -> str:
    """A process, where it is known."""
    return "?" if pid is None else str(pid)
