"""The formats that can be imported: detect the format of a file, and read its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.errors import UsageError
from critiqor.importers.files import read_entries, reject_binary_file
from critiqor.importers.neutral import NAME as NEUTRAL
from critiqor.importers.neutral import is_neutral, read_neutral
from critiqor.importers.span_records import contains_spans
from critiqor.importers.spans import NAME as SPANS
from critiqor.importers.spans import read_spans
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.transcripts import (
    TRAJECTORY,
    TRANSCRIPT,
    is_trajectory,
    is_transcript,
    read_trajectory,
    read_transcript,
)

_SAMPLED_VALUES = 50
"""Values at the beginning of a file from which its format is detected."""


class _Format(NamedTuple):
    description: str
    matches: Callable[[Any], bool]
    read: Callable[[Path, bytes], Iterator[ImportedTrace]]


_FORMATS = {
    TRANSCRIPT: _Format("a session transcript of OpenClaw (JSON Lines)", is_transcript, read_transcript),
    TRAJECTORY: _Format("events.jsonl of an OpenClaw trajectory export", is_trajectory, read_trajectory),
    # Before the neutral format, because a span has a list of events too.
    SPANS: _Format("OpenTelemetry spans (OTLP/JSON, OpenInference or GenAI conventions)", contains_spans, read_spans),
    NEUTRAL: _Format('JSON Lines of {"labels": …, "events": […]}', is_neutral, read_neutral),
}
FORMATS: dict[str, str] = {name: known.description for name, known in _FORMATS.items()}
"""Descriptions of the formats that can be imported, by name."""


def detect_format(path: str | Path) -> str:
    """Return the name of the format of a file, one of `FORMATS`. Raises UsageError if it is none of them."""
    file = Path(path)
    reject_binary_file(file)
    found: list[str] = []
    for entry in islice(read_entries(file), _SAMPLED_VALUES):
        for name, known in _FORMATS.items():
            if known.matches(entry.value):
                return name
        found.append(entry.problem or _describe(entry.value))
    what = found[0] if found else "nothing"
    raise UsageError(
        f"{file.name} is not in a format that can be imported; its first value is {what}",
        fix="supported formats: " + "; ".join(FORMATS.values()),
    )


def read_traces(path: str | Path, key: bytes = b"import") -> Iterator[ImportedTrace]:
    """Yield the trace of every run in a file, whose format is detected.

    A trace that cannot be read has no events, and its notes say why. Secrets are replaced by tags derived from `key`;
    if the key is secret, a guessed secret cannot be checked against a tag.
    """
    return _FORMATS[detect_format(path)].read(Path(path), key)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(str(name)[:40] for name in islice(value, 6))
        return f"an object with {names}" if names else "an empty object"
    return "a list" if isinstance(value, list) else "a plain value"
