"""Bound the size of values in evidence, with the limits of the recorder plugin (`payload.js`).

A long text becomes its size, digest and excerpt; a deep or wide value is cut and marked as cut. Nothing here raises,
whatever a file, an agent or a tool provides. `critiqor.storage.record_filter` applies this to events and records.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import PurePath
from typing import Any

import msgspec

from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.storage.redaction import Redactor

MAX_TEXT = 8192
"""Characters of a text that is kept whole."""
MAX_EXCERPT = 2048
"""Characters kept of a longer text."""
MARGIN = 4096
"""Characters looked at beyond an excerpt, so that a secret that crosses its end is still recognized."""
MAX_PAYLOAD = 32_768
"""Characters of one payload. Beyond it texts are cut; beyond twice as many, all values are."""
SHORT_TEXT = 64
"""Characters of a text that is kept in any case."""
MAX_ITEMS = 200
"""Members of one list or object."""
MAX_KEY = 256
"""Characters of a field name."""
MAX_DEPTH = 12
"""Levels of nesting."""
MAX_RECORD_DEPTH = 100
"""Levels of nesting in a record. The recorder writes at most 12, and not every JSON reader accepts hundreds."""

_LAST_WORD = re.compile(r"\S+\Z")
_INTEGERS = range(-(1 << 63), 1 << 64)


class PayloadBounds:
    """The room that is left in one payload while its values are bounded and redacted."""

    def __init__(self, redactor: Redactor, bound_name: Callable[[str, int], str]) -> None:
        self._redactor = redactor
        self._bound_name = bound_name
        self._left = MAX_PAYLOAD
        self._ancestors: set[int] = set()

    def bound(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value for any object, bounded and redacted."""
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if value in _INTEGERS else _cut("size")
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, bytes | bytearray | memoryview):
            return _cut("binary", len(value))
        if id(value) in self._ancestors:
            return _cut("cycle")
        if depth >= MAX_DEPTH:
            return _cut("depth")
        self._ancestors.add(id(value))
        try:
            return self._container(value, depth)
        except Exception:  # inspecting an object of a tool can raise any exception
            return _cut("unreadable")
        finally:
            self._ancestors.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, len(value), depth, self.bound)
        if isinstance(value, date | PurePath):
            return self._text(str(value))
        if isinstance(value, BaseException):
            return self._object({"name": type(value).__name__, "message": str(value)}, depth)
        if isinstance(value, msgspec.Struct):
            return self._container(msgspec.to_builtins(value), depth)
        return _cut("unreadable")

    def _text(self, text: str) -> Any:
        whole = replace_lone_surrogates(text)
        if (len(whole) <= MAX_TEXT and len(whole) <= self._left) or len(whole) <= SHORT_TEXT:
            self._left -= len(whole)
            return self._redactor.text(whole)
        cut = _cut_text(whole, self._redactor)
        if len(cut["excerpt"]) > self._left:
            cut["excerpt"] = cut["excerpt"][:SHORT_TEXT]
        self._left -= len(cut["excerpt"]) + SHORT_TEXT
        return cut

    def _is_full(self, count: int, name: str = "") -> bool:
        """Whether there is no room for one more member; a member costs its name and 8 characters."""
        self._left -= len(name) + 8
        return count >= MAX_ITEMS or self._left < -MAX_PAYLOAD

    def _list(self, items: Iterable[Any], length: int, depth: int, bound: Callable[[Any, int], Any]) -> list[Any]:
        kept: list[Any] = []
        for index, item in enumerate(items):
            if self._is_full(index):
                kept.append(_cut("items", length))
                break
            kept.append(bound(item, depth + 1))
        return kept

    def _object(self, members: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for index, key in enumerate(members):
            name = self._bound_name(str(key), MAX_KEY)
            if self._is_full(index, name):
                kept["…"] = _cut("items", len(members))
                break
            bound = self._secret if self._redactor.is_secret_field(str(key)) else self.bound
            kept[name] = bound(members[key], depth + 1)
        return kept

    def _secret(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._redactor.field(replace_lone_surrogates(value))
        if isinstance(value, list | tuple) and depth < MAX_DEPTH:
            # A header such as set-cookie has a list of values, each of them secret.
            return self._list(value, len(value), depth, self._secret)
        return self.bound(value, depth)


def bound_text(text: str, max_length: int, redactor: Redactor) -> str:
    """Return the redacted beginning of a text, for the envelope and for field names, where a text stays a text."""
    whole = replace_lone_surrogates(text)
    return _redacted_start(whole, whole[: max_length + MARGIN], redactor)[:max_length]


def _cut_text(text: str, redactor: Redactor) -> dict[str, Any]:
    """Return the size, digest and excerpt that stand for a long text."""
    whole = replace_lone_surrogates(text)
    start = whole[: MAX_EXCERPT + MARGIN]
    safe = _redacted_start(whole, start, redactor)
    # With the digest of a short text, a secret in it could be found by guessing: digest the redacted text.
    digested = whole if len(start) < len(whole) else safe
    return {"cut": True, "size": len(whole.encode()), "digest": text_digest(digested), "excerpt": safe[:MAX_EXCERPT]}


def text_digest(text: str) -> str:
    """Return the digest by which large values can be compared; the recorder plugin computes the same."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def is_too_deep(data: bytes, payload: dict[str, Any]) -> bool:
    """Return whether the payload of a record, serialized in `data`, is nested deeper than `MAX_RECORD_DEPTH`."""
    # Most records have no list; finding none is faster than counting none.
    lists = data.count(b"[") if b"[" in data else 0
    if lists + data.count(b"{") <= MAX_RECORD_DEPTH:
        return False
    level: list[Any] = [payload]
    for _ in range(MAX_RECORD_DEPTH):
        nested = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in nested for item in items]
    return bool(level)


def _redacted_start(whole: str, start: str, redactor: Redactor) -> str:
    # Redaction can shorten the text so much that the end of the examined part falls into the excerpt. A secret that is
    # cut in half there matches no rule, so the last word is left out.
    safe = redactor.text(start)
    end_is_far = len(start) == len(whole) or len(safe) > MAX_EXCERPT + MARGIN // 8
    return safe if end_is_far or safe.endswith("]") else _LAST_WORD.sub("", safe)


def _cut(reason: str, size: int | None = None) -> dict[str, Any]:
    return {"cut": True, "reason": reason} | ({} if size is None else {"size": size})
