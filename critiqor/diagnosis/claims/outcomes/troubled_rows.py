"""Rows of results: which of several things is in trouble, and how many of them are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from critiqor.diagnosis.results.meaning_struct import ResultState
from critiqor.diagnosis.results.state_words import state_words

MAX_LINES, MAX_LINE = 400, 200
"""Maximum number of lines of an output that are read, and of characters of a line."""
MAX_TABLE = 4_000
"""Maximum number of characters of an output whose lines are compared with each other."""
MAX_LISTED = 50
MAX_NAME = 4
"""Maximum number of words of a name."""
MAX_STATE = 5
"""Maximum number of words of a state."""
MAX_KEY = 7
"""Number of letters by which states are compared: some languages change the end."""
MIN_ROWS = 3
"""Minimum number of rows of which one is different from the others."""
ERROR_VALUE = re.compile(r"#(?:ref|n/a|value|div/0|name|null|num|spill|calc)[!?]?(?!\w)", re.IGNORECASE)
"""What a spreadsheet shows instead of a value."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
_CELL = re.compile(
    r"\s{2,}|\t+|\s*\|\s*|\s?[:\uff1a]\s+|[:\uff1a](?=\D)|\s+(?:->|=>|[\u2192\u2014\u2013-])\s+|\s+(?=[(\[])"
    r"|\s*(?:\.{3,}|\u2026)\s*|[,;\uff0c\uff1b]\s*"
)
"""What separates the cells of a line, also in full width."""
_ID = re.compile(r"(?=\S*[\d._@/-])[\w@#+][^\s:,;()\[\]\"']*\s+(?=\S)")
_LISTED = re.compile(r"[\w@#][^\s,;()\[\]\"']*[\w)]")
_LABEL = re.compile(r"\W{0,6}([^\W\d_]+)\W{1,4}(?:\w+ )?([\w@#./][^\s:,;()\[\]\"']+)")
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*"), re.compile(r"\d+")
SHARE = re.compile(r"(?<![\d./-])(\d{1,7})\s?/\s?(\d{1,7})(?![\d./-])")
"""How many of how many: 398/412."""

Judge = Callable[[str], ResultState | None]
"""What a state says of a call; None if it is not known."""


class Part(NamedTuple):
    """A thing, or a number of things, that a result says is in trouble."""

    name: str
    line: str
    word: str = ""
    """The word that says so, if a word does."""
    number: int | None = None
    """How many they are, if it is a number of things."""


class Row(NamedTuple):
    """A thing and what is said about it."""

    name: str
    rest: str
    line: str


@cache
def _bad_words() -> frozenset[str]:
    known = state_words()
    return known.lists["left_out_words"] | {word for word, state in known.parts.items() if state == "failure"}


_JOINED = "\u2e80"
"""The characters behind this one are of scripts that do not separate words."""


@cache
def _joined_words() -> tuple[str, ...]:
    """Return the bad words of scripts that do not separate words."""
    return tuple(word for word in sorted(_bad_words()) if word[0] > _JOINED)


def is_harmless(lowered: str) -> bool:
    """Return whether a row says that it is no trouble that something was left out: it is there already."""
    return not state_words().lists["harmless_words"].isdisjoint(_WORD.findall(lowered))


def bad_word(lowered: str) -> str:
    """Return the first word of a row that says that something failed or was left out; empty if none does."""
    words: list[str] = _WORD.findall(lowered)
    return next(filter(_is_bad, words), "")


def _words_of(lowered: str) -> set[str]:
    """Return the different words and numbers of a text. Splitting at spaces is much faster than a pattern."""
    pieces = set(lowered.split())
    words = set(filter(str.isalpha, pieces))
    return words.union(_WORD.findall(" ".join(pieces - words)))


def _is_bad(word: str) -> bool:
    return word in _bad_words() or (max(word) > _JOINED and any(part in word for part in _joined_words()))


def parts_of_text(
    text: str, judge: Judge, is_bad_news: Callable[[str], bool], names: frozenset[str] = frozenset()
) -> list[Part]:
    """Return the troubled rows of an output: they say of one thing, or of a number of them, that it is in trouble.

    `names` are those that the call was given, in lower case.
    """
    lines = [line[:MAX_LINE] for line in text.splitlines()[:MAX_LINES] if line.strip()]
    found: list[Part] = []
    if bad := set(filter(_is_bad, _words_of(text.lower()))):
        # The end of a line that was cut may be another word.
        troubled = [
            number
            for number, line in enumerate(lines)
            if len(line) == MAX_LINE or any(word in lowered for lowered in (line.lower(),) for word in bad)
        ]
        found += [part for number in troubled for part in _counted(lines, number)]
        found += [part for number in troubled if (part := _labelled(lines[number])) is not None]
    if len(text) > MAX_TABLE:
        return found  # a log, not a list of what was done
    rows = [row for line in lines if (row := row_of(line, names)) is not None]
    return found + parts_of_rows(rows, judge, is_bad_news, alike=bool(found), names=names)


def _labelled(line: str) -> Part | None:
    """Return the thing whose line begins with a word of trouble: `SKIP a.jpg`, `[error] b.ts: unexpected token`."""
    label = _LABEL.match(line)
    if label is None or not bad_word(label[1].lower()) or is_harmless(line.lower()):
        return None
    return Part(label[2], line, label[1].lower()) if any(mark in label[2] for mark in "._/-@0123456789") else None


