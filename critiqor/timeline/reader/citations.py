"""Single lines of a timeline, quoted as evidence of a finding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from critiqor.model.timeline import line_id, line_of_id
from critiqor.model.timestamps import ms_from_iso, us_of
from critiqor.storage.atomic import open_regular_file
from critiqor.timeline.reader.lines import MAX_LINE_BYTES

FieldValue = str | int | float | bool | None

_QUOTED_FIELDS = (
    *("type", "timestamp", "pid", "name", "phase", "durationMs", "errorName"),
    *("maxMs", "p99Ms", "p95Ms", "p50Ms", "activeSpanName"),
    *("provider", "operation", "ok", "exitCode", "signal"),
)
"""No attributes, command lines or messages: they can hold secrets, and this file is not redacted."""
MAX_TEXT_LENGTH = 200


def read_cited_lines(path: Path, numbers: set[int]) -> dict[int, dict[str, FieldValue]]:
    """Return the quotable fields of the lines with these numbers; lines that cannot be read are left out."""
    found: dict[int, dict[str, FieldValue]] = {}
    last = max(numbers, default=0)
    try:
        with open_regular_file(path, buffering=1 << 16) as file:
            number = 1
            while number <= last and (line := file.readline(MAX_LINE_BYTES)):
                if number in numbers and number not in found:
                    found |= {number: fields} if (fields := _quoted_fields(line)) else {}
                number += line.endswith(b"\n")
    except OSError:
        return found
    return found


def _quoted_fields(line: bytes) -> dict[str, FieldValue]:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: _cut(content[name]) for name in _QUOTED_FIELDS if isinstance(content.get(name), str | int | float)}


def _cut(value: FieldValue) -> FieldValue:
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value


def cited_moments(cited: Iterable[str], timeline: Path) -> dict[str, int]:
    """Return when the cited lines of a timeline were written, by id; microseconds since 1970."""
    numbers = {number for name in cited if (number := line_of_id(name)) is not None}
    lines = read_cited_lines(timeline, numbers)
    times = {number: ms_from_iso(str(line.get("timestamp"))) for number, line in lines.items()}
    return {line_id(number): us_of(moment) for number, moment in times.items() if moment is not None}
