"""Lines of the contract `openclaw.diagnostics.v1`, one struct per type, and each with a strict twin.

The structs ignore unknown fields. Their twins reject them, which costs nothing while there are none. A line that the
structs reject goes to `repair_line`, which takes the time to find out what is wrong with it and which fields can be
used.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec

SCHEMA = "openclaw.diagnostics.v1"
MAX_NAME_LENGTH = 256
"""Characters; `repair_line` shortens a longer name, id or label."""
MAX_DURATION_MS = 1e11
"""Three years: a larger value is not a duration."""
_MODEL_CALL = ":model:"

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DURATION_MS)]


class Attributes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The attributes that are used. Attributes are free-form, so others are ignored."""

    stage: Name | None = None
    """The stage of the operation, where one span name covers many."""
    trace_name: Name | None = None
    """The same for the start-up of a gateway."""
    plugin_id: Name | None = None
    dependency_count: float | None = None
    model: Name | None = None
    run_id: Name | None = None
    """The run id of the agent, on the spans of a turn."""
    decision: Name | None = None
    """On a mark about retries: `rejected` ends the run."""
    load_ms: float | None = None
    register_ms: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Fields that every line can have."""

    schema_version: Literal["openclaw.diagnostics.v1"]
    timestamp: Moment
    name: Name
    run_id: Name | None = None
    """The run id of the recording, or of the agent on lines that belong to one of its runs: one field, two meanings."""
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
    """A timed operation completed. Its duration is exact; its start can have been written late, with the end."""


class SpanError(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="span.error"):
    """A timed operation failed."""

    error_name: str | None = None
    error_message: str | None = None


class Mark(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="mark"):
    """A point in time. A duration says how long it took to reach that point."""


class LoopSample(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="eventLoop.sample"):
    """Delays of the event loop since the previous sample."""

    p50_ms: Milliseconds | None = None
    p95_ms: Milliseconds | None = None
    p99_ms: Milliseconds | None = None
    max_ms: Milliseconds | None = None
    """0 if the loop has not run since the previous sample; the next sample then holds the delay."""
    active_span_name: Name | None = None


class ProviderCall(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="provider.request"):
    """A request to a provider. Unlike in all other lines, the timestamp is the start."""

    provider: Name | None = None
    operation: Name | None = None
    ok: bool | None = None
    status: float | None = None


class ChildExit(Line, frozen=True, kw_only=True, gc=False, tag_field="type", tag="childProcess.exit"):
    """A child process of OpenClaw ended."""

    command: str | None = None
    exit_code: int | None = None
    signal: str | None = None


class Unknown(Line, frozen=True, kw_only=True, gc=False):
    """A line of a type that is not in the contract."""

    type: Name


Known = SpanStart | SpanEnd | SpanError | Mark | LoopSample | ProviderCall | ChildExit
Record = Known | Unknown

_KNOWN: tuple[type[Known], ...] = (SpanStart, SpanEnd, SpanError, Mark, LoopSample, ProviderCall, ChildExit)
TYPES: dict[str, type[Known]] = {str(kind.__struct_config__.tag): kind for kind in _KNOWN}
KNOWN_FIELDS = {"type"}.union(*(kind.__struct_encode_fields__ for kind in _KNOWN))


def _strict_twin(kind: type[Line]) -> Any:
    """Return a subclass of a struct that rejects unknown fields when it is decoded."""
    tag = kind.__struct_config__.tag
    return msgspec.defstruct(
        kind.__name__, [], bases=(kind,), frozen=True, gc=False, tag_field="type", tag=tag, forbid_unknown_fields=True
    )


_TWINS: dict[type[Line], Any] = {kind: _strict_twin(kind) for kind in _KNOWN}

decoder = msgspec.json.Decoder(Known)
strict_decoder: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Union[tuple(_TWINS.values())])  # noqa: UP007


class FrequentTypes(NamedTuple):
    """The exact types of the frequent lines of a block, whose lines were all decoded by the same decoder."""

    start: type[SpanStart]
    end: type[SpanEnd]
    error: type[SpanError]
    request: type[ProviderCall]


_LENIENT = FrequentTypes(SpanStart, SpanEnd, SpanError, ProviderCall)
_STRICT = FrequentTypes(*(_TWINS[kind] for kind in _LENIENT))


def frequent_types(record: Line) -> FrequentTypes:
    """Return the types of the lines that were decoded together with this one."""
    return _STRICT if record.__struct_config__.forbid_unknown_fields else _LENIENT


def exact_types(kind: type[Line]) -> list[type[Line]]:
    """Return the struct of a type of lines, and its strict twin if it has one."""
    return [kind, _TWINS[kind]] if kind in _TWINS else [kind]


def moment_ms(record: Line) -> float:
    """Return the timestamp in the record of a line, in milliseconds since 1970."""
    return record.timestamp.timestamp() * 1000


def agent_run_of_call(record: Line) -> str | None:
    """Return the agent's run id in the record that the reader has of a model call: its span id is `ID:model:NUMBER`."""
    return record.run_id if record.span_id is not None and _MODEL_CALL in record.span_id else None
