"""Lists of words, stems and phrases that are searched in a text together.

An entry `x` is a whole word, `x*` the beginning, `*x` the end and `*x*` any part of a word; a phrase contains spaces.
The last word of a phrase is a whole word, unless phrases may be open: then `no x*` also finds `no xs`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

MAX_CACHED = 5_000
"""Maximum number of words whose lists are remembered."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
"""Characters of languages that do not separate words."""


_MARKS = frozenset(".,;:!?)\"'`*|")
"""Characters behind a word: a word with one of them is often seen again."""
_SHARED = 3
"""Number of letters by which it is decided whether a word can be in a list."""


class Hit(NamedTuple):
    """An entry in a text."""

    start: int
    end: int
    mark: int
    """The lists that contain it, as bits."""


_new_hit = tuple.__new__
"""Creates a hit in half of the time: texts have many."""


def _is_word(text: str) -> bool:
    """Return whether a text is one word of a language that separates words."""
    is_one = text.isalnum() or _WORD.fullmatch(text) is not None
    return is_one and (text.isascii() or not _UNSPACED.search(text))


def _mark_entry(entries: dict[str, int], entry: str, bit: int) -> None:
    # Most entries are in one list only. They share its number: each other one takes as much memory as a short word.
    known = entries.get(entry)
    entries[entry] = bit if known is None else known | bit


class Vocabulary:
    """Named lists of entries."""

    def __init__(self, lists: dict[str, list[str]], *, has_open_phrases: bool = False) -> None:
        self._has_open_phrases = has_open_phrases
        self._bits: dict[str, int] = {}
        self._words: dict[str, int] = {}
        self._prefixes: dict[int, dict[str, int]] = {}
        self._suffixes: dict[int, dict[str, int]] = {}
        self._parts: dict[str, dict[str, int]] = {}
        """Parts of words by their first letter: some languages have thousands, and a text has few different letters."""
        self._phrases: dict[str, tuple[tuple[str, int, bool], ...]] = {}
        """Phrases by their first word with the two characters behind it, each with whether its last word is open."""
        self._firsts: set[str] = set()
        """The words with which phrases begin."""
        self._known: dict[str, int] = {}
        words = self._words
        for name, entries in lists.items():
            bit = self._bits[name] = 1 << len(self._bits)
            for entry in entries:
                # Most entries are plain words, and there are tens of thousands.
                if entry.isalnum() and entry.isascii():
                    _mark_entry(words, entry, bit)
                else:
                    self._add(entry, bit)
        self._begins = 1 << len(self._bits)
        """The mark of a word with which a phrase begins."""
        known = chain(self._words, self._firsts, *self._prefixes.values())
        self._beginnings = frozenset([entry[:_SHARED] for entry in known])
        """The first letters of words: most words of a text begin with others, and are in no list."""
        self._shortest = min(self._prefixes, default=_SHARED)
        self._numbers = {word for word in (*self._words, *self._firsts) if word.isdigit()}

    def _add(self, entry: str, bit: int) -> None:
        bare = entry.strip("*")
        if not bare:
            return
        if " " in bare:
            first = bare.partition(" ")[0]
            if not first.isalnum():
                found = _WORD.search(bare)
                first = found[0] if found else bare
            is_open = self._has_open_phrases and entry.endswith("*")
            self._firsts.add(first)
            begin = bare[: len(first) + 2]
            self._phrases[begin] = (*self._phrases.get(begin, ()), (bare, bit, is_open))
        elif (entry.startswith("*") and entry.endswith("*")) or not _is_word(bare):
            _mark_entry(self._parts.setdefault(bare[0], {}), bare, bit)
        elif entry.endswith("*"):
            _mark_entry(self._prefixes.setdefault(len(bare), {}), bare, bit)
        elif entry.startswith("*"):
            _mark_entry(self._suffixes.setdefault(len(bare), {}), bare, bit)
        else:
            _mark_entry(self._words, bare, bit)

    def bit(self, name: str) -> int:
        """Return the bit of a list; 0 if there is none of this name."""
        return self._bits.get(name, 0)

    def scan(self, text: str) -> list[Hit]:
        """Return the entries in a text in lower case, in order."""
        hits: list[Hit] = []
        known = self._known
        start = 0
        # Splitting at spaces is much faster than a pattern. Most pieces are words that are known to be in no list.
        for piece in text.replace("\n", " ").split(" "):
            mark = known.get(piece)
            if mark is None and piece:
                if piece.isalnum():
                    mark = self._mark(piece)
                elif self._has_none(piece):
                    pass
                else:
                    is_marked = False
                    for match in _WORD.finditer(text, start, start + len(piece)):
                        word = match[0]
                        inner = known.get(word)
                        if inner is None:
                            inner = self._mark(word)
                        if inner:
                            is_marked = True
                            self._add_hits(hits, text, match.start(), word, inner)
                    if not is_marked and piece[-1] in _MARKS and len(known) < MAX_CACHED:
                        known[piece] = 0
            if mark:
                self._add_hits(hits, text, start, piece, mark)
            start += len(piece) + 1
        for first in self._parts.keys() & set(text):
            for part, bit in self._parts[first].items():
                at = text.find(part)
                while at >= 0:
                    hits.append(Hit(at, at + len(part), bit))
                    at = text.find(part, at + 1)
        if self._parts:
            hits.sort()
        return hits

    def _add_hits(self, hits: list[Hit], text: str, start: int, word: str, mark: int) -> None:
        lists = mark & ~self._begins
        end = start + len(word)
        if lists:
            hits.append(_new_hit(Hit, (start, end, lists)))
        if mark != lists:
            for phrase, bit, is_open in self._phrases.get(text[start : end + 2], ()):
                end = start + len(phrase)
                if text.startswith(phrase, start) and (is_open or not text[end : end + 1].isalnum()):
                    hits.append(_new_hit(Hit, (start, end, bit)))

    def _mark(self, word: str) -> int:
        mark = 0
        if word[:_SHARED] in self._beginnings or self._shortest < _SHARED:
            mark = self._words.get(word, 0) | (self._begins if word in self._firsts else 0)
            for size, stems in self._prefixes.items():
                mark |= stems.get(word[:size], 0)
        for size, ends in self._suffixes.items():
            mark |= ends.get(word[-size:], 0)
        if len(self._known) < MAX_CACHED and not word.isdigit():
            self._known[word] = mark
        return mark

    def _has_none(self, piece: str) -> bool:
        """Return whether a piece is a number with decimals, which is in no list: reports are full of them."""
        whole, _, part = piece.partition(".")
        return whole.isdigit() and part.isdigit() and self._numbers.isdisjoint((whole, part))

    def find(self, name: str, text: str) -> list[Hit]:
        """Return the entries of one list in a text in lower case, in order."""
        bit = self.bit(name)
        return [hit for hit in self.scan(text) if hit.mark & bit]

    def mentions(self, name: str, text: str) -> bool:
        """Return whether a text in lower case contains an entry of a list."""
        return bool(_marks(self, text) & self.bit(name))


@lru_cache(maxsize=64)
def _marks(vocabulary: Vocabulary, text: str) -> int:
    """Return the lists of which a text has entries, as bits: a sentence is asked about several lists in a row."""
    marks = 0
    for hit in vocabulary.scan(text):
        marks |= hit.mark
    return marks
