"""OpenTelemetry spans in any exported form, converted to one struct.

Supported are OTLP/JSON (`resourceSpans`), exports of Phoenix and the SDKs (`context.trace_id`, attributes nested or
with dots), lists and JSON Lines of either, and spans that contain their children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.importers.otel.attributes import attributes_of
from critiqor.importers.values import as_list, as_moment, as_object, as_text, parse_duration

_GENERAL_TYPE = re.compile(r"_OTHER|exit_code_-?[0-9]+")
"""Types of exceptions that say no more than the message: of the conventions, and of Critiqor's own export."""
_ERROR_CODES = frozenset(("2", "error", "status_code_error", "statuscode.error"))


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span of a trace."""

    trace_id: str | None
    span_id: str | None
    parent_id: str | None
    name: str
    kind: str
    """The exporter's span kind in upper case; often empty, and less reliable than the attributes."""
    start: int | None
    """Nanoseconds since 1970."""
    end: int | None
    attributes: dict[str, Any]
    """Under names with dots."""
    resource: dict[str, Any]
    """Attributes of what sent it, such as `service.name`, under names with dots; the same object for many spans."""
    error: str | None
    """Description of the failure; empty if it has none, None if the span did not fail."""


def contains_spans(value: Any) -> bool:
    """Return whether a JSON value has records of OpenTelemetry spans: it is one, or a collection of them."""
    return next(find_spans(value), None) is not None


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


def find_spans(value: Any) -> Iterator[Span]:
    """Yield the span of every record in a JSON value, children after their parents; other values are skipped."""
    waiting: list[tuple[Any, Span | None, dict[str, Any]]] = [(value, None, {})]
    while waiting:
        item, parent, resource = waiting.pop()
        if isinstance(item, list):
            waiting += [(inner, parent, resource) for inner in reversed(item)]
        elif isinstance(item, dict):
            if isinstance(item.get("resource"), dict):
                resource = attributes_of(item["resource"])
            span = _span(item, parent, resource) if _is_span(item) else None
            if span is not None:
                yield span
            inside = (item[name] for name in reversed(_COLLECTIONS) if isinstance(item.get(name), list))
            waiting += [(inner, span or parent, resource) for inner in inside]


_SPAN_IDS = ("spanId", "span_id", "context.span_id")
_START_TIMES = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp")


def _is_span(value: dict[str, Any]) -> bool:
    named = as_text(value.get("name")) or as_text(value.get("span_name"))
    identified = any(as_text(value.get(name)) for name in _SPAN_IDS) or as_object(value.get("context")).get("span_id")
    timed = any(name in value for name in (*_START_TIMES, "endTime"))
    return bool(identified) and (timed or bool(named))


def _span(document: dict[str, Any], enclosing: Span | None, resource: dict[str, Any]) -> Span:
    context = as_object(document.get("context"))
    start = as_moment(_first(document, *_START_TIMES))
    end = as_moment(_first(document, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"))
    if end is None and start is not None and (duration := parse_duration(document.get("duration"))) is not None:
        end = start + int(duration * 1_000_000)
    trace_id = _id(_first(document, "traceId", "trace_id", "context.trace_id") or context.get("trace_id"))
    parent_id = _id(_first(document, "parentSpanId", "parent_span_id", "parent_id", "parentId"))
    return Span(
        trace_id=trace_id or (enclosing.trace_id if enclosing else None),
        span_id=_id(_first(document, *_SPAN_IDS) or context.get("span_id")),
        parent_id=parent_id or (enclosing.span_id if enclosing else None),
        name=as_text(_first(document, "name", "span_name")) or "",
        kind=(as_text(_first(document, "span_kind", "kind")) or "").upper(),
        start=start,
        end=end,
        attributes=attributes_of(document),
        resource=resource,
        error=_error(document),
    )


def _first(document: dict[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if document.get(name) is not None), None)


def _id(value: Any) -> str | None:
    text = (as_text(value) or "").removeprefix("0x")
    # A root in OTLP/JSON can have a parent id of zeros.
    return text if text.strip("0") else None


def _error(document: dict[str, Any]) -> str | None:
    status = as_object(document.get("status"))
    code = _first(status, "code", "status_code") or document.get("status_code") or document.get("statusCode")
    if (as_text(code) or "").lower() not in _ERROR_CODES:
        return None
    message = (
        _first(status, "message", "description") or document.get("status_message") or document.get("statusMessage")
    )
    return _exception(document) or as_text(message) or ""


def _exception(document: dict[str, Any]) -> str | None:
    """Return the exception that ended the span, which says more than the status."""
    for event in reversed(as_list(document.get("events"))):
        attributes = attributes_of(event) if isinstance(event, dict) else {}
        message, kind = as_text(attributes.get("exception.message")), as_text(attributes.get("exception.type"))
        if message and kind and _GENERAL_TYPE.fullmatch(kind):
            return message
        if message or kind:
            return f"{kind}: {message}" if kind and message and not message.startswith(kind) else message or kind
    return None
