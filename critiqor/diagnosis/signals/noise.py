"""Outputs without what changes by itself: times, durations, ids of requests, counters of attempts, order of members.

Two outputs that differ only in these are the same answer. A number that may be the subject of the call is kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from critiqor.diagnosis.collections.fingerprints import canonical_json, encoded, fingerprint_of
from critiqor.diagnosis.signals.fast_patterns import pattern_check
from critiqor.diagnosis.signals.text import decode_json

MAX_COMPARED = 8 * 1024
"""Maximum number of characters of an output that is compared in this way; a longer one has to be equal."""
MAX_ANSWERS = 256
"""Maximum number of answers that are kept to be compared: the latest ones."""
MAX_ITEMS = 50
"""Maximum number of hits of a search that are compared."""
MIN_ITEM = 8
"""Minimum number of characters of a line that is a hit."""
MIN_LETTERS = 40
"""Minimum number of letters of an output in which numbers may be beside the point; else they are the answer."""
MAX_MOVED = 3
"""Maximum number of such numbers."""
_UP, _DOWN = 1, 2
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?", re.ASCII)
MIN_SHARE = 0.4
"""Minimum share of an answer that its list of hits takes."""
_MAX_DEPTH = 6

_NOISY = re.compile(
    # Which request this was.
    r"(?:x_)?(?:request|req|trace|span|correlation|invocation|ray|poll|call)_?(?:id|uuid|token)|nonce"
    # When it was answered.
    r"|(?:server|current|local|response|query|request|check|fetch|poll|wall|system)_?(?:time|date|at|ts)(?:_?stamp)?"
    r"|time_?stamp|ts|now|clock|epoch|as_of"
    r"|(?:last_?)?(?:queried|fetched|checked|generated|retrieved|requested|served|polled|rendered|sampled|observed|seen)"
    r"(?:_?(?:at|on))?"
    # How long it took, or has taken so far.
    r"|ms|(?:elapsed|took|latency|runtime|uptime|age|waited|response_?time|query_?time|duration|time_?taken)"
    r"(?:_?(?:ms|s|secs?|seconds|us|ns|minutes))?"
    # How often it was asked.
    r"|attempts?|(?:attempt|poll|request)_?(?:no|number|count)|retr(?:y|ies)(?:_?count)?|polls|tries|requests_?total"
    r"|seq(?:uence)?(?:_?(?:no|number))?",
    re.IGNORECASE,
)
_VALUE = r'(?:"[^"\n]*"|[^\s,;}\]"]*\d[^\s,;}\]"]*)'
# A pattern that begins with a letter, and not with a look behind it, is searched twice as fast.
_NAME = r'([A-Za-z](?<![\w-].)[\w-]*+(?="?\s?[:=]))'
_FIELD = re.compile(rf'{_NAME}("?\s?[:=]\s?){_VALUE}', re.ASCII)
_FIELD_NAME = re.compile(rf'{_NAME}"?\s?[:=]\s?{_VALUE}', re.ASCII)
_PHRASE = re.compile(
    r"\b(?:attempt|poll|retry|try|check) ?(?:no\.? ?|number ?|#)?\d+(?: ?(?:of|/) ?\d+)?\b"
    r"|\b(?:snapshot|screenshot|capture|visit|view|render|refresh|reload|iteration|round|frame|request)"
    r" ?(?:no\.? ?|number ?|#)?\d+\b"
    r"|\b\d+ ?(?:seconds?|secs?|minutes?|mins?|hours?|days?|[smhd]) ago\b"
    r"|\((?:took |in |after )?\d+(?:[.,]\d+)? ?(?:ms|s|µs|us|secs?|seconds?|minutes?)\)"
    r"|\b(?:took|elapsed|after|up|for)[: ]+(?:about )?\d+(?:[.,]\d+)? ?"
    r"(?:ms|s|secs?|seconds?|min(?:ute)?s?|hours?|days?)\b"
    r"|\b(?:in|for|elapsed|timer|expires)[: ]+\d{1,3}:\d\d\b|\b\d{1,3}:\d\d (?:left|remaining|elapsed)\b"
    r"|\b(?:as of|(?:updated|refreshed|checked|generated)(?: at)?|now)[: ]+\d{1,2}:\d\d(?: ?[ap]m)?\b",
    re.IGNORECASE | re.ASCII,
)
_AGE = re.compile(r"(?<=\s)(?:\d+[dhms]){1,3}(?=\s|$)")
_may_hold_field = pattern_check(
    *("time", "poll", "request", "Request", "req_id", "req-id", "trace", "Trace", "span_", "correlation", "nonce"),
    *("Time", "_ts", "clock", "epoch", "as_of", "queried", "fetched", "hecked", "enerated", "served", "lapsed"),
    *("took", "atency", "uration", "ttempt", "etries", "etry", "seq"),
)
_may_hold_phrase = pattern_check(
    *(r"shot ?[n#\d]", r"apture ?[n#\d]", r"isit ?[n#\d]", r"iew ?[n#\d]", r"ender ?[n#\d]", r"efresh ?[n#\d]"),
    *(r"eload ?[n#\d]", r"teration ?[n#\d]", r"ound ?[n#\d]", r"rame ?[n#\d]", r"equest ?[n#\d]"),
    *(r"ttempt ?[n#\d]", r"poll ?[n#\d]", r"etry ?[n#\d]", r"Try ?[n#\d]", r"heck ?[n#\d]", " ago", "took", "Took"),
    *("lapsed", r"after \w* ?\d", r"up \w* ?\d", r"Up \w* ?\d", r"for \w* ?\d", r"\((?:took |in |after )?\d"),
    *(r":\d\d (?:l|r|e)", r"in \d+:", r":\d(?:(?<=[: ]\d:\d)|(?<=[: ]\d\d:\d))"),
)
_REFERENCE = re.compile(r"\[(?:ref=)?e?\d{1,5}\]|\bref=e?\d{1,5}\b|\bclicked e?\d{1,5}\b")
"""How a browser numbers the elements of a page: with each look in another way."""
_ENUMERATED = re.compile(r"\s*(?:\d{1,3}[.)]|\[\d{1,3}\]|#\d{1,3}|[-*•])\s+")


_MARKS = frozenset("0123456789[#-*• \t")
# Times and durations that change although nothing else does, and the id with which OpenClaw wraps external content: it
# is different each time. A bare number is kept, because it may show progress.
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\bin \d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+\.\d+ ?m?s\b"
    r"|Ms\"?: ?\d+|CONTENT id=\\*\"[0-9a-f]+"
)


def without_noise(text: str) -> str:
    """Return an output without what changes by itself, its members in a fixed order."""
    if text[:1] in ("{", "["):
        try:
            return without_clock(canonical_json(_quiet(decode_json(text), 0)))
        except (msgspec.DecodeError, RecursionError):
            pass
    bare = without_clock(text)
    if (":" in bare or "=" in bare) and _may_hold_field(bare) and any(map(_is_noisy, _FIELD_NAME.findall(bare))):
        bare = _FIELD.sub(_blank, bare)
    if _may_hold_phrase(bare):
        bare = _PHRASE.sub("#", bare)
    if "AGE" in bare:
        bare = _AGE.sub("#", bare)  # the column of kubectl and similar programs
    if "[" in bare or "ref=" in bare:
        bare = _REFERENCE.sub("#", bare)
    if "\n" not in bare:
        return bare
    return "\n".join(sorted([_unnumbered(line) if line[:1] in _MARKS else line for line in bare.splitlines()]))


@lru_cache(maxsize=1024)
def _is_noisy(name: str) -> bool:
    return _NOISY.fullmatch(name.replace("-", "_")) is not None


def _blank(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}#" if _is_noisy(found[1]) else found[0]


def _unnumbered(line: str) -> str:
    match = _ENUMERATED.match(line)
    return line[match.end() :] if match else line


def _quiet(value: Any, depth: int) -> Any:
    """Return a value without noisy members, with the members of its lists in a fixed order."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {name: _quiet(member, depth + 1) for name, member in value.items() if not _is_noisy_member(name, member)}
    if isinstance(value, list):
        members = [_quiet(member, depth + 1) for member in value]
        return sorted(members, key=canonical_json) if len(members) > 1 else members
    return value


