"""Search terms: the same search for the index and for a plain scan of the events.

A search is a list of words separated by spaces, and an event must contain all of them. A word matches the beginning of
words. A word with other characters, such as `src/app.py`, matches its parts in sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from critiqor.model import Event
from critiqor.model.sanitize import excerpt

MAX_WORDS = 16
MAX_SEARCH = 400
MAX_LOCATED = 50_000
"""Maximum number of characters of an event in which the match of a search is located."""
MAX_SHOWN = 200
"""Maximum length of the text around a match in characters."""
_WORD = re.compile(r"\w+")


class Search:
    """A search."""

    def __init__(self, text: str) -> None:
        chunks = (split_words(chunk) for chunk in text[:MAX_SEARCH].split())
        self.phrases = [words for words in chunks if words][:MAX_WORDS]
        """The parts of each word, in lower case; the last part matches the beginning of a word."""

    def __bool__(self) -> bool:
        return bool(self.phrases)

    @property
    def expression(self) -> str:
        """The search for FTS5. Words contain only letters, digits and underscores, so nothing needs escaping."""
        return " AND ".join(f'"{" ".join(words)}" *' for words in self.phrases)

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """A pattern that locates matches in a text; None for an empty search."""
        phrases = sorted((r"\W+".join(map(re.escape, words)) for words in self.phrases), key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})", re.IGNORECASE) if phrases else None

    def matches(self, event: Event) -> bool:
        """Return whether all terms of the search are in an event."""
        text = searchable_text(event)
        lowered = text.lower()
        if not all(word in lowered for words in self.phrases for word in words):
            return False  # a fast check that excludes most events
        words = split_words(text)
        return all(_contains(words, phrase) for phrase in self.phrases)


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def _contains(words: list[str], phrase: list[str]) -> bool:
    *whole, last = phrase
    for place in range(len(words) - len(whole)):
        if words[place : place + len(whole)] == whole and words[place + len(whole)].startswith(last):
            return True
    return False


def searchable_text(event: Event) -> str:
    """Return everything that can be searched in an event: its names, its error, and every value of its payload."""
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


def matching_excerpt(event: Event, text: str) -> str:
    """Return the part of an event around the first term of a search, on one line."""
    parts = [part for part in (event.error, *_texts(event.payload)) if part]
    pattern, left = Search(text).pattern, MAX_LOCATED
    for part in parts if pattern is not None else ():
        # Only the value with the match: those beside it are ids and settings as often as words.
        if pattern is not None and pattern.search(part[:left]):
            return excerpt_around(part[:left], text)
        left -= len(part)
        if left <= 0:
            break
    return excerpt("\n".join(parts)[:MAX_LOCATED] or searchable_text(event), MAX_SHOWN)


def excerpt_around(content: str, text: str) -> str:
    """Return the part of a text around the first match of a search, on one line."""
    pattern = Search(text).pattern
    match = pattern.search(content) if pattern is not None else None
    if match is None:
        return excerpt(content, MAX_SHOWN)
    start = max(content.rfind("\n", 0, match.start()) + 1, match.start() - 60)
    return excerpt(content[start:], MAX_SHOWN)
