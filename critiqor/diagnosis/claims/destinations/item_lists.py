"""Lists of items that a request names or an output shows, and which of their items a call or a text names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

import msgspec

from critiqor.diagnosis.claims.call_arguments import path_of
from critiqor.diagnosis.claims.checks.targets import named_targets
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import Kind

MIN_ITEMS = 3
"""Minimum number of items of a list; of two, one may well stand for both."""
MAX_REQUEST = 2_000
"""Maximum number of characters of a request whose items are looked for."""
MAX_NAME = 200
"""Maximum number of characters of the name of a file."""
MAX_ITEMS = 60
"""Maximum number of items of a list that is compared item by item."""
_AND = re.compile(r"\s*(?:,|，|、|;|\band\b|\bund\b|\by\b|\be\b|\bet\b|\ben\b|\bi\b|\bи\b|\bve\b|和|と|및|و)\s*")
_LISTED = re.compile(r"(?:[^,，、;:.!?\n()]{2,40}(?:,|，|、)\s*){1,12}[^,，、;:.!?\n()]{2,40}")
_COMMA = re.compile("[,，、]")
BULK = re.compile(r"\*|\bfor \w+ in\b|\bxargs\b|\bfind [^|;]*-exec|\s-[rR]\b|--all\b|\{\w+,|\bwhile\b|\bglob\(|\bmap\(")
"""Command lines that deal with many items at once."""
_FILE = re.compile(r"(?<![\w.~/@+-])[\w.~/@+-]*\w\.[A-Za-z]\w{0,5}\b")
_ENDING = re.compile(r"\.[A-Za-z]")
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")
_ONE_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)+|[a-z]+\d+")
"""A service, a host or an account, alone on its line."""
_MACHINE = re.compile(r"\b[a-z][a-z0-9]*(?:-[a-z0-9]+)+\b|\b[a-z]+\d+\b")


class Items(msgspec.Struct, frozen=True):
    """A list of items that the user named or an output showed."""

    names: tuple[str, ...]
    order: int
    call: EpisodeCall | None = None


def requested_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of names in the request: addresses, files, ids, and names in a row."""
    for request in episode.requests:
        text = request.text[:MAX_REQUEST]
        found = named_targets(text)
        for kind in (_ADDRESS, _FILE, _MACHINE):
            names = [name for name in found if kind.fullmatch(name)] or kind.findall(text)
            if MIN_ITEMS <= len(set(names)) <= MAX_ITEMS:
                yield Items(tuple(dict.fromkeys(names)), request.order)
        for match in _LISTED.finditer(text) if _COMMA.search(request.text) else ():
            parts = [part.strip(" \"'`“”«».") for part in _AND.split(match[0])]
            # The words before the first name and after the last one belong to the sentence.
            names = [part.rsplit(" ", 1)[-1] if number == 0 else part for number, part in enumerate(parts)]
            names = [name.split(" ")[0] if number == len(names) - 1 else name for number, name in enumerate(names)]
            # A name ends before a word in lower case: German by helpers.
            names = [" ".join(takewhile(_is_name, name.split())) for name in names if name[:1].isupper()]
            names = [name for name in names if len(name) >= 2]
            if MIN_ITEMS <= len(set(names)) <= MAX_ITEMS:
                yield Items(tuple(dict.fromkeys(names)), request.order)


def _is_name(word: str) -> bool:
    return not word[0].islower()


def shown_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of files and records in outputs."""
    for call in episode.calls:
        if call.kind in (Kind.ACTION, Kind.CHANGE, Kind.THOUGHT) or call.is_check:
            continue
        for names in (_files(call.text), _members(call.text), _lines(call)):
            if MIN_ITEMS <= len(names) <= MAX_ITEMS:
                yield Items(tuple(names), call.order, call)


_MEASURES = frozenset("0123456789-")
"""How a line begins that gives a size or permissions, and then the file."""


def _files(text: str) -> list[str]:
    """Return the files of a listing: lines that hold nothing else."""
    if len(_ENDING.findall(text)) < MIN_ITEMS:
        return []
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if sum(_is_file(words[-1]) for words in lines if words[0][:1] in _MEASURES) * 2 > len(lines):
        return list(dict.fromkeys(words[-1] for words in lines if _is_file(words[-1])))  # `ls -l`, `wc -l`
    names = [word for words in lines if all(map(_is_file, words)) for word in words]
    return list(dict.fromkeys(names)) if len(names) * 2 > sum(map(len, lines)) else []


def _lines(call: EpisodeCall) -> list[str]:
    """Return the names of a list with one on each line: services, hosts, accounts."""
    lines = call.text.split("\n", MAX_ITEMS + 1) if call.line or path_of(call) else []
    names = [name for line in lines if (name := line.strip())]
    return list(dict.fromkeys(names)) if all(map(_ONE_NAME.fullmatch, names)) else []


def _is_file(word: str) -> bool:
    return len(word) <= MAX_NAME and _FILE.fullmatch(word) is not None


def _members(text: str) -> list[str]:
    """Return the identifying member of each object of the longest list in a JSON answer."""
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return []
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    longest = max(lists, key=len, default=[])
    for name in (
        "path",
        "file",
        "url",
        "name",
        "id",
        "key",
        "title",
        "email",
        "sku",
        "slug",
        "code",
        "number",
        "ref",
        "host",
    ):
        found = [str(item[name]) for item in longest if isinstance(item, dict) and item.get(name)]
        if len(found) == len(longest) and found:
            return list(dict.fromkeys(found))
    return [item for item in longest if isinstance(item, str)] if all(isinstance(each, str) for each in longest) else []


def is_named_by(call: EpisodeCall, name: str) -> bool:
    """Return whether a call names an item of a list in its arguments."""
    lowered = call.arguments.lower()
    short = name.lower().rsplit("/", 1)[-1]
    stem = short.split(".")[0]
    return short in lowered or (len(stem) > 3 and stem in lowered)


def stem_of(name: str) -> str:
    """Return the name of an item of a list as texts mention it: without folder and extension."""
    return name.lower().rsplit("/", 1)[-1].split(".")[0]