def _is_noisy_member(name: str, value: Any) -> bool:
    return _is_noisy(name) and not isinstance(value, dict | list | bool)


def items_of(text: str) -> tuple[int, ...]:
    """Return the items of an output without noise, as hashes: the members of its longest list, else its lines."""
    if len(text) > MAX_COMPARED:
        return ()
    if text[:1] in ("{", "["):
        try:
            listed = _longest_list(_quiet(decode_json(text), 0), 0)
        except (msgspec.DecodeError, RecursionError):
            listed = []
        items = [canonical_json(item) for item in listed[:MAX_ITEMS]]
        if len(listed) <= MAX_ITEMS and sum(map(len, items)) < MIN_SHARE * len(text):
            return ()  # a list beside other members, such as the tags of a ticket, is not what was searched for
    else:
        lines = (_unnumbered(line).strip() for line in without_noise(text).splitlines())
        items = [line for line in lines if len(line) >= MIN_ITEM][:MAX_ITEMS]
    return tuple(sorted({crc32(encoded(item)) for item in items})) if len(items) > 1 else ()


def _longest_list(value: Any, depth: int) -> list[Any]:
    if isinstance(value, list):
        return value
    inner = value.values() if isinstance(value, dict) and depth < _MAX_DEPTH else ()
    return max((_longest_list(member, depth + 1) for member in inner), key=len, default=[])


