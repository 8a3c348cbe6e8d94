"""Writing a scenario as TOML, formatted as if written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.lab.scenario import Scenario

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_INLINE_TABLES = frozenset(("steps.tools", "tools.arguments", "expect.coverage", "expect.sessions"))
"""Tables written inline, on the line of their key; each with the name of the enclosing table."""
_ENDING_QUOTES = re.compile(r'"{3,}|"+\Z')
"""Quotes that would end a multi-line string."""
# Characters that JSON does not escape and TOML requires escaped.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def scenario_text(scenario: Scenario, comment: str = "") -> str:
    """Return the text of a scenario file, with `comment` at the top."""
    document = msgspec.to_builtins(scenario)
    document.pop("name", None)
    document = {key: value for key, value in document.items() if value != {} or key == "expect"}
    above = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return above + ("\n" if above else "") + "\n".join(_table(document, ())).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    below = {key: value for key, value in table.items() if _has_header(path, key, value)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if key not in below]
    for key, value in below.items():
        name = ".".join(map(_key, (*path, key)))
        if isinstance(value, Mapping):
            inner = _table(value, (*path, key))
            # A table that contains only tables needs no header.
            lines += ["", f"[{name}]"] if not inner or inner[0] else []
            lines += inner
        else:
            for one in value:
                lines += ["", f"[[{name}]]", *_table(one, (*path, key))]
    return lines


def _has_header(path: tuple[str, ...], key: str, value: Any) -> bool:
    if path and f"{path[-1]}.{key}" in _INLINE_TABLES:
        return False
    rows = isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value)
    return rows or isinstance(value, Mapping)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        members = ", ".join(f"{_key(key)} = {_one_line(one)}" for key, one in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_one_line(one) for one in value) + "]"
    return json.dumps(value)


def _one_line(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else _value(value)


def _text(text: str) -> str:
    """Format a string; a text of several lines becomes a multi-line string."""
    if "\n" not in text.rstrip("\n"):
        return _quoted(text)
    escaped = _ENDING_QUOTES.sub(lambda found: len(found[0]) * '\\"', text.replace("\\", "\\\\"))
    return '"""\n' + _CONTROL.sub(_code, escaped) + '"""'


def _quoted(text: str) -> str:
    return _CONTROL.sub(_code, json.dumps(text, ensure_ascii=False))


def _code(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)
