"""Lists of items that a request names or an output shows, and which of their items a call or a text names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

import msgspec

from critiqor.diagnosis.claims.call_arguments import named_values, path_of
from critiqor.diagnosis.claims.checks.targets import AND, targets_in_request
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
_AND = re.compile(rf"\s*(?:[,，、;]|{AND})\s*")
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
    forms: dict[str, tuple[str, ...]] = {}
    """The other values of the record of a name: a call can name it by any of them."""


def requested_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of names in the request: addresses, files, ids, and names in a row."""
    for request in episode.requests:
        text = request.text[:MAX_REQUEST]
        found = targets_in_request(text)
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


def requested_pairs(episode: Episode) -> Iterator[Items]:
    """Yield the lists of two items in the request: Ines and Ravi, orders 5120 and 5123."""
    for request in episode.requests:
        for match in _PAIR.finditer(request.text[:MAX_REQUEST]):
            one, other = match[1], match[2].split()[-1]
            # In German, every noun is written like a name; one with a title is a name.
            is_noun = other.isalpha() and other == match[2] and (language := request.language) and language.code == "de"
            if one[-1].isdigit() == other[-1].isdigit() and one.lower() != other.lower() and not is_noun:
                yield Items((one, other), request.order)


_PAIR = re.compile(
    rf"(?<!\S)([^\W\d_a-z][^\W\d_]{{2,}}|[A-Z]*-?\d{{3,}})\s(?:{AND})\s"
    r"((?:[^\W\d_a-z][^\W\d_]+\.?\s)?[^\W\d_a-z][^\W\d_]{2,}|[A-Z]*-?\d{3,})(?![\w/-])"
)


def _is_name(word: str) -> bool:
    return not word[0].islower()


def shown_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of files and records in outputs."""
    for call in episode.calls:
        if call.kind in (Kind.ACTION, Kind.CHANGE, Kind.THOUGHT) or call.is_check:
            continue
        for names in (_files(call.text), _lines(call)):
            if MIN_ITEMS <= len(names) <= MAX_ITEMS:
                yield Items(tuple(names), call.order, call)
        records = _records(call.text)
        if MIN_ITEMS <= len(records) <= MAX_ITEMS and not all(
            _DATE.match(one) or len(one) < MIN_FORM for one in records
        ):
            yield Items(tuple(records), call.order, call, records)


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


def _records(text: str) -> dict[str, tuple[str, ...]]:
    """Return the name of each record of a JSON list or a table with the values that no other record has."""
    is_json = text.lstrip()[:1] in ("{", "[")
    rows = _objects(text) if is_json else _table(text)
    if not MIN_ITEMS <= len(rows) <= MAX_ITEMS:
        return {}
    counts = Counter(value for row in rows for value in set(row.values()))
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        name = next((row[key] for key in _NAMING if row.get(key)), "")
        own = tuple(each for each in row.values() if counts[each] == 1 and len(each) >= MIN_FORM)
        if name := name or ("" if is_json else next(iter(own), "")):
            found[name] = own
    return found if len(found) == len(rows) else {}


def _objects(text: str) -> list[dict[str, str]]:
    """Return the objects of the longest list in a JSON answer."""
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return []
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    longest = max(lists, key=len, default=[])
    if all(isinstance(each, str) for each in longest):
        return [{"name": each} for each in dict.fromkeys(longest)]
    return [dict(named_values(each)) for each in longest if isinstance(each, dict)]


def _table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table with a head, as in a CSV file."""
    head, _, rest = text.strip().partition("\n")
    mark = next((mark for mark in _MARKS if mark in head), "")
    columns = [column.strip().lower() for column in head.split(mark)] if mark else []
    lines = [line.split(mark) for line in rest.splitlines() if line.strip()] if mark else []
    if not all(column.replace("_", "").replace(" ", "").isalpha() for column in columns):
        return []
    if any(len(line) != len(columns) for line in lines):
        return []
    # Numbers are what a row says, and not its name.
    return [
        {
            column: cell
            for column, each in zip(columns, line, strict=True)
            if not _AMOUNT.fullmatch(cell := each.strip())
        }
        for line in lines
    ]


_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?")
"""Days and months: two of them can stand for all between."""
_MARKS = (",", ";", "\t", "|")
_AMOUNT = re.compile(r"[-+]?[\d.,]*%?")
_NAMING = (
    *("path", "file", "url", "name", "id", "key", "title", "email", "sku", "slug", "code", "number", "ref", "host"),
)
"""Members that name a record, the best first."""
MIN_FORM = 3
"""Minimum number of characters of another value that names a record."""


def is_named_by(call: EpisodeCall, name: str) -> bool:
    """Return whether a call names an item of a list in its arguments; of a name of several words, the last will do."""
    lowered = call.arguments.lower()
    short = name.lower().rsplit("/", 1)[-1]
    stem = short.split(".")[0]
    if short in lowered or (len(stem) > 3 and stem in lowered):
        return True
    first, _, last = short.rpartition(" ")
    return bool(first) and len(last) > 3 and last in call.words


def stem_of(name: str) -> str:
    """Return the name of an item of a list as texts mention it: without folder and extension."""
    return name.lower().rsplit("/", 1)[-1].split(".")[0]