class _Answer(NamedTuple):
    """The last output of a call."""

    text: str
    mark: bytes
    turns: dict[int, int]
    """How the numbers of its outputs have moved, by their position: up, down, or in both directions."""


def _turns(one: str, other: str, before: dict[int, int]) -> dict[int, int] | None:
    """Return how the numbers of two outputs have moved so far; None if something else differs, or too many numbers.

    A number that only rises or only falls shows progress. One that goes up and down is about something else.
    """
    if sum(map(str.isalpha, one)) < MIN_LETTERS or _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return None
    pairs = [(_as_number(a), _as_number(b)) for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)]
    moved = {at: _UP if b > a else _DOWN for at, (a, b) in enumerate(pairs) if a != b}
    if len(moved) > MAX_MOVED:
        return None
    return before | {at: before.get(at, 0) | move for at, move in moved.items()}


def _as_number(text: str) -> float:
    return float(text.replace(",", ""))


class NoiseFilter:
    """The last outputs of calls: whether a call that is made again gets the same answer."""

    def __init__(self) -> None:
        self._last: OrderedDict[Hashable, _Answer] = OrderedDict()

    def mark(self, key: Hashable, text: str, cut: str = "", *, measures: bool = True) -> bytes:
        """Return the mark of an output: that of the last one of the same call if only noise, such as times, differs.

        `cut` are the digests of its truncated parts; such an output has to be equal. `measures`: whether the call may
        have been made again to take another reading, so that each number counts.
        """
        mark = fingerprint_of(encoded(without_clock(text) + cut))
        if cut:
            text = ""
        before = self._last.pop(key, None)
        turns: dict[int, int] = {}
        if before is not None and before.mark != mark and len(text) <= MAX_COMPARED and before.text:
            # Only repeated calls pay for the comparison.
            one, other = without_noise(before.text), without_noise(text)
            moved = None if measures or one == other else _turns(one, other, before.turns)
            turns = before.turns if one == other else moved or {}
            same = one == other or (moved is not None and all(move == _UP | _DOWN for move in moved.values()))
            mark = before.mark if same else mark
        elif before is not None:
            turns = before.turns
        self._last[key] = _Answer(text if len(text) <= MAX_COMPARED else "", mark, turns)
        if len(self._last) > MAX_ANSWERS:
            self._last.popitem(last=False)
        return mark


_may_hold_clock = pattern_check(r":[0-5]\d", r"-[01]\d-", r"in \d", r"\.\d++ ?m?s\b", r"Ms\"?: ?\d", "CONTENT id=")


def without_clock(text: str) -> str:
    """Return a text without times of day and durations."""
    return (_CLOCK.sub("#", text) if _may_hold_clock(text) else text).strip()
