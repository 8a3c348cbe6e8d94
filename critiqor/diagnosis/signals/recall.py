"""The words that a memory lookup brought, to find out whether its result is ever used."""

from __future__ import annotations

import re

_TELLING = re.compile(r"[^\W\d_]{6,}|\w*\d\w*")
MAX_CHARACTERS = 20_000
"""Characters of a text that are looked at."""
MIN_WORDS = 5
"""A result with fewer words says too little to be missed."""
MAX_WORDS = 600
"""A result with more words is not followed: some of so many are always used."""


def telling_words(text: str) -> frozenset[str]:
    """Return the distinctive words of a text: the long ones, and those with a digit in them."""
    return frozenset(_TELLING.findall(text[:MAX_CHARACTERS].lower()))


def news(answer: str, question: str) -> frozenset[str]:
    """Return the distinctive words of an answer that are not in its question; none if they are too few or too many."""
    words = telling_words(answer) - telling_words(question)
    return words if MIN_WORDS <= len(words) <= MAX_WORDS else frozenset()
