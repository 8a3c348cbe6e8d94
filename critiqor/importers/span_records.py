"""Spans of OpenTelemetry in whatever shape they were exported, made into one.

Understood are OTLP/JSON (`resourceSpans`), what Phoenix and the SDKs export (`context.trace_id`, attributes nested or
with dots), lists and JSON Lines of either, and spans that hold their children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.importers.values import as_list, as_moment, as_object, as_text, as_told_duration

_DEEPEST = 32
"""Levels of nesting in the attributes of a span."""
_ERROR_CODES = frozenset(("2", "error", "status_code_error", "statuscode.error"))


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span: something that began and ended."""

    trace_id: str | None
    span_id: str | None
    parent_id: str | None
    name: str
    kind: str
    """What the exporter calls its kind, in capitals; often empty, and the attributes know better."""
    start: int | None
    """Nanoseconds since 1970."""
    end: int | None
    attributes: dict[str, Any]
    """Under names with dots."""
    error: str | None
    """What went wrong; an empty text where nobody said; None where nothing did."""


def holds_spans(value: Any) -> bool:
    """Whether a JSON value is a span or a collection of them."""
    return next(spans_in(value), None) is not None


_COLLECTIONS = (
    "resourceSpans",
    "resource_spans",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "spans",
    "data",
    "child_spans",
    "children",
)


def spans_in(value: Any) -> Iterator[Span]:
    """Every span in a JSON value, children after their parents; what is no span is passed over."""
    waiting: list[tuple[Any, Span | None]] = [(value, None)]
    while waiting:
        item, parent = waiting.pop()
        if isinstance(item, list):
            waiting += [(inner, parent) for inner in reversed(item)]
        elif isinstance(item, dict):
            span = _span(item, parent) if _is_span(item) else None
            if span is not None:
                yield span
            inside = (item[name] for name in reversed(_COLLECTIONS) if isinstance(item.get(name), list))
            waiting += [(inner, span or parent) for inner in inside]


_SPAN_IDS = ("spanId", "span_id", "context.span_id")


def _is_span(value: dict[str, Any]) -> bool:
    named = as_text(value.get("name")) or as_text(value.get("span_name"))
    identified = any(as_text(value.get(name)) for name in _SPAN_IDS) or as_object(value.get("context")).get("span_id")
    timed = any(
        name in value
        for name in ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp", "endTime")
    )
    return bool(identified) and (timed or bool(named))


def _span(told: dict[str, Any], around: Span | None) -> Span:
    context = as_object(told.get("context"))
    start = as_moment(_first(told, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp"))
    end = as_moment(_first(told, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"))
    if end is None and start is not None and (duration := as_told_duration(told.get("duration"))) is not None:
        end = start + int(duration * 1_000_000)
    trace_id = _id(_first(told, "traceId", "trace_id", "context.trace_id") or context.get("trace_id"))
    parent_id = _id(_first(told, "parentSpanId", "parent_span_id", "parent_id", "parentId"))
    return Span(
        trace_id=trace_id or (around.trace_id if around else None),
        span_id=_id(_first(told, *_SPAN_IDS) or context.get("span_id")),
        parent_id=parent_id or (around.span_id if around else None),
        name=as_text(_first(told, "name", "span_name")) or "",
        kind=(as_text(_first(told, "span_kind", "kind")) or "").upper(),
        start=start,
        end=end,
        attributes=_attributes(told),
        error=_error(told),
    )


def _first(told: dict[str, Any], *names: str) -> Any:
    return next((told[name] for name in names if told.get(name) is not None), None)


def _id(value: Any) -> str | None:
    text = (as_text(value) or "").removeprefix("0x")
    # A root of OTLP/JSON can have the id of nobody as its parent.
    return text if text.strip("0") else None


def _attributes(told: dict[str, Any]) -> dict[str, Any]:
    """All attributes under names with dots, whichever way they were written."""
    found: dict[str, Any] = {}
    for name in ("attributes", "span_attributes"):
        attributes = told.get(name)
        if isinstance(attributes, list):
            found |= _key_values(attributes)
        _flatten("", as_object(attributes), found, 0)
    for name, value in told.items():
        if name.startswith("attributes.") and value is not None:
            _flatten(name.removeprefix("attributes."), value, found, 0)
    return found


def _key_values(pairs: list[Any]) -> dict[str, Any]:
    """OTLP's list of keys and typed values."""
    known = (pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("key"), str))
    return {pair["key"]: _typed_value(pair.get("value"), 0) for pair in known}


def _typed_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return value if depth == 0 else None
    for kind, content in value.items():
        name = kind.replace("_", "").lower()
        if name == "intvalue":
            # Protobuf writes whole numbers as text.
            return int(content) if isinstance(content, str) and re.fullmatch(r"-?[0-9]{1,19}", content) else content
        if name in ("stringvalue", "doublevalue", "boolvalue", "bytesvalue"):
            return content
        if name == "arrayvalue":
            return [_typed_value(item, depth + 1) for item in as_list(as_object(content).get("values"))]
        if name == "kvlistvalue":
            pairs = as_list(as_object(content).get("values"))
            known = (pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("key"), str))
            return {pair["key"]: _typed_value(pair.get("value"), depth + 1) for pair in known}
    return None


def _flatten(prefix: str, value: Any, into: dict[str, Any], depth: int) -> None:
    """`{"llm": {"model_name": "x"}}` as `llm.model_name`; the object itself stays under its own name as well."""
    if prefix:
        into.setdefault(prefix, value)
    if depth > _DEEPEST or not isinstance(value, dict):
        return
    for name, item in value.items():
        _flatten(f"{prefix}.{name}" if prefix else str(name), item, into, depth + 1)


def _error(told: dict[str, Any]) -> str | None:
    status = as_object(told.get("status"))
    code = _first(status, "code", "status_code") or told.get("status_code") or told.get("statusCode")
    if (as_text(code) or "").lower() not in _ERROR_CODES:
        return None
    said = _first(status, "message", "description") or told.get("status_message") or told.get("statusMessage")
    return _exception(told) or as_text(said) or ""


def _exception(told: dict[str, Any]) -> str | None:
    """What the exception said that ended the span: more than the status does."""
    for event in reversed(as_list(told.get("events"))):
        attributes = _attributes(event) if isinstance(event, dict) else {}
        message, kind = as_text(attributes.get("exception.message")), as_text(attributes.get("exception.type"))
        if message or kind:
            return f"{kind}: {message}" if kind and message and not message.startswith(kind) else message or kind
    return None
