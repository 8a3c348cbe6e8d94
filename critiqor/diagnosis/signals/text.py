"""Heuristics on texts: similarity, words and their stems, texts in nested values."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from typing import Any

import msgspec

from critiqor.diagnosis.collections.fingerprints import canonical_json

_TOKEN = re.compile(r"[^\W_]{2,}")
STEM = 5
"""Maximum number of letters of the beginning of a word."""


def decode_json(text: str) -> Any:
    """Return the value of a JSON text. Raise `msgspec.DecodeError` if it is none, or is nested too deeply."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None


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
    """Return the distinctive words of a text that are not in the question before it; none if too few or too many."""
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
