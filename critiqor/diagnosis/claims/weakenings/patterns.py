"""The patterns in `patterns.toml`, compiled once each."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.signals.fast_patterns import literal_beginning

FILE = Path(__file__).with_name("patterns.toml")
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE}


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    any: list[str]
    flags: str = ""
    has: list[str] = []
    """Parts in lower case, of which every match contains one: they are searched much faster than the pattern."""


@cache
def _data() -> dict[str, _Data]:
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), dict[str, _Data])


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a table in `patterns.toml`."""
    data = _data()[name]
    return re.compile("|".join(data.any), _flags(data))


@cache
def _parts(name: str) -> list[tuple[str, re.Pattern[str], re.Pattern[str]]]:
    """Return the patterns of a table, each after its first letters, and itself without the look at what precedes it."""
    data = _data()[name]
    flags = _flags(data)
    found = []
    for part in data.any:
        bare = _BEGIN.sub("", part)
        begin = "" if flags & re.IGNORECASE else literal_beginning(bare)
        found.append((begin, re.compile(bare, flags), re.compile(part, flags)))
    return found


_BEGIN = re.compile(r"^(?:\\b|\(\?:\^\|\\s\))")


def _flags(data: _Data) -> re.RegexFlag:
    flags = re.NOFLAG
    for flag in data.flags:
        flags |= _FLAGS[flag]
    return flags


def search(name: str, text: str) -> re.Match[str] | None:
    """Return the first match of the patterns of a table in a text."""
    has = _data()[name].has
    if has:
        lowered = text.lower()
        if not any(part in lowered for part in has):
            return None
    return pattern(name).search(text)


def occurs(name: str, text: str) -> bool:
    """Return whether a long text contains one of the patterns of a table.

    They are searched one after the other, at first without a look at what precedes: a pattern that begins with a letter
    or a class of characters is found much faster than one of many beginnings.
    """
    return any(
        begin in text and may_match.search(text) and part.search(text) for begin, may_match, part in _parts(name)
    )
