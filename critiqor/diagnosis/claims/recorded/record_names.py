"""Which recorded number a claimed one stands for: by the record that its sentence names, and by the words around it."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import NamedTuple

from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.recorded.facts import Fact
from critiqor.diagnosis.claims.values import Reading

MIN_NAME = 3
"""Minimum number of letters of a word that names a record."""
MAX_PHRASE = 40
"""Maximum number of characters of a name that is searched as a whole."""
MAX_UNSPACED = 300
"""Maximum number of names in languages without spaces that are searched in a sentence."""
_WORD = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CLAUSE_END = re.compile(r"[,;:()|，、；：（）](?!\d)|\n")


class Mention(NamedTuple):
    """A place of a sentence that names records."""

    start: int
    end: int
    records: frozenset[int]


class RecordNames:
    """The names of records: which records a sentence names, and where."""

    def __init__(self, facts: list[Fact]) -> None:
        self.facts = facts
        self._telling: dict[frozenset[str], frozenset[str]] = {}
        self._records: dict[int, list[Fact]] = {}
        for fact in facts:
            self._records.setdefault(fact.record, []).append(fact)

    def of(self, records: frozenset[int]) -> list[Fact]:
        """Return the facts of some records."""
        return [fact for record in sorted(records) for fact in self._records[record]]

    @cached_property
    def _words(self) -> dict[str, frozenset[int]]:
        """The records that a word names; a word of most records names none of them."""
        found: dict[str, set[int]] = {}
        names = 0
        for record, facts in self._records.items():
            names += 1
            for name in facts[0].names:
                for word in _name_words(name):
                    found.setdefault(word, set()).add(record)
        most = max(1, names // 2)
        return {word: frozenset(records) for word, records in found.items() if len(records) <= most}

    @cached_property
    def _phrases(self) -> dict[str, list[tuple[str, frozenset[int]]]]:
        """The records that a name with several parts names, by its first part: `FV/118`, `Hotel Sint-Jan`."""
        found: dict[str, set[int]] = {}
        for record, facts in self._records.items():
            for name in facts[0].names if facts[0].is_structured else ():
                if len(name) <= MAX_PHRASE and not name.isalnum():
                    found.setdefault(name, set()).add(record)
        phrases: dict[str, list[tuple[str, frozenset[int]]]] = {}
        for name, records in found.items():
            if first := _WORD.search(name):
                phrases.setdefault(first[0], []).append((name[first.start() :], frozenset(records)))
        return phrases

    @cached_property
    def _letters(self) -> dict[str, frozenset[int]]:
        """The records whose name is one letter: variant A."""
        found: dict[str, set[int]] = {}
        for record, facts in self._records.items():
            for name in facts[0].names if facts[0].is_structured else ():
                if len(name) == 1 and name.isalpha():
                    found.setdefault(name, set()).add(record)
        return {name: frozenset(records) for name, records in found.items()}

    @cached_property
    def _unspaced(self) -> list[tuple[str, frozenset[int]]]:
        found: dict[str, set[int]] = {}
        for record, facts in self._records.items():
            for name in facts[0].names:
                if len(name) > 1 and _UNSPACED.search(name) and facts[0].is_structured:
                    found.setdefault(name, set()).add(record)
        names = len(self._records)
        known = [
            (name, frozenset(records)) for name, records in found.items() if len(records) == 1 or len(records) < names
        ]
        return known[:MAX_UNSPACED]

    def mentions(self, lowered: str, text: str = "") -> list[Mention]:
        """Return where a sentence, in lower case and as it is, names records, in order."""
        found = []
        for letter in _LETTER.finditer(text) if self._letters else ():
            if (named := self._letters.get(letter[0].lower())) is not None:
                found.append(Mention(letter.start(), letter.end(), named))
        words = self._words
        for match in _WORD.finditer(lowered):
            for name, named in self._phrases.get(match[0], ()):
                if lowered.startswith(name, match.start()):
                    found.append(Mention(match.start(), match.start() + len(name), named))
            for word in {match[0], *_PARTS.split(match[0])}:
                if (records := words.get(word)) is not None:
                    found.append(Mention(match.start(), match.end(), records))
        for name, records in self._unspaced:
            at = lowered.find(name)
            while at >= 0:
                found.append(Mention(at, at + len(name), records))
                at = lowered.find(name, at + 1)
        return sorted(found)

    def nearest(self, lowered: str, mentions: list[Mention], place: int) -> frozenset[int]:
        """Return the records that a number at a place of a sentence belongs to: those that the nearest name names.

        A name in its clause comes first, then one before it, then one behind it.
        """
        if not mentions:
            return frozenset()
        begin = max((match.end() for match in _CLAUSE_END.finditer(lowered, 0, place)), default=0)
        end = match.start() if (match := _CLAUSE_END.search(lowered, place)) else len(lowered)
        before = [one for one in mentions if one.end <= place]
        inside = [one for one in before if one.start >= begin] or [one for one in mentions if begin <= one.start < end]
        chosen = inside or before[-2:] or mentions[:1]
        # Several words narrow the records down: a name and a month.
        records = chosen[-1].records
        for one in reversed(chosen[:-1]):
            records = records & one.records or records
        return records

    @cached_property
    def readings(self) -> list[Reading]:
        """The different numbers in their most usual reading."""
        return list(dict.fromkeys(fact.readings[0] for fact in self.facts))

    def telling(self, keys: frozenset[str]) -> frozenset[str]:
        """Return those of some beginnings of words that name recorded numbers, and not most of them."""
        telling = self._telling.get(keys)
        if telling is None:
            most = max(1, self.series // 3)
            telling = self._telling[keys] = frozenset(key for key in keys if self.keys.get(key, most + 1) <= most)
        return telling

    @cached_property
    def keys(self) -> dict[str, int]:
        """In how many series each beginning of a word occurs."""
        found: dict[str, set[str]] = {}
        for fact in self.facts:
            for key in fact.keys:
                found.setdefault(key, set()).add(fact.series)
        return {key: len(series) for key, series in found.items()}

    @cached_property
    def series(self) -> int:
        """The number of different series."""
        return len({fact.series for fact in self.facts})


@lru_cache(maxsize=20_000)
def _name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that can name a record."""
    parts = [part for match in _WORD.finditer(name) for part in {match[0], *_PARTS.split(match[0])}]
    return tuple(
        word
        for word in parts
        if (len(word) >= MIN_NAME and not word.isdigit() and word not in small_words()) or _is_code(word)
    )


_PARTS = re.compile(r"[-_.]")
_LETTER = re.compile(r"(?<![\w.'’-])[^\W\d_a-z](?![\w'’-]|\.\w)")
"""A letter that may be a name, if rows are named by letters; an article counts, too, so that nothing is concluded."""


def _is_code(word: str) -> bool:
    """Return whether a short word has letters and digits, such as E2 or Q3."""
    return len(word) >= 2 and not word.isdigit() and not word.isalpha() and any(map(str.isdigit, word))
