"""Runs that were recorded elsewhere, turned into events: what each format tells, and honestly what it does not.

for trace in read_traces(path):
    trace.trace_id, trace.events, trace.notes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.errors import UsageError
from critiqor.importers.files import read_entries, refuse_what_is_no_text
from critiqor.importers.neutral import NAME as NEUTRAL
from critiqor.importers.neutral import is_neutral, read_neutral
from critiqor.importers.span_records import holds_spans
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

__all__ = ["FORMATS", "ImportedTrace", "read_traces", "recognise"]

_LOOKED_AT = 50
"""Values at the beginning of a file by which its format is recognised."""


class _Format(NamedTuple):
    what: str
    is_of_it: Callable[[Any], bool]
    read: Callable[[Path, bytes], Iterator[ImportedTrace]]


_FORMATS = {
    TRANSCRIPT: _Format("a session transcript of OpenClaw (JSON Lines)", is_transcript, read_transcript),
    TRAJECTORY: _Format("events.jsonl of an OpenClaw trajectory export", is_trajectory, read_trajectory),
    # Before the neutral shape, because a span has a list of events as well.
    SPANS: _Format("OpenTelemetry spans (OTLP/JSON, OpenInference or GenAI conventions)", holds_spans, read_spans),
    NEUTRAL: _Format('JSON Lines of {"labels": …, "events": […]}', is_neutral, read_neutral),
}
FORMATS: dict[str, str] = {name: known.what for name, known in _FORMATS.items()}
"""The formats that can be imported, by name, each in words."""


def recognise(path: str | Path) -> str:
    """The name of the format of a file, one of `FORMATS`; where it is none of them, an error says what was found."""
    file = Path(path)
    refuse_what_is_no_text(file)
    found: list[str] = []
    for entry in islice(read_entries(file), _LOOKED_AT):
        for name, known in _FORMATS.items():
            if known.is_of_it(entry.value):
                return name
        found.append(entry.problem or _described(entry.value))
    what = found[0] if found else "nothing"
    raise UsageError(
        f"{file.name} is in no format that can be imported; its first line is {what}",
        fix="what can be: " + "; ".join(FORMATS.values()),
    )


def read_traces(path: str | Path, key: bytes = b"import") -> Iterator[ImportedTrace]:
    """Every run that a file tells of, one after another.

    A trace that could not be read at all comes without events, and its notes say why. Secrets are replaced by tags that
    are made with `key`: with one that nobody knows, a tag cannot be tried against a guess.
    """
    return _FORMATS[recognise(path)].read(Path(path), key)


def _described(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(str(name)[:40] for name in islice(value, 6))
        return f"an object with {names}" if names else "an empty object"
    return "a list" if isinstance(value, list) else "a bare value"
