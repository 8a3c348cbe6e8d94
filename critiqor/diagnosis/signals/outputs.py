"""Heuristics on the outputs of tool calls: their full size, and whether they found, missed or only repeat something."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from critiqor.diagnosis.signals.fast_patterns import pattern_check
from critiqor.diagnosis.signals.text import decode_json, words


def cut_size(value: Any) -> int:
    """Return how many bytes of an output were not recorded because it was truncated."""
    value = _innermost(value)
    if isinstance(value, dict):
        size = value.get("size")
        return int(size) if isinstance(size, int | float) and 0 <= size < 1 << 53 else 0
    return sum(map(cut_size, value)) if isinstance(value, list) else 0


def cut_digests(value: Any) -> str:
    """Return the digests of the truncated parts of an output, because two long outputs can have the same beginning."""
    value = _innermost(value)
    if isinstance(value, dict):
        return str(value.get("digest"))
    return " ".join(map(cut_digests, value)) if isinstance(value, list) else ""


def _innermost(value: Any) -> Any:
    """Return the content of an output: a text, a truncated value, or a list of several parts."""
    while True:
        if isinstance(value, dict) and value.get("cut") is not True:
            value = value.get("content", value.get("text"))
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            return value


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
_ZERO = re.compile(
    r'"(?:\w*(?:row|result|match|hit|item|record|entr)\w*|(?:total_?)?count|total|found)"\s*:\s*0\b', re.I
)
_HOLLOW_LIMIT = 80
"""An output that is only an empty value, such as `[]` or `null`, has fewer characters."""
_may_say_nothing = pattern_check("found", r"no \w", "exist", "zero ", "0 ", "find", "empty")
_may_hold_empty = pattern_check(r"\[\s*\]", r"\{\s*\}", r"\(\s*\)", "None", "null")
MAX_NOTHING_FOUND = 400
"""Maximum number of characters of an output that only says that nothing was found."""


def finds_nothing(text: str, *, silence: bool = True) -> bool:
    """Return whether the output of a tool says only that nothing was found. `silence`: whether an empty one counts."""
    if len(text) > MAX_NOTHING_FOUND or not (silence or text.strip()):
        return False
    lowered = text.lower()
    if _may_say_nothing(lowered) and _NOTHING.search(lowered):
        return True
    if len(text) < _HOLLOW_LIMIT and _HOLLOW.match(lowered):
        return True
    if not _may_hold_empty(text) or not _EMPTY_LIST.search(text):
        return False
    return not _FILLED.search(text) or (text[:1] == "{" and _has_only_empty_lists(text))


_COMPLAINTS = frozenset(("errors", "warnings", "issues", "failures", "problems", "violations", "conflicts"))
"""Members whose list is better empty."""


_HITS = frozenset(("results", "matches", "hits", "rows", "records"))
"""Members that hold what was found, and nothing else."""


def _has_only_empty_lists(text: str) -> bool:
    """Return whether a JSON object has lists of results, and all of them are empty."""
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return False
    if not isinstance(value, dict):
        return False
    inner = [member for member in value.values() if isinstance(member, dict)]
    lists = [(name, member) for each in (value, *inner) for name, member in each.items() if isinstance(member, list)]
    if any(isinstance(entry, (dict, list)) for _, member in lists for entry in member[:1]):
        return False
    # Beside an empty list, one of plain texts may be a record, or the names of columns: name and count decide.
    empty = [name for name, member in lists if not member and name.lower() not in _COMPLAINTS]
    is_named = not _HITS.isdisjoint(map(str.lower, empty))
    return bool(empty) and (is_named or _ZERO.search(text) is not None or not any(member for _, member in lists))


_ABSENT = re.compile(
    r"^(?=.{0,200}$).*(?:not (?:\w+ )?found|no (?:\w+ ){0,3}?(?:results?|match(?:es)?|references?|files?|entries)\b"
    r"|:\s*\[\s*\]|:\s*None$|does not exist|could not find).*$",
    re.IGNORECASE | re.MULTILINE,
)
_may_miss_names = pattern_check(
    r"ot (?:\w+ )?(?:found|exist|find)", "result", "match", "reference", "file", "entr", r"\[ ?\]", ": None"
)
_may_be_absent = pattern_check("no ", "not ", "none", r"\[\s*\]")
"""For text in lower case. Nearly every output contains one of the nouns above, few contain one of these."""
_NAME = re.compile(r"\w*(?:[a-z][A-Z]|[A-Za-z]\d|_)\w*")
_MIN_ARGUMENTS = len('{"a":"name"}')
"""Minimum number of characters of arguments that contain a name."""
_MAX_SEARCHED = 4000
"""Maximum number of characters of an output that are searched for names; also the maximum for an echo."""


def missed_names(text: str, arguments: str) -> tuple[str, ...]:
    """Return the names that the output of a call says do not exist, and that its arguments contain."""
    searched = text[:_MAX_SEARCHED]
    if len(arguments) < _MIN_ARGUMENTS or not _may_be_absent(searched.lower()) or not _may_miss_names(text):
        return ()
    names = (name for line in _ABSENT.findall(searched) for name in _NAME.findall(line))
    return tuple(dict.fromkeys(name for name in names if len(name) > 3 and name in arguments))


MIN_ECHO = 80
"""Minimum number of characters of an output that counts as an echo of the arguments."""


def is_echo(text: str, arguments: str) -> bool:
    """Return whether the output of a call only repeats its arguments: printing a question is not asking it."""
    # Nearly all words of an echo are in the arguments, so the arguments are not much shorter than the echo.
    if not MIN_ECHO <= len(text) <= min(_MAX_SEARCHED, 2 * len(arguments)):
        return False
    printed = words(text)
    return len(printed) >= 10 and len(printed - words(arguments)) <= len(printed) // 10


_TRAILER = (
    *("(no output", "(no new output", "Command exited", "(Command exited", "Process exited"),
    *("(Bash completed with no output", "Exit code "),  # Claude Code
)


def printed_lines(output: str) -> list[str]:
    """Return the lines of an output, without those that OpenClaw or Claude Code adds to outputs about its end."""
    return [line for line in output.splitlines() if line.strip() and not line.startswith(_TRAILER)]
