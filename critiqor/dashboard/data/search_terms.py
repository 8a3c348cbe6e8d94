"""What a search looks for, the same in the index and in a plain scan of the events.

A search is words with spaces between them; every one must be there. A word stands for the beginning of what it finds,
and one that holds other signs, such as `src/app.py`, for its parts right behind each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from critiqor.model import Event

MOST_WORDS = 16
LONGEST_SEARCH = 400
_WORD = re.compile(r"\w+")


class Search:
    """One search."""

    def __init__(self, text: str) -> None:
        chunks = (words_of(chunk) for chunk in text[:LONGEST_SEARCH].split())
        self._phrases = [words for words in chunks if words][:MOST_WORDS]

    def __bool__(self) -> bool:
        return bool(self._phrases)

    @property
    def expression(self) -> str:
        """The same for FTS5. Words hold letters, digits and underscores alone, so that nothing needs escaping."""
        return " AND ".join(f'"{" ".join(words)}" *' for words in self._phrases)

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """The same for the places in a text; None for a search that looks for nothing."""
        phrases = sorted((r"\W+".join(map(re.escape, words)) for words in self._phrases), key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})", re.IGNORECASE) if phrases else None

    def finds(self, event: Event) -> bool:
        """Whether an event has it."""
        text = text_of(event)
        lowered = text.lower()
        if not all(word in lowered for words in self._phrases for word in words):
            return False  # most events, and much faster told
        words = words_of(text)
        return all(_holds(words, phrase) for phrase in self._phrases)


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _holds(words: list[str], phrase: list[str]) -> bool:
    *whole, last = phrase
    for place in range(len(words) - len(whole)):
        if words[place : place + len(whole)] == whole and words[place + len(whole)].startswith(last):
            return True
    return False


def text_of(event: Event) -> str:
    """Everything that can be searched of an event: its names, its error, and every value of its payload."""
    named = (event.event_type, event.tool_name, event.tool_call_id, event.error, event.session_key, event.agent_run_id)
    return "\n".join((*(name for name in named if name), *_texts(event.payload)))


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
