"""Texts that others chose, as they may stand in a file: without control characters, and not endless."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.model.trace import scrubbed

_encode = msgspec.json.Encoder(order="deterministic").encode


def one_line(text: str, longest: int) -> str:
    """A text on one line, cut at so many characters."""
    flat = " ".join(scrubbed(text[: 2 * longest]).split())
    is_whole = len(flat) <= longest and len(text) <= 2 * longest
    return flat if is_whole else flat[: longest - 1] + "…"


def lines(text: str, longest: int) -> str:
    """A text with its line breaks and tabs, cut at so many characters."""
    clean = "\n".join("\t".join(map(scrubbed, line.split("\t"))) for line in text[:longest].split("\n"))
    return clean if len(text) <= longest else clean[: longest - 1] + "…"


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
