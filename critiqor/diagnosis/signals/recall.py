"""Whether what memory answered is ever used: by the words that it brought and nobody had said before."""

from __future__ import annotations

import re

_TELLING = re.compile(r"[^\W\d_]{6,}|\w*\d\w*")
LONGEST = 20_000
"""Characters of a text that are looked at."""
FEWEST = 5
"""Words below which an answer says too little to be missed."""
MOST = 600
"""Words above which it is not worth the room to remember them: some of so many are always used."""


def telling_words(text: str) -> frozenset[str]:
    """The words of a text that are not in every other one: the long ones, and those with a number in them."""
    return frozenset(_TELLING.findall(text[:LONGEST].lower()))


def news(answer: str, question: str) -> frozenset[str]:
    """What an answer tells beyond its question; nothing where that is too little, or too much, to be recognised."""
    words = telling_words(answer) - telling_words(question)
    return words if FEWEST <= len(words) <= MOST else frozenset()
