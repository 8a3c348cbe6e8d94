"""Texts that others chose, as they may stand in a file: without control characters, and not endless."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.model.sanitize import sanitize

_encode = msgspec.json.Encoder(order="deterministic").encode


def one_line(text: str, longest: int) -> str:
    """A text on one line, cut at so many characters."""
    return sanitize(text, max_length=longest, collapse=True)


def lines(text: str, longest: int) -> str:
    """A text with its line breaks and tabs, cut at so many characters."""
    return sanitize(text, max_length=longest, multiline=True)


def words_of(value: Any) -> str:
    """What a recorded value says: a text, the texts of its parts, what is left of one that was cut, or its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(words_of, value))
    if isinstance(value, dict):
        if value.get("cut") is True:
            return f"{value.get('excerpt') or ''}… ({value.get('size')} bytes, cut)"
        for name in ("content", "text"):
            if isinstance(value.get(name), str | list):
                return words_of(value[name])
    return "" if value is None else json_of(value)


def json_of(value: Any) -> str:
    """A recorded value as JSON, its members in order."""
    return _encode(value).decode()
