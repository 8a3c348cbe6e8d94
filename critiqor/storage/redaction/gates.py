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


# Characters that are frequent in records, the most frequent first.
_FREQUENT = 'etaoinsrlhdcmufpgwyb":,-_./ 0123456789'


class _Gate(NamedTuple):
    word: bytes
    pattern: re.Pattern[bytes] | None
    group: int


class _WordSearch:
    """Finds which of some words may be in a text. Searching for each of them would cost more than all else.

    The pattern stops only at the rarest character of each word, because that determines the cost of the search.
    """

    def __init__(self, gates: Iterable[_Gate]) -> None:
        self._by_character: dict[bytes, list[_Gate]] = {}
        ends: dict[str, set[str]] = {}
        for gate in gates:
            end = _from_rarest(gate.word.decode())
            ends.setdefault(end[0], set()).add(end[1:])
            self._by_character.setdefault(end[0].encode(), []).append(gate)
        alternatives = (
            f"{re.escape(start)}(?={'|'.join(map(re.escape, sorted(rests)))})" for start, rests in ends.items()
        )
        self._pattern = re.compile("|".join(alternatives).encode())

    def open_groups(self, text: bytes) -> Iterator[int]:
        """Yield the numbers of the groups whose gates a text passes; some of them more than once."""
        for character in set(self._pattern.findall(text)):
            for word, pattern, group in self._by_character[character]:
                if word in text and (pattern is None or pattern.search(text)):
                    yield group


def _from_rarest(word: str) -> str:
    ends = [word[start:] for start in range(len(word) - 1)]
    return max(ends, key=lambda end: (_FREQUENT.find(end[0]) % len(_FREQUENT), len(end)))


@cache
def _prefix_gates() -> tuple[re.Pattern[bytes], ...]:
    """Return a gate for each character that separates a prefix: a search for one character is the fastest."""
    gate = shared_rules().prefixes.gate
    assert gate.startswith("[-_.]")
    return tuple(re.compile((separator + gate.removeprefix("[-_.]")).encode()) for separator in ("-", "_", r"\."))


@cache
def _searches() -> tuple[_WordSearch, _WordSearch]:
    """Return the searches for words in a text as it is, and in a text in small letters."""
    exact: list[_Gate] = []
    small: list[_Gate] = []
    for number, group in enumerate(shared_rules().groups):
        gates = exact if any(word != word.lower() for word in group.words) else small
        for word in group.words:
            pattern = None if group.gate is None else re.compile(expand(group.gate, word).encode())
            gates.append(_Gate(word.encode(), pattern, number))
    return _WordSearch(exact), _WordSearch(small)


@cache
def _wordless() -> tuple[tuple[re.Pattern[bytes], int], ...]:
    """Return the gates that are tried on every text as it is, with the numbers of their groups."""
    groups = enumerate(shared_rules().groups)
    return tuple((re.compile(expand(group.gate or "").encode()), number) for number, group in groups if not group.words)


def may_hold_prefix(text: bytes) -> bool:
    """Whether a text may hold a secret with a prefix; False is certain."""
    return any(gate.search(text) for gate in _prefix_gates())


def open_groups(text: bytes) -> Iterator[int]:
    """Yield the numbers of the groups of rules that may match a text; some of them more than once."""
    for pattern, number in _wordless():
        if pattern.search(text):
            yield number
    exact, small = _searches()
    yield from exact.open_groups(text)
    yield from small.open_groups(text.lower())


def may_hold_secret(serialized: bytes, start: int = 0) -> bool:
    """Whether a serialized record may hold a secret from `start` on; False is certain."""
    if _UNUSUAL_ESCAPE.search(serialized):
        return True
    if any(map(is_secret_field, _FIELD.findall(serialized, start))):
        return True
    text = serialized[start:]
    return may_hold_prefix(text) or next(open_groups(text), None) is not None