def parts_of_rows(
    rows: Iterable[Row],
    judge: Judge,
    is_bad_news: Callable[[str], bool],
    *,
    alike: bool = False,
    names: frozenset[str] = frozenset(),
) -> list[Part]:
    """Return the rows that are in trouble: in a bad state, or in another one than the others of their kind.

    `alike`: only if most of them say the same; otherwise they may be about different things.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault("" if row.name.lower() in names else _shape(row.name), []).append(row)
    return [
        part
        for shape, group in groups.items()
        for part in _parts_of_group(group, judge, is_bad_news, alike=alike, are_given=not shape)
    ]


def _parts_of_group(
    rows: list[Row], judge: Judge, is_bad_news: Callable[[str], bool], *, alike: bool, are_given: bool
) -> Iterator[Part]:
    keys = [_key(row.rest) for row in rows]
    (usual, number), *_ = Counter(keys).most_common(1)
    has_usual = number * 2 > len(rows) and number > 1
    if alike and not has_usual:
        return
    states = [state_of_rest(row.rest, judge) for row in rows]
    good = {row.name.lower() for row, state in zip(rows, states, strict=True) if state == "success"}
    for row, key, state in zip(rows, keys, states, strict=True):
        lowered = row.rest.lower()
        if state == "success" or row.name.lower() in good or is_harmless(lowered):
            continue
        if state is not None:
            yield Part(row.name, row.line, bad_word(lowered))
        elif (share := SHARE.search(row.rest)) and int(share[1]) < int(share[2]) and len(rows) > 1:
            yield Part(row.name, row.line)
        elif key != usual and has_usual:
            # One among others in a good state, or alike, is an exception, whatever word stands there.
            is_odd = len(rows) >= MIN_ROWS and bool(good)
            if is_odd or is_bad_news(row.rest):
                yield Part(row.name, row.line, bad_word(lowered))
        elif are_given and good and (len(rows) == len(good) + 1 or is_bad_news(row.rest)):
            yield Part(row.name, row.line, bad_word(lowered))


def state_of_rest(rest: str, judge: Judge) -> ResultState | None:
    """Return the state in the text after a name: its first part, or a later one that is a word of trouble."""
    cells = [cell.strip("()[]*_.! ") for cell in _CELL.split(rest)]
    cells = [cell for cell in cells if cell]
    words = cells[0].split() if cells else []
    if not words or words[0][:1].isdigit():
        return None
    first = words[0].lower().strip(":.,;")
    state = (judge(cells[0]) if len(words) <= MAX_STATE else None) or judge(first)
    if state is None and (bad_word(first) or any(bad_word(cell.lower()) == cell.lower() for cell in cells[1:])):
        return "failure"
    return state


def _key(rest: str) -> str:
    """Return what rows in the same state have in common: the first word after the name, or the unit of a number."""
    words = [_DIGITS.sub("0", word) for word in rest.lower().split(maxsplit=2)[:2]]
    return " ".join(words) if words and words[0].startswith("0") else words[0].strip(":.,;")[:MAX_KEY] if words else ""


def row_of(line: str, names: frozenset[str] = frozenset()) -> Row | None:
    """Return what a line is about, and what it says about it; None if it does not begin with a name."""
    stripped = line.strip(" \t|│*•-✓✔✗✘❌⚠✅")
    first, _, rest = stripped.partition(" ")
    if rest and first.rstrip(":").lower() in names:
        return Row(first.rstrip(":"), rest.lstrip(" |:-→>"), line)
    if found := _ID.match(stripped):
        return Row(found[0].rstrip(" |:"), stripped[found.end() :].lstrip(" |:-→>"), line)
    found = _CELL.search(stripped)
    if not found or not 0 < len(stripped[: found.start()].split()) <= MAX_NAME or found.end() == len(stripped):
        return None
    return Row(stripped[: found.start()], stripped[found.end() :], line)


def _shape(name: str) -> str:
    """Return the form of a name: `0.a` of `07.pdf`."""
    return _DIGITS.sub("0", _LETTERS.sub("a", name))


def _counted(lines: list[str], number: int) -> Iterator[Part]:
    """Yield the number of things that a line says are in trouble, and the things that are listed below it."""
    line = lines[number]
    lowered = line.lower()
    if not any(map(str.isdigit, line)):
        return
    said = _WORD.findall(lowered)
    # A count stands beside the word: right behind it, or at most three words before it.
    bad = [
        place
        for place, word in enumerate(said)
        if _is_bad(word) and any(map(str.isdigit, said[max(0, place - 3) : place + 2]))
    ]
    lists = state_words().lists
    if not bad or not lists["harmless_words"].isdisjoint(said):
        return
    words = [(found[0], found.start(), found.end()) for found in _WORD.finditer(lowered)]
    for place in bad:
        is_denied = place > 0 and said[place - 1] in lists["negating_words"]
        if not is_denied and (count := _count(words, place, lowered)):
            yield Part("", line, words[place][0], count)
            yield from _listed_below(lines, number)
            return


def _listed_below(lines: list[str], number: int) -> Iterator[Part]:
    """Yield the lines below a count that are indented further: they list what it counts."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    for line in lines[number + 1 : number + 1 + MAX_LISTED]:
        if len(line) - len(line.lstrip()) <= indent or not (name := _LISTED.search(line)):
            return
        yield Part(name[0], line)


def _count(words: list[tuple[str, int, int]], place: int, lowered: str) -> int | None:
    """Return the number that stands beside a word of trouble: `skipped 2`, `2 rows skipped`."""
    if place + 1 < len(words):
        after, start, _ = words[place + 1]
        if after.isdecimal() and not lowered[words[place][2] : start].strip(" \t:=(\"'"):
            return int(after[:9])
    for number, start, end in words[max(0, place - 3) : place][::-1]:
        if number.isdecimal():
            is_alone = lowered[end : end + 1] in " \t" and (not start or lowered[start - 1] in " \t(,:\uff1a\uff0c")
            return int(number[:9]) if is_alone else None
    return None
