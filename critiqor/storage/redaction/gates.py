"""Gates of redaction: cheap tests that tell texts and serialized records without any secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import starmap
from typing import NamedTuple

from critiqor.storage.redaction.rules import expand, is_secret_field, shared_rules

# What the gates do not cover: characters that are escaped unnecessarily, and white space that only Python knows.
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:u00(?:[2-7]|1[c-f]|85|a0)|u[12]|/)", re.IGNORECASE)
# `is_secret_field` does not accept a name with a backslash; excluding it here would make the search slower.
_FIELD = re.compile(rb'"([^"]{4,160})"(?<!\\")\s*:\s*["\[]')
_MAX_NAMES = 4096
_HARMLESS_NAMES: set[bytes] = set()
"""Names of fields that were looked at before: the same few names occur in every record."""

# Characters at which the search for words stops, the rarest first. Each of them costs time wherever it occurs, so there
# are as few as possible. If it is the last one of a word, the search looks back, which takes longer.
_STARTS = "$&?*QJVKGzMNOA/xv-bpkfy5ch6"
_PLACE = "\0"
"""Stands for the word in the pattern of a gate."""
PREFIXES = -1
"""The number of the rules for prefixes, among those of the groups."""


class _Gate(NamedTuple):
    word: str
    pattern: str
    group: int

    @property
    def rest(self) -> str:
        """What must follow the word, as a pattern; empty if that is not known."""
        return _with_word(self.pattern.partition(_PLACE)[2], self.word)


@cache
def _steps(gate: _Gate) -> tuple[re.Pattern[bytes], ...]:
    """Return what a text with the word of a gate must match, the fastest first."""
    sources = (re.escape(gate.word) + gate.rest, _with_word(gate.pattern, gate.word))
    return tuple(re.compile(source.encode()) for source in dict.fromkeys(sources))


def _with_word(pattern: str, word: str) -> str:
    return pattern.replace(_PLACE, re.escape(word))


class _WordSearch:
    """Finds the gates that a text passes. Searching for each of their words would cost more than all else.

    One pattern stops at a rare character of each word, and matches it if the word is there with what must follow it.
    """

    def __init__(self, gates: Iterable[_Gate]) -> None:
        self._gates: dict[bytes, dict[bytes, list[_Gate]]] = {}
        ends: dict[str, dict[str, dict[str, list[str]]]] = {}
        """What may follow a character, by the next character and by what follows the word."""
        for gate in gates:
            start = next((character for character in _STARTS if character in gate.word), gate.word[0])
            self._gates.setdefault(start.encode(), {}).setdefault(gate.word.encode(), []).append(gate)
            before, _, after = gate.word.partition(start)
            whole = f"(?<={re.escape(gate.word)})" if before else ""
            same_rest = ends.setdefault(start, {}).setdefault(after[:1], {}).setdefault(gate.rest, [])
            same_rest.append(re.escape(after[1:]) + whole)
        self._pattern = re.compile("|".join(starmap(_starting, ends.items())).encode())

    def open_groups(self, text: bytes) -> Iterable[int]:
        """Return the numbers of the groups whose gates a text passes; some of them more than once."""
        starts = self._pattern.findall(text)
        if not starts:
            return ()
        words = (item for start in set(starts) for item in self._gates[start].items())
        found = (gate for word, gates in words if word in text for gate in gates)
        return [gate.group for gate in found if all(step.search(text) for step in _steps(gate))]


def _starting(start: str, ends: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """Return a pattern of a character with one of some ends, of which it matches only the character."""
    nexts = (
        re.escape(next_) + _any_of(_any_of(same_rest) + rest for rest, same_rest in rests.items())
        for next_, rests in ends.items()
    )
    return f"{re.escape(start)}(?={'|'.join(nexts)})"


def _any_of(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


@cache
def _searches() -> tuple[_WordSearch, _WordSearch]:
    """Return the searches for words in a text as it is, and in a text in small letters."""
    shared = shared_rules()
    separators, separator_gate = "-_.", expand(shared.prefixes.gate)
    assert separator_gate.startswith("[-_.]")
    exact = [_Gate(each, _PLACE + separator_gate.removeprefix("[-_.]"), PREFIXES) for each in separators]
    small: list[_Gate] = []
    for number, group in enumerate(shared.groups):
        for word in group.words:
            # Fewer characters stop the search in a text as it is if it looks for nothing in small letters.
            gates = small if len(word) > 1 and word == word.lower() else exact
            gates.append(_Gate(word, expand(group.gate or "<<word>>", _PLACE), number))
    return _WordSearch(exact), _WordSearch(small)


def open_groups(text: bytes) -> set[int]:
    """Return the numbers of the groups of rules that may match a text, with `PREFIXES` for the rules of prefixes."""
    exact, small = _searches()
    return {*exact.open_groups(text), *small.open_groups(text.lower())}


def may_hold_secret(serialized: bytes, start: int = 0) -> bool:
    """Whether a serialized record may hold a secret from `start` on; False is certain."""
    if _UNUSUAL_ESCAPE.search(serialized):
        return True
    if not _HARMLESS_NAMES.issuperset(names := _FIELD.findall(serialized, start)):
        if any(map(is_secret_field, names)):
            return True
        if len(_HARMLESS_NAMES) < _MAX_NAMES:
            _HARMLESS_NAMES.update(names)
    text = serialized[start:]
    exact, small = _searches()
    return bool(exact.open_groups(text) or small.open_groups(text.lower()))
