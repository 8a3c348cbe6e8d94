"""Single lines of a timeline, as evidence for a finding."""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.timeline.reader.lines import LONGEST_LINE

Told = str | int | float | bool | None

_TOLD = (
    *("type", "timestamp", "pid", "name", "phase", "durationMs", "errorName"),
    *("maxMs", "p99Ms", "p95Ms", "p50Ms", "activeSpanName"),
    *("provider", "operation", "ok", "exitCode", "signal"),
)
"""Neither attributes nor command lines nor messages: they can hold secrets, and nothing redacts this file."""
LONGEST_TEXT = 200


def cited_lines(path: Path, numbers: set[int]) -> dict[int, dict[str, Told]]:
    """What these lines say, by number, as far as it can be shown; one that cannot be read is left out."""
    found: dict[int, dict[str, Told]] = {}
    last = max(numbers, default=0)
    try:
        with path.open("rb") as file:
            number = 1
            while number <= last and (line := file.readline(LONGEST_LINE)):
                if number in numbers and number not in found:
                    found |= {number: told} if (told := _told(line)) else {}
                number += line.endswith(b"\n")
    except OSError:
        return found
    return found


def _told(line: bytes) -> dict[str, Told]:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: _short(content[name]) for name in _TOLD if isinstance(content.get(name), str | int | float)}


def _short(value: Told) -> Told:
    return value[:LONGEST_TEXT] if isinstance(value, str) else value
