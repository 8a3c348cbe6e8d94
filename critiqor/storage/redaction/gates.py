"""Gates of redaction: cheap tests that tell texts and serialized records without any secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from critiqor.storage.redaction.rules import expand, is_secret_field, shared_rules

# What the gates do not cover: characters that are escaped unnecessarily, and white space that only Python knows.
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:u00(?:[2-7]|1[c-f]|85|a0)|u[12]|/)", re.IGNORECASE)
_FIELD = re.compile(rb'"([^"\\]{4,160})"\s*:\s*["\[]')
_MAX_NAMES = 4096
_HARMLESS_NAMES: set[bytes] = set()
"""Names of fields that were looked at before: the same few names occur in every record."""


# Characters that are frequent in records, the most frequent first.
_FREQUENT = ' etaoinsrlhdcu",:0123456789mpfgywbv.-_/kxjqz'


_END_LENGTH = 3
"""Characters of a word that are searched for first."""


class _Gate(NamedTuple):
    word: bytes
    pattern: re.Pattern[bytes] | None
    group: int


class _WordSearch:
    """Finds which of some words may be in a text. Searching for each of them would cost more than all else.

    The pattern stops only at the rarest character of each word, because that determines the cost of the search.
    """

    def __init__(self, gates: Iterable[_Gate]) -> None:
        self._short: list[_Gate] = []
        """Gates of single characters, for which a search is fast."""
        ends: dict[str, dict[str, list[_Gate]]] = {}
        for gate in gates:
            if len(gate.word) < _END_LENGTH:
                self._short.append(gate)
                continue
            end = _from_rarest(gate.word.decode())
            ends.setdefault(end[0], {}).setdefault(end[1:], []).append(gate)
        self._pattern = re.compile("|".join(f"{_starting(start, rests)}" for start, rests in ends.items()).encode())
        self._by_character = {
            start.encode(): (
                re.compile(_starting(start, rests, "(").encode()),
                {
                    found.encode(): [gate for rest, gates in rests.items() if found.startswith(rest) for gate in gates]
                    for found in rests
                },
            )
            for start, rests in ends.items()
        }

    def open_groups(self, text: bytes) -> Iterator[int]:
        """Yield the numbers of the groups whose gates a text passes; some of them more than once."""
        found: list[_Gate] = self._short
        for character in set(self._pattern.findall(text)):
            pattern, gates = self._by_character[character]
            for rest in set(pattern.findall(text)):
                found = found + gates[rest]
        for word, gate, group in found:
            if word in text and (gate is None or gate.search(text)):
                yield group


def _starting(start: str, rests: Iterable[str], group: str = "") -> str:
    """Return a pattern of a character that is followed by one of some texts; it matches only the character."""
    longest_first = sorted(rests, key=lambda rest: (-len(rest), rest))
    return f"{re.escape(start)}(?={group}{'|'.join(map(re.escape, longest_first))}{')' if group else ''})"


def _from_rarest(word: str) -> str:
    ends = [word[start : start + _END_LENGTH] for start in range(len(word) - 1)]
    return max(ends, key=lambda end: (_FREQUENT.find(end[0]) % len(_FREQUENT), len(end)))


@cache
def _prefix_gates() -> tuple[re.Pattern[bytes], ...]:
    """Return a gate for each character that separates a prefix: a search for one character is the fastest."""
    gate = expand(shared_rules().prefixes.gate)
    assert gate.startswith("[-_.]")
    return tuple(re.compile((separator + gate.removeprefix("[-_.]")).encode()) for separator in ("-", "_", r"\."))


@cache
def _searches() -> tuple[_WordSearch, _WordSearch]:
    """Return the searches for words in a text as it is, and in a text in small letters."""
    exact: list[_Gate] = []
    small: list[_Gate] = []
    for number, group in enumerate(shared_rules().groups):
        gates = exact if any(word != word.lower() or len(word) == 1 for word in group.words) else small
        for word in group.words:
            pattern = None if group.gate is None else re.compile(expand(group.gate, word).encode())
            gates.append(_Gate(word.encode(), pattern, number))
    return _WordSearch(exact), _WordSearch(small)


def may_hold_prefix(text: bytes) -> bool:
    """Whether a text may hold a secret with a prefix; False is certain."""
    return any(gate.search(text) for gate in _prefix_gates())


def open_groups(text: bytes) -> Iterator[int]:
    """Yield the numbers of the groups of rules that may match a text; some of them more than once."""
    exact, small = _searches()
    yield from exact.open_groups(text)
    yield from small.open_groups(text.lower())


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
    return may_hold_prefix(text) or next(open_groups(text), None) is not None
