"""Text heuristics: equality, similarity, kinds of errors, and whether a search found anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys: equal values have equal texts."""
    return _encode(value).decode()


def fingerprint(*parts: str) -> bytes:
    """Return a short hash of these texts, the same on every machine."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def plain_text(value: Any) -> str:
    """Return the text of a tool result or a message, which can be a text, a list of parts or a truncated value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if value.get("cut") is True:
            return str(value.get("excerpt") or value.get("digest") or "")
        for name in ("content", "text", "output", "value"):
            if isinstance(value.get(name), str | list | dict):
                return plain_text(value[name])
        return canonical(value)
    if isinstance(value, list):
        return plain_text(value[0]) if len(value) == 1 else "\n".join(map(plain_text, value))
    return "" if value is None else canonical(value)


def size_of(value: Any, text: str) -> int:
    """Return the size of a result in bytes before truncation; `text` is its text after truncation."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size + _cut_size(value)


def _cut_size(value: Any) -> int:
    if isinstance(value, dict):
        if value.get("cut") is True:
            size = value.get("size")
            return int(size) if isinstance(size, int | float) and 0 <= size < 1 << 53 else 0
        return _cut_size(value.get("content", value.get("text")))
    return sum(map(_cut_size, value)) if isinstance(value, list) else 0


def cut_digests(value: Any) -> str:
    """Return the digests of the truncated parts of a result: two long texts can have the same beginning."""
    if isinstance(value, dict):
        if value.get("cut") is True:
            return str(value.get("digest"))
        return cut_digests(value.get("content", value.get("text")))
    return " ".join(map(cut_digests, value)) if isinstance(value, list) else ""


# Times and durations that change although nothing else does, and the id with which OpenClaw wraps external content: it
# is different each time. A bare number is kept, because it may show progress.
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\bin \d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+\.\d+ ?m?s\b"
    r"|Ms\"?: ?\d+|CONTENT id=\\*\"[0-9a-f]+"
)


def gate(*patterns: str) -> Callable[[str], bool]:
    """Return a fast check for any of these patterns. Patterns that begin with literal characters are the fastest."""
    searches = tuple(re.compile(pattern).search for pattern in patterns)

    def may_match(text: str) -> bool:
        for search in searches:  # noqa: SIM110 - a generator costs more than the search
            if search(text):
                return True
        return False

    return may_match


_may_hold_clock = gate(r":[0-5]\d", r"-[01]\d-", r"in \d", r"\.\d+ ?m?s\b", r"Ms\"?: ?\d", "CONTENT id=")


def without_clock(text: str) -> str:
    """Return a text without times of day and durations."""
    return (_CLOCK.sub("#", text) if _may_hold_clock(text) else text).strip()


_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”")
MAX_LINE = 2000
"""Maximum number of characters of a line that are examined: the patterns below would take minutes for a giant word."""
_PLACE = re.compile(r"(?:[a-zA-Z]+://|~?/|\.\.?/|[A-Za-z]:\\)\S+")
_NUMBER = re.compile(
    # An HTTP status is the only number that identifies a kind of error.
    r"((?:http\S*|status|code|error|failed)\W{1,3}[45]\d\d\b)|0x[0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|\d+(?:[.,]\d+)*",
    re.IGNORECASE,
)
_ERROR_WORDS = re.compile(
    r"error|exception|fail|not found|no such|denied|refused|cannot|can't|unable|invalid|unexpected|timed? ?out|missing",
    re.IGNORECASE,
)


def error_line(text: str) -> str:
    """Return the line of an output that describes a failure best; empty if the output is empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A stack trace has its cause at the end, a message at the beginning.
    is_trace = any(line.startswith(("Traceback", "at ")) for line in lines[:8])
    chosen = next((line for line in (reversed(lines) if is_trace else lines) if _ERROR_WORDS.search(line)), None)
    return chosen or (lines[-1] if lines else "")


@lru_cache(maxsize=4096)
def error_kind(text: str) -> str:
    """Return the kind of an error: its text without names, paths and numbers."""
    line = error_line(text)
    _, marker, reason = line.rpartition("due to: ")
    line = (reason if marker else line)[:MAX_LINE]
    line = _NUMBER.sub(lambda found: found[1] or "#", _PLACE.sub("…", _QUOTED.sub("…", line)))
    return " ".join(line.lower().split())[:160]


