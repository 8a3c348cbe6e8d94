"""Distinctive words of a memory result, to detect whether the result is used."""

from __future__ import annotations

import re

_DISTINCTIVE = re.compile(r"[^\W\d_]{6,}|\w*\d\w*")
MAX_CHARACTERS = 20_000
"""Maximum number of characters of a text that are examined."""
MIN_WORDS = 5
"""Minimum number of distinctive words of a tracked result; fewer do not show whether it is used."""
MAX_WORDS = 600
"""Maximum number of distinctive words of a tracked result; some words of a longer one are always used."""


def distinctive_words(text: str) -> frozenset[str]:
    """Return the distinctive words of a text: words of at least six letters, and words with a digit."""
    return frozenset(_DISTINCTIVE.findall(text[:MAX_CHARACTERS].lower()))


def new_words(answer: str, question: str) -> frozenset[str]:
    """Return the distinctive words of an answer that are not in its question; none if there are too few or too many."""
    words = distinctive_words(answer) - distinctive_words(question)
    return words if MIN_WORDS <= len(words) <= MAX_WORDS else frozenset()
