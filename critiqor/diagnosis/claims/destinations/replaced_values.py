"""Values that a request names, and others of the same kind that the calls used instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from critiqor.diagnosis.claims.call_arguments import named_values
from critiqor.diagnosis.claims.destinations.environments import other_branches, other_environments
from critiqor.diagnosis.claims.destinations.record_lists import Mismatch
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.values import Value, values_in
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import Kind

MAX_WANTED = 6
"""Maximum number of values of a kind in a request that are looked for."""
MAX_TEXT = 120
"""Maximum number of characters of an argument that is a value; a longer one is content."""
MAX_LINE = 1_000
"""Maximum number of characters of a command line that are read; a longer one is a script."""
MIN_NAME = 5
"""Minimum number of characters of a compound name."""
MIN_SURE = 4
"""Minimum number of digits of a number that another one with one different digit was meant to be."""
MAX_WORDS_BEFORE = 3
"""Maximum number of words between a word such as `before` and the date or time that it is about."""
_NAME = re.compile(r"(?<![\w@./-])[^\W\d_][^\W_]*(?:[_-][^\W_]+)+(?![\w@-])")
_PART = re.compile(r"[^\W_]+")
_CHANNEL = re.compile(r"(?<![\w&/#])#[a-z][\w-]{2,}")
_TIME = re.compile(r"(?<![\d:.,+-])([01]?\d|2[0-3]):([0-5]\d)(?!\d|:\d\d[\d.]|\s?[ap]\.?m)")
_ZONED = re.compile(r"T[\d:.]+(?:Z|[+-]\d\d:?\d\d)|(?i:zone|\butc|\bgmt)|\b[A-Z]{1,3}T\b")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?=T)")
_DIGIT = re.compile(r"\d")
_MAY_HAVE_VALUE = re.compile(r"[\d@/.]")
_RELATIVE = re.compile(
    r"\b(?:before|prior|earlier|after|later|until|from|vor|nach|bis|ab|avant|après|antes|después|depois|prima|dopo|voor"
    r"|na|przed|före|innan|efter|från|до|после|önce|sonra)\b|[前后後전후]|قبل|بعد",
    re.IGNORECASE,
)
_AMOUNT_KEY = re.compile(
    r"amount|total|sum|value|price|betrag|montant|importe|valor|importo|kwota|tutar", re.IGNORECASE
)
_MONEY = ("eur", "usd", "gbp")

Found = dict[Hashable, str]
"""The values of one kind in a text, by what is compared, as they are written."""


class _Source(NamedTuple):
    """A request or an argument of a call, in which values are looked for."""

    text: str
    name: str
    """The name of an argument; empty for a request."""
    values: list[Value]


class _Sort(NamedTuple):
    """A kind of values: how they are read, and which other value can have taken the place of one."""

    name: str
    read: Callable[[_Source], Found]
    is_rival: Callable[[str, str], bool]
    """Whether another value can be used by mistake for a value that is wanted, both as they are written."""
    is_single: bool = True
    """Whether the request must name one value of the kind, and the calls one other."""


def replaced_values(episode: Episode) -> Iterator[Mismatch]:
    """Yield the values of a request that the calls with an effect replaced by others."""
    calls = [
        call for call in episode.calls if call.has_effect and call.meaning.state != "failure" and not call.is_check
    ]
    if not calls:
        return
    asked = "\n".join([episode.request, *(text.text for each in episode.earlier for text in each.requests)])
    yield from other_branches(episode, calls, asked)
    yield from other_environments(episode, calls, asked)
    # A tool whose name does not say what it does has done something if its result says so.
    acts = [call for call in calls if call.kind is not Kind.OTHER or call.meaning.state == "success"]
    checks = (call for call in episode.calls if call.is_check)
    everything = "\n".join(call.arguments for call in (*acts, *checks)).lower()
    request = _Source(asked, "", values_in(asked, episode.request_language))
    kinds = []
    for sort in _SORTS:
        wanted = sort.read(request)
        if len(wanted) > (1 if sort.is_single else MAX_WANTED) or (sort.name == "time" and _ZONED.search(everything)):
            continue
        # Most values of a request are in the arguments as they are written.
        left = {key: text for key, text in wanted.items() if not _contains(everything, text.lower())}
        if left:
            kinds.append((sort, wanted, left))
    if not kinds:
        return
    arguments = [(call, _Source(text, name or "-", _values(text))) for call in acts for name, text in _arguments(call)]
    for sort, wanted, left in kinds:
        used = {
            key: (call, text)
            for call, source in arguments
            for key, text in sort.read(source).items()
            if sort.name not in _FOUND or not _is_found(episode, asked, call, text)
        }
        if sort.is_single and len(used) != 1:
            continue
        for key, text in left.items():
            if key in used:
                continue
            for other, (call, value) in used.items():
                if other not in wanted and value.lower() not in asked.lower() and sort.is_rival(text, value):
                    forms = (value.lower(), *_forms(value))
                    yield Mismatch(call=call, kind=sort.name, wanted=text, used=value, used_forms=forms)


_FOUND = ("file", "name")
"""Kinds of values for which another one may have been found to be the right one."""


def _is_found(episode: Episode, asked: str, call: EpisodeCall, value: str) -> bool:
    """Return whether the request or an output before a call speaks of what the call used."""
    stem = value.lower().rsplit("/", 1)[-1].partition(".")[0]
    return stem in asked.lower() or any(stem in each.lowered for each in episode.calls if each.order < call.order)


def _values(text: str) -> list[Value]:
    return values_in(text) if _MAY_HAVE_VALUE.search(text) else []


def _contains(text: str, value: str) -> bool:
    return value in text and re.search(rf"(?<![\d]){re.escape(value)}(?!\d)", text) is not None


def _arguments(call: EpisodeCall) -> Iterator[tuple[str, str]]:
    """Yield the short values of the arguments of a call with their names, or its command line."""
    if call.line:
        yield "", call.line[:MAX_LINE]
        return
    try:
        value = decode_json(call.arguments)
    except ValueError:
        return
    yield from ((name, text) for name, text in named_values(value) if len(text) <= MAX_TEXT)
    if isinstance(value, dict):
        yield from ((name, f"{each:.2f}") for name, each in value.items() if isinstance(each, float))


def _forms(value: str) -> Iterator[str]:
    """Yield how a text can write a value: an amount in cents, the day of a date, a file without its folder."""
    if "/" in value:
        yield value.lower().rsplit("/", 1)[-1]
    for each in values_in(value):
        if each.date is not None:
            yield str(each.date[2])
        elif each.kind == "number" and each.readings:
            for number in (each.number, each.number / 100):
                for form in (f"{number:g}", f"{number:.2f}", f"{number:,.2f}"):
                    yield form
                    yield form.translate(_SWAPPED)


_SWAPPED = str.maketrans(".,", ",.")


def _read_addresses(source: _Source) -> Found:
    return {value.text.lower(): value.text for value in source.values if value.kind == "email"}


def _read_channels(source: _Source) -> Found:
    return {each.lower(): each for each in _CHANNEL.findall(source.text)} if "#" in source.text else {}


def _read_files(source: _Source) -> Found:
    return {value.text.rsplit("/", 1)[-1].lower(): value.text for value in source.values if value.kind == "path"}


def _read_times(source: _Source) -> Found:
    text, name = source.text, source.name
    if ":" not in text or _ENDS.search(name) or _ZONED.search(text):
        return {}
    matches = [match for match in _TIME.finditer(text) if not _is_relative(text, match.start())]
    return {(int(match[1]), int(match[2])): match[0] for match in matches}


_ENDS = re.compile(r"end|until|till|to$|bis|fin|hasta|até", re.IGNORECASE)
"""Names of arguments for the end of something, which follows from its beginning."""


def _is_relative(text: str, place: int) -> bool:
    return _RELATIVE.search(" ".join(text[:place].split()[-MAX_WORDS_BEFORE:])) is not None


def _read_dates(source: _Source) -> Found:
    if _ENDS.search(source.name):
        return {}
    # The rest of a time with its zone is read as another date.
    values = source.values[:1] if _ISO.match(source.text) else source.values
    return {
        value.date[1:]: source.text if source.name else value.text.rstrip(" ,.;")
        for value in values
        if value.date is not None and not _is_relative(source.text, value.start)
    }


def _is_other_date(wanted: str, used: str) -> bool:
    # At night, the date in universal time is another one.
    return not used.endswith("Z")


def _read_amounts(source: _Source) -> Found:
    if source.name and not _AMOUNT_KEY.search(source.name):
        return {}
    values = [value for value in source.values if value.kind == "number" and value.readings]
    return {value.number: value.text for value in values if source.name or value.unit in _MONEY}


def _is_other_amount(wanted: str, used: str) -> bool:
    [amount], [other] = values_in(wanted)[:1], values_in(used)[:1]
    scales = (1, 100, -1, -100)
    return not any(abs(other.number - each * scale) < 0.005 for each, _ in amount.readings for scale in scales)


def _read_numbers(source: _Source) -> Found:
    return {
        value.text.lower(): value.text
        for value in source.values
        if value.kind == "identifier" or (value.kind == "number" and not value.decimals and len(value.digits) >= 2)
    }


def _is_slip(wanted: str, used: str) -> bool:
    """Return whether two numbers or codes of one form are a slip of each other; two short ones have the same digits."""
    if _DIGIT.sub("0", wanted.lower()) != _DIGIT.sub("0", used.lower()):
        return False
    digits, others = ("".join(_DIGIT.findall(text)) for text in (wanted, used))
    return is_slip(others, digits) and (len(digits) >= MIN_SURE or sorted(digits) == sorted(others))


def _read_names(source: _Source) -> Found:
    if "-" not in source.text and "_" not in source.text:
        return {}
    return {each.lower(): each for each in _NAME.findall(source.text) if len(each) >= MIN_NAME}


def _differ_in_one_part(wanted: str, used: str) -> bool:
    one, other = wanted.lower(), used.lower()
    if _PART.split(one) != _PART.split(other):
        return False
    different = [pair for pair in zip(_PART.findall(one), _PART.findall(other), strict=True) if pair[0] != pair[1]]
    # Numbered versions follow each other: to write the next one is what was asked.
    return len(different) == 1 and not (different[0][0].isdigit() and different[0][1].isdigit())


def _have_same_end(wanted: str, used: str) -> bool:
    return wanted.rpartition(".")[2].lower() == used.rpartition(".")[2].lower()


_SORTS = (
    _Sort("address", _read_addresses, lambda wanted, used: True),
    _Sort("channel", _read_channels, lambda wanted, used: True),
    _Sort("file", _read_files, _have_same_end),
    _Sort("time", _read_times, lambda wanted, used: True),
    _Sort("date", _read_dates, _is_other_date),
    _Sort("amount", _read_amounts, _is_other_amount),
    _Sort("number", _read_numbers, _is_slip, is_single=False),
    _Sort("name", _read_names, _differ_in_one_part, is_single=False),
)
