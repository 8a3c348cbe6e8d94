"""The lines of the contract `openclaw.diagnostics.v1`, one struct a type.

Decoding is strict, because strict decoding costs nothing: whatever these structs refuse goes to `salvage`, which takes
its time to find out what is wrong with a line and what of it can still be used.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec

SCHEMA = "openclaw.diagnostics.v1"
LONGEST_NAME = 256
"""Characters; a longer name, id or label is cut by `salvage`."""
LONGEST_MS = 1e11
"""Three years: what is longer is no duration."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_MS)]


class Attributes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is used of the attributes; they are free, so others are no surprise."""

    stage: Name | None = None
    """Which step it is, where one name covers many."""
    trace_name: Name | None = None
    """The same, of a gateway that starts."""
    plugin_id: Name | None = None
    dependency_count: float | None = None
    model: Name | None = None
    run_id: Name | None = None
    """The agent's own run id, on the spans of a turn."""
    decision: Name | None = None
    """Of a mark about retries: `rejected` ends the run."""
    load_ms: float | None = None
    register_ms: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """What every line can have."""

    schema_version: Literal["openclaw.diagnostics.v1"]
    timestamp: Moment
    name: Name
    run_id: Name | None = None
    """Of the recording, or of the agent on lines that belong to one of its runs: two meanings in one field."""
    env_name: Name | None = None
    pid: int | None = None
    phase: Name | None = None
    span_id: Name | None = None
    parent_span_id: Name | None = None
    duration_ms: Milliseconds | None = None
    attributes: Attributes | None = None


class SpanStart(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="span.start"):
    """A timed operation began."""


class SpanEnd(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="span.end"):
    """A timed operation completed. Its duration is true; the time of its start can be that of writing it down."""


class SpanError(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="span.error"):
    """A timed operation failed."""

    error_name: str | None = None
    error_message: str | None = None


class Mark(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="mark"):
    """A point in time. With a duration: how long it took to get there."""


class LoopSample(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="eventLoop.sample"):
    """Delays of the event loop since the sample before."""

    p50_ms: Milliseconds | None = None
    p95_ms: Milliseconds | None = None
    p99_ms: Milliseconds | None = None
    max_ms: Milliseconds | None = None
    """0 where the loop did not turn once since the sample before: then the next one has the delay."""
    active_span_name: Name | None = None


class ProviderCall(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="provider.request"):
    """A request to a provider. Unlike all others, its timestamp is its start."""

    provider: Name | None = None
    operation: Name | None = None
    ok: bool | None = None
    status: float | None = None


class ChildExit(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="childProcess.exit"):
    """A process that OpenClaw had started has ended."""

    command: str | None = None
    exit_code: int | None = None
    signal: str | None = None


class Unknown(Line, frozen=True, kw_only=True, gc=False):
    """A line of a type that the contract does not have (yet)."""

    type: Name


Known = SpanStart | SpanEnd | SpanError | Mark | LoopSample | ProviderCall | ChildExit
Record = Known | Unknown

TYPES: dict[str, type[Known]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (SpanStart, SpanEnd, SpanError, Mark, LoopSample, ProviderCall, ChildExit)
}

decoder = msgspec.json.Decoder(Known)


def detail_of(record: Line) -> str | None:
    """Which of the spans of one name it is."""
    attributes = record.attributes
    if attributes is None:
        return None
    return attributes.stage or attributes.trace_name or attributes.plugin_id or attributes.model


def earlier(moment: datetime, milliseconds: float) -> datetime:
    """So long before a moment; there is nothing before the first year."""
    try:
        return moment - timedelta(milliseconds=milliseconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def moment_ms(record: Line) -> float:
    """The timestamp in milliseconds since 1970."""
    return record.timestamp.timestamp() * 1000
