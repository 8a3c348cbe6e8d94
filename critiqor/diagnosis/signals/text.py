"""Heuristics on texts: equality, similarity, words, and times of day that do not count."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Set
from functools import lru_cache
from typing import Any

import msgspec

from critiqor.diagnosis.signals.literals import pattern_check

_TOKEN = re.compile(r"[^\W_]{2,}")
STEM = 5
"""Maximum number of letters of the beginning of a word."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical_json(value: Any) -> str:
    """Return a value as a JSON text with sorted keys, so that equal values have equal texts."""
    return _encode(value).decode()


def decode_json(text: str) -> Any:
    """Return the value of a JSON text. Raise `msgspec.DecodeError` if it is none, or is nested too deeply."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None


def encoded(text: str) -> bytes:
    """Return a text as UTF-8. Evidence can contain lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def fingerprint(*parts: str) -> bytes:
    """Return a short hash of these texts, the same on every machine."""
    return fingerprint_of(encoded("\0".join(parts)))


def fingerprint_of(data: bytes) -> bytes:
    """Return the fingerprint of a text that is encoded already."""
    return hashlib.blake2b(data, digest_size=8).digest()


_TEXT_MEMBERS = ("content", "text", "output", "value")
_TEXTS = (str, list, dict)


def plain_text(value: Any) -> str:
    """Return a tool result or a message as the text that heuristics examine: its parts joined, else its JSON."""
    while not isinstance(value, str):
        if isinstance(value, list):
            if len(value) != 1:
                return "\n".join(map(plain_text, value))
            value = value[0]
        elif isinstance(value, dict):
            if value.get("cut") is True:
                return str(value.get("excerpt") or value.get("digest") or "")
            for name in _TEXT_MEMBERS:
                inner = value.get(name)
                if isinstance(inner, _TEXTS):
                    value = inner
                    break
            else:
                return canonical_json(value)
        else:
            return "" if value is None else canonical_json(value)
    return value


# Times and durations that change although nothing else does, and the id with which OpenClaw wraps external content: it
# is different each time. A bare number is kept, because it may show progress.
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\bin \d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+\.\d+ ?m?s\b"
    r"|Ms\"?: ?\d+|CONTENT id=\\*\"[0-9a-f]+"
)


_may_hold_clock = pattern_check(r":[0-5]\d", r"-[01]\d-", r"in \d", r"\.\d++ ?m?s\b", r"Ms\"?: ?\d", "CONTENT id=")


def without_clock(text: str) -> str:
    """Return a text without times of day and durations."""
    return (_CLOCK.sub("#", text) if _may_hold_clock(text) else text).strip()


_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=256)
def words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, single letters included."""
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


def tokens(text: str) -> set[str]:
    """Return the words of a text in lower case, without single letters."""
    pieces = set(text.lower().split())
    words = {piece for piece in pieces if piece.isalnum()}
    if len(words) < len(pieces):
        words.update(_TOKEN.findall(" ".join(pieces - words)))
    return {word for word in words if len(word) > 1}


def stems(words: Set[str]) -> set[str]:
    """Return the beginnings of words, so that inflected forms are equal."""
    return {word[:STEM] for word in words}
