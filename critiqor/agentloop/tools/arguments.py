"""Validation of the arguments of a tool call against the schema of the tool, with the messages of OpenClaw.

Supports the part of JSON Schema that tool schemas use. Obvious conversions are made: "2" to a number, 5 to a string,
null to a missing optional argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.sessions.messages import ToolCall
from critiqor.agentloop.tools.results import refused, shorten
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome

_MAX_PROBLEMS = 20
_MAX_QUOTED_CHARS = 4_000
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class CheckedArguments(NamedTuple):
    """Converted arguments, and the problems found in them."""

    arguments: dict[str, Any]
    problems: list[str]


def check_arguments(schema: dict[str, Any], arguments: dict[str, Any]) -> CheckedArguments:
    """Validate the arguments of a tool call and convert them to the types of the schema where possible."""
    converted = _convert(schema, arguments)
    problems = [f"{path or 'root'}: {problem}" for path, problem in _problems(schema, converted, "")]
    return CheckedArguments(converted, problems[:_MAX_PROBLEMS])


class ValidatedTool:
    """A tool that runs only with valid arguments."""

    def __init__(self, tool: Tool) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self._tool = tool

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Validate the arguments, which hooks may have changed, and run the tool."""
        checked = check_arguments(self.parameters, arguments)
        if checked.problems:
            return refused(_validation_message(self.name, checked.problems, arguments))
        return await self._tool.run(checked.arguments, context)


def validation_error(tool: Tool | None, call: ToolCall) -> str | None:
    """Return the message for the model if the called tool does not exist or its arguments are invalid; else None."""
    if tool is None:
        return f"Tool {call.name} not found"
    if call.malformed is not None:
        return _validation_message(call.name, [f"root: {call.malformed}"], call.arguments)
    problems = check_arguments(tool.parameters, call.arguments).problems
    return _validation_message(call.name, problems, call.arguments) if problems else None


def _validation_message(tool: str, problems: list[str], received: dict[str, Any] | str) -> str:
    """Return the message for the model that replaces a result."""
    quoted = received if isinstance(received, str) else msgspec.json.format(msgspec.json.encode(received)).decode()
    listed = "".join(f"  - {problem}\n" for problem in problems)
    return f'Validation failed for tool "{tool}":\n{listed}\nReceived arguments:\n{shorten(quoted, _MAX_QUOTED_CHARS)}'


def _convert(schema: dict[str, Any], value: Any) -> Any:
    kind = schema.get("type")
    if kind == "object" and isinstance(value, dict):
        required = schema.get("required", ())
        return {
            key: _convert(inner, item) if (inner := _property(schema, key)) is not None else item
            for key, item in value.items()
            if item is not None or key in required
        }
    if kind == "array" and isinstance(value, list):
        return [_convert(schema.get("items", {}), item) for item in value]
    return _convert_scalar(kind, value)


def _convert_scalar(kind: object, value: Any) -> Any:
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind in ("number", "integer") and isinstance(value, str):
        value = _parse_number(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _parse_number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() else number


def _property(schema: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return the schema of a property; None if the schema does not describe it."""
    if key in (properties := schema.get("properties", {})):
        found: dict[str, Any] = properties[key]
        return found
    others = schema.get("additionalProperties")
    return others if isinstance(others, dict) else None


def _problems(schema: dict[str, Any], value: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = schema.get("type")
    if kind is not None and not _has_type(kind, value):
        yield path, f"must be {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path, "must be equal to one of the allowed values"
    if "minimum" in schema and value < schema["minimum"]:
        yield path, f"must be >= {schema['minimum']}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(schema.get("items", {}), item, _join(path, str(index)))
    elif isinstance(value, dict):
        yield from _problems_of_object(schema, value, path)


def _problems_of_object(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        yield _join(path, missing[0]), f"must have required properties {', '.join(missing)}"
    unknown = schema.get("additionalProperties") is False and any(_property(schema, key) is None for key in value)
    if unknown:
        yield path, "must not have additional properties"
    for key, item in value.items():
        inner = _property(schema, key)
        if inner is not None:
            yield from _problems(inner, item, _join(path, key))


def _has_type(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, object))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
