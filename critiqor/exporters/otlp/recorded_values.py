"""Recorded values as attribute values: the text in a value, or its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def value_to_text(value: Any) -> str:
    """Return a recorded value as OTLP exports it: a text, the texts of its parts, an excerpt of a cut one, or JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(value_to_text, value))
    if isinstance(value, dict):
        if value.get("cut") is True:
            return f"{value.get('excerpt') or ''}… ({value.get('size')} bytes, cut)"
        for name in ("content", "text"):
            if isinstance(value.get(name), str | list):
                return value_to_text(value[name])
    return "" if value is None else value_to_json(value)


def value_to_json(value: Any) -> str:
    """Return a recorded value as JSON with sorted keys, for an attribute of a span."""
    return _encode(value).decode()