_DOES_NOT_EXIST = re.compile(
    r"not found|\bno (?:such|results?|match|module)|n[o']t exist|(?:can(?:not|'t)|could not) find"
    r"|\b(?:404|410|enoent)\b|missing script|unknown (?:command|host)",
    re.IGNORECASE,
)
_ALREADY_DONE = re.compile(
    r"\balready (?:exists?|up|installed|in place)|file exists|nothing to (?:commit|do|push)|no changes made",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def reports_absence(error: str) -> bool:
    """Return whether an error says that something does not exist, which can be an answer and not a failure."""
    return _DOES_NOT_EXIST.search(error) is not None


@lru_cache(maxsize=4096)
def reports_already_done(error: str) -> bool:
    """Return whether an error says that the requested state already exists."""
    return _ALREADY_DONE.search(error) is not None


_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1024)
def words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def likeness(one: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    first, second = words(one), words(other)
    union = len(first | second)
    return len(first & second) / union if union else 1.0


_FORM = re.compile(r'"\w+":|\bhttps?:')


@lru_cache(maxsize=1024)
def _values(arguments: str) -> str:
    return _FORM.sub(" ", arguments)


def likeness_of_calls(one: str, other: str) -> float:
    """Return the share of words that the argument values of two calls have in common, from 0 to 1."""
    return likeness(_values(one), _values(other))


_SEARCH_ARGUMENTS = frozenset(
    ("query", "q", "question", "keywords", "offset", "page", "cursor", "start", "from", "to", "limit", "count")
)


def subject(arguments: str) -> str:
    """Return what a call is about: its arguments without search terms, offsets and limits."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments
    return (
        canonical({name: value[name] for name in value.keys() - _SEARCH_ARGUMENTS})
        if isinstance(value, dict)
        else arguments
    )


_NOTHING = re.compile(
    r"\b(?:no|0|zero) (?:\w+ ){0,4}?(?:results?|matches|match|records?|rows?|entries|files?|hits?|documents?|memories"
    r"|references?|items?)\b(?: (?:were|was))?(?: found)?"
    r"|\b(?:not|nothing|none|never) (?:\w+ )?found\b|\bfound (?:nothing|none|no|0)\b|\bcould ?n[o']t find\b|\bno such\b"
    r"|\bdoes ?n[o']t exist\b|\bdo not exist\b|\bempty result\b",
    re.IGNORECASE,
)
_HOLLOW = re.compile(
    r"^[\s\[\]{}()<>\"'.,:;|=_-]*(?:null|none|nil|undefined|n/a|false)?[\s\[\]{}()<>\"'.,:;|=_-]*$", re.I
)
_FILLED = re.compile(r"[\[{]\s*['\"{\[(\w]")
_EMPTY_LIST = re.compile(r"[:=]\s*(?:\[\s*\]|\{\s*\}|\(\s*\)|None\b|null\b)")
_HOLLOW_LIMIT = 80
"""An output that is only an empty value, such as `[]` or `null`, has fewer characters."""
_may_say_nothing = gate("found", r"no \w", "exist", "zero ", "0 ", "find", "empty")
_may_hold_empty = gate(r"\[\s*\]", r"\{\s*\}", r"\(\s*\)", "None", "null")
MAX_NOTHING_FOUND = 400
"""Maximum number of characters of an output that only says that nothing was found."""


def finds_nothing(text: str, *, silence: bool = True) -> bool:
    """Return whether an output only says that nothing was found. `silence`: whether an empty output counts."""
    if len(text) > MAX_NOTHING_FOUND or not (silence or text.strip()):
        return False
    lowered = text.lower()
    if _may_say_nothing(lowered) and _NOTHING.search(lowered):
        return True
    if len(text) < _HOLLOW_LIMIT and _HOLLOW.match(lowered):
        return True
    return _may_hold_empty(text) and bool(_EMPTY_LIST.search(text)) and not _FILLED.search(text)


_ABSENT = re.compile(
    r"^(?=.{0,200}$).*(?:not (?:\w+ )?found|no (?:\w+ ){0,3}?(?:results?|match(?:es)?|references?|files?|entries)\b"
    r"|:\s*\[\s*\]|:\s*None$|does not exist|could not find).*$",
    re.IGNORECASE | re.MULTILINE,
)
_may_miss_names = gate(
    r"ot (?:\w+ )?(?:found|exist|find)", "result", "match", "reference", "file", "entr", r"\[ ?\]", ": None"
)
_NAME = re.compile(r"\w*(?:[a-z][A-Z]|[A-Za-z]\d|_)\w*")
_MIN_ARGUMENTS = len('{"a":"name"}')
"""Minimum number of characters of arguments that contain a name."""
_MAX_SEARCHED = 4000
"""Maximum number of characters of an output that are searched for names; also the maximum for an echo."""


def missed_names(text: str, arguments: str) -> tuple[str, ...]:
    """Return the names in the arguments of a call that its output says do not exist."""
    if len(arguments) < _MIN_ARGUMENTS or not _may_miss_names(text):
        return ()
    names = (name for line in _ABSENT.findall(text[:_MAX_SEARCHED]) for name in _NAME.findall(line))
    return tuple(dict.fromkeys(name for name in names if len(name) > 3 and name in arguments))


MIN_ECHO = 80
"""Minimum number of characters of an output that counts as an echo of the arguments."""


def is_echo(text: str, arguments: str) -> bool:
    """Return whether an output only repeats the arguments of the call: printing a question is not asking it."""
    # Nearly all words of an echo are in the arguments, so the arguments are not much shorter than the echo.
    if not MIN_ECHO <= len(text) <= min(_MAX_SEARCHED, 2 * len(arguments)):
        return False
    printed = words(text)
    return len(printed) >= 10 and len(printed - words(arguments)) <= len(printed) // 10
