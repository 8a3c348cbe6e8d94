"""OpenTelemetry spans: each trace is one run; the traces of a run that Critiqor exported are one run again.

A tool span becomes a call at its start and a result at its end, a model span a request and a response, an agent span a
start and an end. Spans below an agent span belong to that agent. Other spans are only reported if they failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.importers.event_writer import MAIN, EventFields, EventWriter
from critiqor.importers.files import read_entries
from critiqor.importers.notes import ImportNotes
from critiqor.importers.otel.attributes import (
    arguments_of,
    documents_of,
    input_text_of,
    model_of,
    output_text_of,
    question_of,
    reply_of,
    result_of,
    usage_of,
)
from critiqor.importers.otel.records import Span, find_spans
from critiqor.importers.otel.tree import Node, build_tree, walk
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_count, as_text, elapsed_ms
from critiqor.model import EventType

NAME = "otel_spans"
OWN_TRACES = "critiqor.run_trace_id"
"""Attribute of the resource of Critiqor's own export, which is the same for all traces of a run."""
_OWN_RUN, _OWN_AGENT_RUN = "critiqor.run_id", "critiqor.agent_run_id"
"""Attributes of Critiqor's own export: of the span of the run, and of those of an agent run."""
_MODEL, _TOOL, _AGENT, _RETRIEVER, _CHAIN = "model", "tool", "agent", "retriever", "chain"
_KINDS = {
    ("openinference.span.kind", "LLM"): _MODEL,
    ("openinference.span.kind", "TOOL"): _TOOL,
    ("openinference.span.kind", "AGENT"): _AGENT,
    ("openinference.span.kind", "RETRIEVER"): _RETRIEVER,
    ("openinference.span.kind", "CHAIN"): _CHAIN,
    ("gen_ai.operation.name", "CHAT"): _MODEL,
    ("gen_ai.operation.name", "TEXT_COMPLETION"): _MODEL,
    ("gen_ai.operation.name", "GENERATE_CONTENT"): _MODEL,
    ("gen_ai.operation.name", "EXECUTE_TOOL"): _TOOL,
    ("gen_ai.operation.name", "INVOKE_AGENT"): _AGENT,
    ("gen_ai.operation.name", "INVOKE_WORKFLOW"): _AGENT,
    ("gen_ai.operation.name", "RETRIEVAL"): _RETRIEVER,
    ("traceloop.span.kind", "TOOL"): _TOOL,
    ("traceloop.span.kind", "AGENT"): _AGENT,
    ("traceloop.span.kind", "WORKFLOW"): _AGENT,
}
_KINDS_BY_NAME = {"openclaw.run": _AGENT, "openclaw.model.usage": ""}
"""Spans of OpenClaw's exporter without a kind; the second one repeats the usage of its model calls."""
_EXIT_CODE = "openclaw.exec.exit_code"
_KIND_ATTRIBUTES = ("openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind")


