"""Heuristics on texts: equality, similarity, words, and times of day that do not count."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical_json(value: Any) -> str:
    """Return a value as a JSON text with sorted keys, so that equal values have equal texts."""
    return _encode(value).decode()


def fingerprint(*parts: str) -> bytes:
    """Return a short hash of these texts, the same on every machine."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def plain_text(value: Any) -> str:
    """Return the text of a tool result or a message, which can be a text, a list of parts or a truncated value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if value.get("cut") is True:
            return str(value.get("excerpt") or value.get("digest") or "")
        for name in ("content", "text", "output", "value"):
            if isinstance(value.get(name), str | list | dict):
                return plain_text(value[name])
        return canonical_json(value)
    if isinstance(value, list):
        return plain_text(value[0]) if len(value) == 1 else "\n".join(map(plain_text, value))
    return "" if value is None else canonical_json(value)


# Times and durations that change although nothing else does, and the id with which OpenClaw wraps external content: it
# is different each time. A bare number is kept, because it may show progress.
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\bin \d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+\.\d+ ?m?s\b"
    r"|Ms\"?: ?\d+|CONTENT id=\\*\"[0-9a-f]+"
)


def gate(*patterns: str) -> Callable[[str], bool]:
    """Return a fast check for any of these patterns. Patterns that begin with literal characters are the fastest."""
    searches = tuple(re.compile(pattern).search for pattern in patterns)

    def may_match(text: str) -> bool:
        for search in searches:  # noqa: SIM110 - a generator costs more than the search
            if search(text):
                return True
        return False

    return may_match


_may_hold_clock = gate(r":[0-5]\d", r"-[01]\d-", r"in \d", r"\.\d+ ?m?s\b", r"Ms\"?: ?\d", "CONTENT id=")


def without_clock(text: str) -> str:
    """Return a text without times of day and durations."""
    return (_CLOCK.sub("#", text) if _may_hold_clock(text) else text).strip()


_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1024)
def words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def likeness(one: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    first, second = words(one), words(other)
    union = len(first | second)
    return len(first & second) / union if union else 1.0


_DISTINCTIVE = re.compile(r"[^\W\d_]{6,}|\w*\d\w*")
MAX_CHARACTERS = 20_000
"""Maximum number of characters of a text that are examined."""
MIN_WORDS = 5
"""Minimum number of new words of an answer; fewer do not show whether it is used."""
MAX_WORDS = 600
"""Maximum number of new words of an answer; some words of a longer one are always used."""


def distinctive_words(text: str) -> frozenset[str]:
    """Return the distinctive words of a text: words of at least six letters, and words with a digit."""
    return frozenset(_DISTINCTIVE.findall(text[:MAX_CHARACTERS].lower()))


def new_words(answer: str, question: str) -> frozenset[str]:
    """Return the distinctive words of a text that are not in the question it answers; none if too few or too many."""
    words = distinctive_words(answer) - distinctive_words(question)
    return words if MIN_WORDS <= len(words) <= MAX_WORDS else frozenset()
