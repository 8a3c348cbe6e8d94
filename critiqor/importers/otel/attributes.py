"""Messages, arguments, results and usage in span attributes, by the OpenInference and GenAI conventions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from critiqor.importers.values import as_count, as_list, as_number, as_object, as_text, parse_json

_MAX_DEPTH = 32
"""Levels of nesting in the attributes of a span."""

Attributes = dict[str, Any]
OWN_SPAN = "critiqor.event_id"
"""Attribute of every span of Critiqor's own export but that of the run; results are JSON there, also texts."""
_WRAPPER_KEYS = frozenset({"args", "sanitize_inputs_outputs", "kwargs"})


class Reply(NamedTuple):
    """The response of a model."""

    text: str
    tool_calls: list[dict[str, Any]]
    stop_reason: str | None
    is_empty_answer: bool
    """Whether it is known to contain neither a text nor a tool call: only Critiqor's own export tells an empty
    response from one that was not exported."""


def reply_of(attributes: Attributes) -> Reply:
    """Return the response of the model in a span."""
    messages = _messages(attributes, "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
    text = "\n".join(filter(None, map(_text_of, messages)))
    calls = [call for message in messages for call in _calls_of(message)]
    reasons = [*(message.get("finish_reason") for message in messages), *as_list(_reasons(attributes))]
    if not messages:
        text = _plain(attributes.get("output.value"))
    is_empty = bool(messages) and not text and not calls and OWN_SPAN in attributes
    return Reply(text, calls, next((reason for reason in map(as_text, reasons) if reason), None), is_empty)


def question_of(attributes: Attributes) -> str | None:
    """Return the last user message in a span of a model or an agent."""
    messages = _messages(attributes, "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
    texts = [_text_of(message) for message in messages if as_text(message.get("role")) in ("user", "human")]
    return next((text for text in reversed(texts) if text), None)


def arguments_of(attributes: Attributes) -> Any:
    """Return the arguments of the tool call in a span."""
    names = ("gen_ai.tool.call.arguments", "input.value", "tool.parameters", "traceloop.entity.input")
    return unwrap_arguments(parse_json(_first(attributes, *names)))


def unwrap_arguments(arguments: Any) -> Any:
    """Return the arguments of a tool call without the wrapper that smolagents puts around them."""
    if (
        not isinstance(arguments, dict)
        or arguments.keys() != _WRAPPER_KEYS
        or not isinstance(arguments["kwargs"], dict)
    ):
        return arguments
    named, positional = arguments["kwargs"], arguments["args"]
    return {**named, "args": positional} if positional else named


def result_of(attributes: Attributes) -> Any:
    """Return the result of the tool call in a span."""
    if OWN_SPAN in attributes and isinstance(result := attributes.get("gen_ai.tool.call.result"), str):
        try:
            return msgspec.json.decode(result)
        except (ValueError, RecursionError):
            return attributes.get("output.value", result)  # it was cut
    return _first(attributes, "gen_ai.tool.call.result", "output.value", "traceloop.entity.output")


def documents_of(attributes: Attributes) -> list[Any] | None:
    """Return the documents of the retriever in a span; None if it has none."""
    found = _collected(attributes, "retrieval.documents")
    if found is None:
        return None
    return [as_object(item).get("document", item) for item in as_list(found)]


def model_of(attributes: Attributes) -> dict[str, Any]:
    """Return the model of a span and its provider."""
    return {
        "provider": _first(attributes, "llm.provider", "gen_ai.provider.name", "gen_ai.system"),
        "model": _first(attributes, "llm.model_name", "gen_ai.response.model", "gen_ai.request.model"),
    }


def usage_of(attributes: Attributes) -> dict[str, Any] | None:
    """Return the usage in a span under the recorder's names; the conventions include cached tokens in the input."""
    prompt = _count(attributes, "llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    output = _count(
        attributes, "llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"
    )
    if prompt is None and output is None:
        return None
    prefix = "llm.token_count.prompt_details."
    read = _count(attributes, f"{prefix}cache_read", "gen_ai.usage.cache_read.input_tokens")
    written = _count(attributes, f"{prefix}cache_write", "gen_ai.usage.cache_creation.input_tokens")
    usage: dict[str, Any] = {"input": max(0, (prompt or 0) - (read or 0) - (written or 0)), "output": output or 0}
    usage |= {name: count for name, count in (("cacheRead", read), ("cacheWrite", written)) if count}
    cost = as_number(attributes.get("llm.cost.total"))
    return usage if cost is None else {**usage, "cost": {"total": cost}}


def input_text_of(attributes: Attributes) -> str | None:
    """Return the input of a span as text: as it is, or the task in an object."""
    return _text_in(attributes.get("input.value"))


def output_text_of(attributes: Attributes) -> str | None:
    """Return the output of a span as text: as it is, or the text in an object."""
    return _text_in(attributes.get("output.value"))


def _text_in(value: Any) -> str | None:
    content = parse_json(value)
    if isinstance(content, dict):
        for name in ("task", "input", "query", "question", "output", "content", "text"):
            if isinstance(content.get(name), str):
                return str(content[name])
    return _plain(value) or None


def _first(attributes: Attributes, *names: str) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _count(attributes: Attributes, *names: str) -> int | None:
    counts = (as_count(attributes.get(name)) for name in names)
    return next((count for count in counts if count is not None), None)


def _reasons(attributes: Attributes) -> Any:
    return parse_json(attributes.get("gen_ai.response.finish_reasons"))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        document = parse_json(value)
        content = document.get("content") if isinstance(document, dict) else None
        return content if isinstance(content, str) else value
    return ""


def _messages(attributes: Attributes, *names: str) -> list[dict[str, Any]]:
    for name in names:
        items = [item for item in as_list(_collected(attributes, name)) if isinstance(item, dict)]
        if items:
            return [item["message"] if isinstance(item.get("message"), dict) else item for item in items]
    return []


def _collected(attributes: Attributes, name: str) -> Any:
    """Return a list that is stored as JSON text, or item by item under names with numbers in them."""
    whole = parse_json(attributes.get(name))
    if isinstance(whole, list):
        return whole
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{name}."):
            *path, last = key[len(name) + 1 :].split(".")
            place = tree
            for name_part in path:
                inner = place.setdefault(name_part, {})
                place = inner if isinstance(inner, dict) else {}
            place.setdefault(last, value)
    return _listed(tree) if tree else None


def _listed(tree: Any) -> Any:
    """Convert objects with numeric keys to lists."""
    if isinstance(tree, dict):
        if tree and all(name.isascii() and name.isdigit() and len(name) < 9 for name in tree):
            return [_listed(tree[name]) for name in sorted(tree, key=int)]
        return {name: _listed(item) for name, item in tree.items()}
    return tree


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [*as_list(content), *as_list(message.get("parts")), *as_list(message.get("contents"))]
    texts = []
    for part in parts:
        inner = part.get("message_content", part) if isinstance(part, dict) else part
        text = inner.get("text", inner.get("content")) if isinstance(inner, dict) else inner
        is_text = not isinstance(inner, dict) or as_text(inner.get("type")) in (None, "text")
        if is_text and isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def _calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    items = [item.get("tool_call", item) for item in as_list(message.get("tool_calls")) if isinstance(item, dict)]
    items += [part for part in as_list(message.get("parts")) if as_object(part).get("type") == "tool_call"]
    calls = []
    for call in filter(lambda call: isinstance(call, dict), items):
        function = as_object(call.get("function"))
        name = as_text(call.get("name")) or as_text(function.get("name")) or as_text(call.get("function.name"))
        calls.append({"id": as_text(call.get("id")), "name": name})
    return calls


def attributes_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return all attributes under names with dots, whichever way they were written."""
    found: dict[str, Any] = {}
    for name in ("attributes", "span_attributes"):
        attributes = document.get(name)
        if isinstance(attributes, list):
            found |= _key_values(attributes)
        _flatten("", as_object(attributes), found, 0)
    for name, value in document.items():
        if name.startswith("attributes.") and value is not None:
            _flatten(name.removeprefix("attributes."), value, found, 0)
    return found


def _key_values(pairs: list[Any]) -> dict[str, Any]:
    """Convert OTLP's list of keys and typed values."""
    known = (pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("key"), str))
    return {pair["key"]: _typed_value(pair.get("value"), 0) for pair in known}


def _flatten(prefix: str, value: Any, into: dict[str, Any], depth: int) -> None:
    """Store `{"llm": {"model_name": "x"}}` as `llm.model_name`; the object is also kept under its own name."""
    if prefix:
        into.setdefault(prefix, value)
    if depth > _MAX_DEPTH or not isinstance(value, dict):
        return
    for name, item in value.items():
        _flatten(f"{prefix}.{name}" if prefix else str(name), item, into, depth + 1)


def _typed_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return value if depth == 0 else None
    for kind, content in value.items():
        name = kind.replace("_", "").lower()
        if name == "intvalue":
            # Protobuf writes integers as text.
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
