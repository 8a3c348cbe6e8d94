"""What goes into an event is bounded and redacted, by the limits of the recorder plugin.

A long text becomes its size, digest and excerpt; a deep or wide value is cut, and says so. Nothing here fails, whatever
a file, an agent or a tool hands over.
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
from critiqor.storage.redaction import Redactor, is_secret_field

TEXT = 8192
"""Characters of one text kept whole."""
EXCERPT = 2048
"""Characters of a longer one that are kept."""
MARGIN = 4096
"""Looked at beyond an excerpt, so that a secret across its edge is still seen whole."""
RECORD = 32_768
"""Characters of one payload beyond which longer texts are cut, and twice as many beyond which all is."""
SHORT = 64
"""Characters of a text that is kept even then."""
ITEMS = 200
"""Members of one list or object."""
KEY = 256
"""Characters of the name of a field."""
DEPTH = 12
"""Levels of nesting."""

_MOST_KNOWN = 4096
_LAST_WORD = re.compile(r"\S+\Z")
_INTEGERS = range(-(1 << 63), 1 << 64)


class Bounds:
    """Makes values fit to be evidence."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._known: dict[str, str] = {}

    def payload(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A payload without secrets, of bounded size."""
        bounded: dict[str, Any] = _Room(self).value(value, 0)
        return bounded

    def name(self, text: str, length: int = EXCERPT) -> str:
        """A text of the envelope or the name of a field, which stays a text."""
        # The same few names stand in every event, and looking for secrets in them costs more than all else.
        if len(text) > SHORT:
            return self._safe_name(text, length)
        if text not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = self._safe_name(text, length)
        return self._known[text]

    def _safe_name(self, text: str, length: int) -> str:
        whole = replace_lone_surrogates(text)
        return _redacted_start(whole, whole[: length + MARGIN], self.redactor)[:length]


class _Room:
    """The room that is left in one payload."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._redactor = bounds.redactor
        self._left = RECORD
        self._around: set[int] = set()

    def value(self, value: Any, depth: int) -> Any:
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
        if id(value) in self._around:
            return _cut("cycle")
        if depth >= DEPTH:
            return _cut("depth")
        self._around.add(id(value))
        try:
            return self._members(value, depth)
        except Exception:  # whatever an object of a tool does when it is looked at
            return _cut("unreadable")
        finally:
            self._around.discard(id(value))

    def _members(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, len(value), depth, self.value)
        if isinstance(value, date | PurePath):
            return self._text(str(value))
        if isinstance(value, BaseException):
            return self._object({"name": type(value).__name__, "message": str(value)}, depth)
        if isinstance(value, msgspec.Struct):
            return self._members(msgspec.to_builtins(value), depth)
        return _cut("unreadable")

    def _text(self, text: str) -> Any:
        whole = replace_lone_surrogates(text)
        if (len(whole) <= TEXT and len(whole) <= self._left) or len(whole) <= SHORT:
            self._left -= len(whole)
            return self._redactor.text(whole)
        cut = cut_text(whole, self._redactor)
        if len(cut["excerpt"]) > self._left:
            cut["excerpt"] = cut["excerpt"][:SHORT]
        self._left -= len(cut["excerpt"]) + SHORT
        return cut

    def _is_full(self, count: int, name: str = "") -> bool:
        """Whether there is no room for one more member; each costs its name and a little."""
        self._left -= len(name) + 8
        return count >= ITEMS or self._left < -RECORD

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
            name = self._bounds.name(str(key), KEY)
            if self._is_full(index, name):
                kept["…"] = _cut("items", len(members))
                break
            bound = self._secret if is_secret_field(str(key)) else self.value
            kept[name] = bound(members[key], depth + 1)
        return kept

    def _secret(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._redactor.field(replace_lone_surrogates(value))
        if isinstance(value, list | tuple) and depth < DEPTH:
            # A header such as set-cookie has a list of values, each of them secret.
            return self._list(value, len(value), depth, self._secret)
        return self.value(value, depth)


def cut_text(text: str, redactor: Redactor) -> dict[str, Any]:
    """Size, digest and excerpt of a long text."""
    whole = replace_lone_surrogates(text)
    seen = whole[: EXCERPT + MARGIN]
    safe = _redacted_start(whole, seen, redactor)
    # The digest of a short text that holds a secret would give the secret to whoever can guess the rest.
    digested = whole if len(seen) < len(whole) else safe
    return {"cut": True, "size": len(whole.encode()), "digest": digest_of(digested), "excerpt": safe[:EXCERPT]}


def digest_of(text: str) -> str:
    """The digest by which two large values can be told apart or found equal; the same as in the recorder."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _redacted_start(whole: str, seen: str, redactor: Redactor) -> str:
    # Redaction can shorten what was seen so much that its far end comes into the excerpt, and there a secret can be cut
    # in half, which no rule recognises: that last word is left out.
    safe = redactor.text(seen)
    end_is_far = len(seen) == len(whole) or len(safe) > EXCERPT + MARGIN // 8
    return safe if end_is_far or safe.endswith("]") else _LAST_WORD.sub("", safe)


def _cut(reason: str, size: int | None = None) -> dict[str, Any]:
    return {"cut": True, "reason": reason} | ({} if size is None else {"size": size})