def read_spans(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the traces of a file; the spans of a trace can be anywhere in it."""
    notes = ImportNotes()
    traces: dict[str, list[Span]] = {}
    for line, value, problem in read_entries(path):
        found = False
        for span in find_spans(value):
            found = True
            if span.trace_id is None:
                notes.add("spans without a trace id, combined into one trace", span.name[:40])
            trace_id = as_text(span.resource.get(OWN_TRACES)) or span.trace_id or path.name.split(".")[0]
            traces.setdefault(trace_id, []).append(span)
        if not found:
            notes.add("lines that could not be read", f"{line}: {problem or 'no span'}", not_understood=True)
    # The trace of an unreadable line is unknown, so every trace reports it.
    shared = EventWriter(path.name, key, notes=notes).trace(NAME)
    for trace_id, spans in traces.items():
        trace = read_trace(trace_id, spans, key)
        unknown = shared.not_understood + trace.not_understood
        yield msgspec.structs.replace(trace, notes=[*shared.notes, *trace.notes], not_understood=unknown)
    if not traces:
        yield shared


def read_trace(trace_id: str, spans: list[Span], key: bytes) -> ImportedTrace:
    """Return the spans of one trace as events."""
    return _Trace(trace_id, spans, key).read()


class _Moment(NamedTuple):
    at: int
    """Nanoseconds since 1970."""
    order: int
    write: Callable[[int], None]
    """Called with the time in milliseconds."""


class _Trace:
    """Converts one trace from spans to events."""

    def __init__(self, trace_id: str, spans: list[Span], key: bytes) -> None:
        times = [time for span in spans for time in (span.start, span.end) if time is not None]
        first = min(times, default=None)
        session_key = next((name for name in map(_session_of, spans) if name), None)
        start = None if first is None else first // 1_000_000
        self._writer = EventWriter(trace_id, key, session_key=session_key, start=start)
        if first is None:
            self._writer.notes.add("traces without any time, placed in the year 2000")
        self._roots = build_tree(spans, self._writer.notes, first or 0)
        self._moments: list[_Moment] = []
        self._has_input = False
        self._asked: set[str] = set()
        """Agent runs of Critiqor's own export whose request was written."""
        self._replied: set[str] = set()
        """Agent runs with a model call that responded with a text."""

    def read(self) -> ImportedTrace:
        for node, is_exit in (visit for root in self._roots for visit in walk(root)):
            if is_exit:
                self._leave(node)
            else:
                self._enter(node)
        for moment in sorted(self._moments, key=lambda moment: moment[:2]):
            moment.write(moment.at // 1_000_000)
        return self._writer.trace(NAME)

    def _enter(self, node: Node) -> None:
        span, parent = node.span, node.parent
        node.kind = _kind_of(span, is_root=parent is None)
        node.agent = parent.agent if parent else MAIN
        node.session = _session_of(span) or (parent.session if parent else None)
        if parent is None and _OWN_RUN in span.attributes:
            node.kind = "inner"  # the recording around all agent runs, in Critiqor's own export
        if node.kind == _AGENT:
            node.agent = as_text(span.attributes.get(_OWN_AGENT_RUN)) or span.span_id or span.name or MAIN
        is_part = parent is not None and (parent.is_in_model or parent.kind == _MODEL)
        node.is_in_model = is_part and node.kind not in (_AGENT, _TOOL, _RETRIEVER)
        if node.kind == _MODEL and node.is_in_model:
            # Frameworks and clients both report a call; the outer one is what the agent requested.
            self._writer.notes.add("model calls nested in other model calls, counted once", span.name[:40])
            node.kind = "inner"
        writers = {_AGENT: self._agent_start, _MODEL: self._request, _TOOL: self._call, _RETRIEVER: self._call}
        if node.kind in writers:
            self._schedule(node.start, lambda at: writers[node.kind](node, at))
        elif node.kind != "inner":
            self._writer.notes.add("spans that belong to no agent, model or tool, left out", span.name[:40])

    def _leave(self, node: Node) -> None:
        span, parent = node.span, node.parent
        if parent is not None:
            parent.has_failed_child |= node.has_failed_child or span.error is not None
            parent.exit_code = as_count(span.attributes.get(_EXIT_CODE)) or parent.exit_code
            if node.is_in_model:
                parent.inner_usage = parent.inner_usage or usage_of(span.attributes) or node.inner_usage
        writers = {_AGENT: self._agent_end, _MODEL: self._response, _TOOL: self._result, _RETRIEVER: self._result}
        write = writers.get(node.kind)
        if write is None:
            # A failure of a child is reported for the child.
            write = self._failure if span.error is not None and not node.has_failed_child else None
        if write is None:
            return
        if span.end is None and span.error is None:
            self._writer.notes.add("spans that never ended", span.name[:40])
            return
        if span.end is not None and span.end < node.start:
            self._writer.notes.add("spans that ended before they began", span.name[:40])
        self._schedule(max(node.start, span.end or 0), lambda at: write(node, at))

    def _schedule(self, at: int, write: Callable[[int], None]) -> None:
        self._moments.append(_Moment(at, len(self._moments), write))

    def _agent_start(self, node: Node, at: int) -> None:
        span = node.span
        self._writer.write("agent_start", _fields(node, at), {"agent_name": span.name, "span_id": span.span_id})
        question = question_of(span.attributes) or input_text_of(span.attributes)
        is_first = node.agent not in self._asked if _OWN_AGENT_RUN in span.attributes else not self._has_input
        if question and is_first:
            self._has_input = True
            self._asked.add(node.agent)
            self._writer.write("input", _fields(node, at), {"role": "user", "text": question})

    def _agent_end(self, node: Node, at: int) -> None:
        span = node.span
        text = reply_of(span.attributes).text or output_text_of(span.attributes)
        if _OWN_AGENT_RUN in span.attributes and node.agent in self._replied:
            text = None  # the last text of its model calls, which need not be an answer
        payload = {"text": text, "agent_name": span.name, "success": span.error is None, "span_id": span.span_id}
        self._writer.write("agent_end", _fields(node, at, ended=True), payload)

    def _request(self, node: Node, at: int) -> None:
        attributes = node.span.attributes
        question = None if self._has_input else question_of(attributes)
        if question:
            self._has_input = True
            self._writer.write("input", _fields(node, at), {"role": "user", "text": question})
        payload = {**model_of(attributes), "span_id": node.span.span_id}
        self._writer.write("before_provider_request", _fields(node, at), payload)

    def _response(self, node: Node, at: int) -> None:
        span, model = node.span, model_of(node.span.attributes)
        usage = usage_of(span.attributes) or node.inner_usage
        outcome = "completed" if span.error is None else "error"
        result = {"outcome": outcome, "usage": usage, "span_id": span.span_id}
        self._writer.write(EventType.TOKEN_USAGE, _fields(node, at, ended=True), model | result)
        reply = reply_of(span.attributes)
        if reply.text:
            self._replied.add(node.agent)
        if reply.text or reply.tool_calls or reply.is_empty_answer:
            message = {"role": "assistant", "text": reply.text, "tool_calls": reply.tool_calls or None}
            fields = _fields(node, at)
            self._writer.write("message_end", fields, message | model | {"stop_reason": reply.stop_reason})

    def _call(self, node: Node, at: int) -> None:
        is_lookup = node.kind == _RETRIEVER
        self._writer.write_tool_call(_fields(node, at), _arguments(node), is_lookup=is_lookup, source="span")

    def _result(self, node: Node, at: int) -> None:
        is_lookup = node.kind == _RETRIEVER
        found = documents_of(node.span.attributes) if is_lookup else None
        result = result_of(node.span.attributes) if found is None else {"results": found}
        fields = _fields(node, at, ended=True)
        self._writer.write_tool_result(fields, _arguments(node), result, is_lookup=is_lookup, source="span")

    def _failure(self, node: Node, at: int) -> None:
        payload = {"name": node.span.name, "span_id": node.span.span_id}
        self._writer.write("error", _fields(node, at, ended=True), payload)


def _fields(node: Node, at: int, *, ended: bool = False) -> EventFields:
    span, attributes = node.span, node.span.attributes
    raw = f"{node.kind or 'other'} span"
    fields = EventFields(at=at, session_key=node.session, agent_run_id=node.agent, raw=raw)
    if node.kind in (_TOOL, _RETRIEVER):
        named = (as_text(attributes.get(name)) for name in ("gen_ai.tool.name", "tool.name", "traceloop.entity.name"))
        fields.tool_name = next((name for name in named if name), None) or span.name or None
        identified = (as_text(attributes.get(name)) for name in ("gen_ai.tool.call.id", "tool_call.id", "tool.id"))
        fields.tool_call_id = next((name for name in identified if name), None) or span.span_id
    if ended:
        # A command that exits non-zero has failed, whatever its tool reports.
        fields.error = f"exit code {node.exit_code}" if span.error is None and node.exit_code else span.error
        if span.start is not None and span.end is not None and span.end >= span.start:
            fields.duration_ms = elapsed_ms(span.start, span.end)
    return fields


def _session_of(span: Span) -> str | None:
    named = (as_text(span.attributes.get(name)) for name in ("session.id", "gen_ai.conversation.id"))
    return next((name for name in named if name), None)


def _arguments(node: Node) -> Any:
    arguments = arguments_of(node.span.attributes)
    return {"query": arguments} if node.kind == _RETRIEVER and isinstance(arguments, str) else arguments


def _kind_of(span: Span, *, is_root: bool) -> str:
    if span.name in _KINDS_BY_NAME:
        return _KINDS_BY_NAME[span.name]
    stated = [(name, (as_text(span.attributes.get(name)) or "").upper()) for name in _KIND_ATTRIBUTES]
    kind = next((_KINDS[name] for name in (*stated, ("openinference.span.kind", span.kind)) if name in _KINDS), "")
    # A chain at the root stands for the whole task.
    return _AGENT if kind == _CHAIN and is_root else kind
