"""Arguments of a tool call against the schema of the tool, judged and worded as OpenClaw does it.

Only the part of JSON Schema that descriptions of tools use. What is plainly meant is taken: "2" for a number, 5 for a
text, null for something that may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.tools.results import shortened

_MOST_PROBLEMS = 20
_SHOWN_CHARS = 4_000
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class Checked(NamedTuple):
    """Arguments as a tool gets them, and what is wrong with them."""

    arguments: dict[str, Any]
    problems: list[str]


def check(schema: dict[str, Any], arguments: dict[str, Any]) -> Checked:
    """Judge arguments; the ones that come back have the types that the schema asks for, where that was possible."""
    converted = _converted(schema, arguments)
    problems = [f"{place or 'root'}: {words}" for place, words in _problems(schema, converted, "")]
    return Checked(converted, problems[:_MOST_PROBLEMS])


def refusal(tool: str, problems: list[str], received: dict[str, Any] | str) -> str:
    """What the model is told instead of a result."""
    shown = received if isinstance(received, str) else msgspec.json.format(msgspec.json.encode(received)).decode()
    listed = "".join(f"  - {problem}\n" for problem in problems)
    return f'Validation failed for tool "{tool}":\n{listed}\nReceived arguments:\n{shortened(shown, _SHOWN_CHARS)}'


def _converted(schema: dict[str, Any], value: Any) -> Any:
    kind = schema.get("type")
    if kind == "object" and isinstance(value, dict):
        required = schema.get("required", ())
        return {
            key: _converted(inner, item) if (inner := _property(schema, key)) is not None else item
            for key, item in value.items()
            if item is not None or key in required
        }
    if kind == "array" and isinstance(value, list):
        return [_converted(schema.get("items", {}), item) for item in value]
    return _scalar(kind, value)


def _scalar(kind: object, value: Any) -> Any:
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind in ("number", "integer") and isinstance(value, str):
        value = _number(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() else number


def _property(schema: dict[str, Any], key: str) -> dict[str, Any] | None:
    """What is said about a property, or None where nothing is."""
    if key in (properties := schema.get("properties", {})):
        found: dict[str, Any] = properties[key]
        return found
    others = schema.get("additionalProperties")
    return others if isinstance(others, dict) else None


def _problems(schema: dict[str, Any], value: Any, place: str) -> Iterator[tuple[str, str]]:
    kind = schema.get("type")
    if kind is not None and not _is(kind, value):
        yield place, f"must be {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield place, "must be equal to one of the allowed values"
    if "minimum" in schema and value < schema["minimum"]:
        yield place, f"must be >= {schema['minimum']}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(schema.get("items", {}), item, _inside(place, str(index)))
    elif isinstance(value, dict):
        yield from _problems_of_object(schema, value, place)


def _problems_of_object(schema: dict[str, Any], value: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        yield _inside(place, missing[0]), f"must have required properties {', '.join(missing)}"
    unknown = schema.get("additionalProperties") is False and any(_property(schema, key) is None for key in value)
    if unknown:
        yield place, "must not have additional properties"
    for key, item in value.items():
        inner = _property(schema, key)
        if inner is not None:
            yield from _problems(inner, item, _inside(place, key))


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, object))


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
