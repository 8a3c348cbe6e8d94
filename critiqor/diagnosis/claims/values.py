"""Values in texts: numbers in every usual notation, dates, versions, identifiers, paths and addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from critiqor.diagnosis.claims.language import Language, languages, normalize
from critiqor.diagnosis.claims.recorded.durations import durations_in
from critiqor.diagnosis.claims.recorded.units import unit_at

ValueKind = Literal["number", "date", "version", "identifier", "path", "url", "email"]
MAX_VALUES = 400
"""Maximum number of values that are read from one text."""
_DIGITS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹０１２３４５６７８９٫٬，．−–", "012345678901234567890123456789.,,.--")
_FOREIGN = re.compile("[٠-٩۰-۹０-９٫٬，．−–]")
_RANGE = re.compile(r"(?<=\d)–(?=\d)")
"""A dash between two numbers, which are the ends of a range; elsewhere it can be a minus sign."""
_GROUP = "[.,'\u2019\u00a0\u202f\u2009 ]"
_JOINED = "a-zA-Z0-9_\u00aa-\u02ff\u0370-\u052f\u0600-\u06ff\u0900-\u097f"
"""Characters of words, without those of languages that do not separate words: there a number follows a word at once."""
# A pattern that begins with a class of characters is searched much faster than one that begins by looking back. So the
# first character comes first, and what must not be before it is looked up behind that character.
_NUMBER = re.compile(
    rf"(?s:[-+\d](?<![{_JOINED}.,#/].)(?<!\d:.)(?<![a-zA-Z]-.))(?:(?<=\d)(?:\d{{0,2}}(?:{_GROUP}\d{{3}})+(?!\d)(?:[.,]\d+)?|\d*(?:[.,]\d+)?)"
    rf"|(?<=[-+])(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?))(?![\d/]|[.,]\d|-\d|:\d)"
)
_VERSION = re.compile(r"(?<![\w.])v?\d+\.\d+\.\d+(?:[.-]?(?:rc|alpha|beta|dev|post)?\.?\d+)*(?![\w])", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`)\]|，。]+[^\s<>\"'`)\]|.,;:!?，。]")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PATH = re.compile(r"(?<![\w:@/.])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w")
_FILE = re.compile(r"(?<![\w/.@-])[\w-]+\.[a-z][a-z0-9]{1,4}(?![\w(])")
_IDENTIFIER = re.compile(
    r"(?<![\w/@-])(?<!(?<!\.)\.)(?=[\w-]*\d)(?:[A-Z]{1,6}[-_]?\d{3,}[A-Za-z0-9_-]*|[A-Z0-9]{2,}-[A-Z0-9-]{3,}|[a-z]{2,6}_[A-Za-z0-9]{4,}"
    r"|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}|(?=[0-9]*[A-Z])[A-Z0-9]{6,})(?![A-Za-z0-9_])"
)
_DOI = re.compile(r"(?<![\w./])10\.\d{4,}/[^\s,;)\]>\"'*]*[\w]")
_MAY_IDENTIFY = re.compile(r"(?s:\d(?<!\d.))(?:(?s:(?<=[\w-].))|\d*+(?:[\w-]|(?<=\d{6}))|0\.\d{4})")
"""A digit beside another character of a word, six digits, or the beginning of a DOI: each identifier has one."""
_LONG_DIGITS = re.compile(r"(?s:\d(?<![\w.,+-].))(?:[ -]?\d){9,}(?!\w|[.,]\d)")
_PHONE = re.compile(r"(?<![\w+])\+\d(?:[ ()/.-]{0,2}\d){7,14}(?!\w)")
_MAY_BE_DATE = re.compile(r"[-/.]\d\d?[-/.]")
_ISO_DATE = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_MAY_BE_MONTH = re.compile(r"\d\d-[01]\d(?!\d)")
_YEAR_MONTH = re.compile(r"(?<![\d-])(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?![\d-])")
_DAY_FIRST = re.compile(r"(?<!\d)(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?!\d)")
_SHORT_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(?!\d)(?=[\s,;)]|$)")
_POINTED = frozenset(("de", "nl", "pl", "ru", "sv", "tr"))
"""Languages that write a day and a month with points; elsewhere the second point ends a sentence: at 1.07."""
_CJK_DATE = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号일]")
_MAY_LAST = re.compile(r"\d\s?[^\W\d_]+,?(?:\s[^\W\d_]{1,3})?\s?\d")
"""A unit between two numbers."""
_DATE_SIGNS = frozenset("年月日号號時时点點년월시")
"""Characters behind a number that is a part of a date or a time."""
FACTORS = {"万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8, "만": 1e4, "억": 1e8}
"""Characters behind a number that multiply it in any language."""
_UNITS = {
    **dict.fromkeys(("%", "percent", "prozent", "por ciento", "pour cent", "per cento", "procent", "процент"), "%"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "eur"),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "usd"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds"), "gbp"),
    **dict.fromkeys(("gb", "gib", "g"), "gb"),
    **dict.fromkeys(("mb", "mib", "m"), "mb"),
    **dict.fromkeys(("kb", "kib", "k"), "kb"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "sekunden"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "minuten"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "stunden", "stunde"), "h"),
    **dict.fromkeys(("km",), "km"),
    **dict.fromkeys(("kwh",), "kwh"),
}
_UNIT = re.compile(r"\s?(%|€|\$|£|[a-zа-я]+)(?![\w])", re.IGNORECASE)


class Reading(NamedTuple):
    """One meaning of a written number."""

    number: float
    decimals: int


class Value(msgspec.Struct, frozen=True, gc=False):
    """One value in a text."""

    kind: ValueKind
    start: int
    end: int
    text: str
    readings: tuple[Reading, ...] = ()
    """What a number can mean: `1.234` is 1.234 or 1234, and `35亿` is 3,500,000,000."""
    unit: str = ""
    date: tuple[int | None, int, int] | None = None
    """Year, month and day."""

    @property
    def number(self) -> float:
        """The number in its most usual reading."""
        return self.readings[0].number

    @property
    def decimals(self) -> int:
        """Its number of decimals in the most usual reading."""
        return self.readings[0].decimals if self.readings else 0

    @property
    def digits(self) -> str:
        """Its digits without leading zeros."""
        return digits_of(self.text)


@lru_cache(maxsize=1_024)
def digits_of(text: str) -> str:
    """Return the digits of a value as it is written, without leading zeros."""
    return (text if text.isdigit() else _MARK.sub("", text)).lstrip("0")


def values_in(text: str, language: Language | None = None, *, has_numbers: bool = True) -> list[Value]:
    """Return the values of a text in order; each character belongs to one value.

    `has_numbers`: whether the numbers are wanted, too; they come after everything else.
    """
    plain = text
    if not text.isascii() and _FOREIGN.search(text):
        plain = _RANGE.sub("~", text).translate(_DIGITS)
    found: list[Value] = []
    taken = bytearray()

    def take(value: Value) -> None:
        nonlocal taken
        taken = taken or bytearray(len(plain))
        if not any(taken[value.start : value.end]):
            taken[value.start : value.end] = b"\1" * (value.end - value.start)
            found.append(value)

    for kind, pattern, may_match in _WITH_SIGN:
        if may_match(plain):
            for match in pattern.finditer(plain):
                take(Value(kind, match.start(), match.end(), match[0]))
    for value in _dates(plain, language):
        take(value)
    for kind, pattern, may_match in _OTHERS:
        if may_match(plain):
            for match in pattern.finditer(plain):
                take(Value(kind, match.start(), match.end(), match[0]))
    for start, end, seconds in durations_in(plain) if has_numbers and _MAY_LAST.search(plain) else ():
        take(Value("number", start, end, plain[start:end], (Reading(seconds, 0),), "s"))
    for match in _NUMBER.finditer(plain) if has_numbers else ():
        if plain[match.end() : match.end() + 1] in _DATE_SIGNS:
            continue
        if taken:
            take(_number(plain, match, language))
        else:
            found.append(_number(plain, match, language))
        if len(found) >= MAX_VALUES:
            break
    return sorted(found, key=_start) if taken else found


_start = attrgetter("start")
_Gate = Callable[[str], object]


def _contains(sign: str) -> _Gate:
    return lambda text: sign in text


_WITH_SIGN: tuple[tuple[ValueKind, re.Pattern[str], _Gate], ...] = (
    ("url", _URL, _contains("://")),
    ("email", _EMAIL, _contains("@")),
)
_OTHERS: tuple[tuple[ValueKind, re.Pattern[str], _Gate], ...] = (
    ("version", _VERSION, re.compile(r"\.\d+\.\d").search),
    ("identifier", _DOI, _contains("10.")),
    ("path", _PATH, _contains("/")),
    ("path", _FILE, re.compile(r"\.[a-z][a-z0-9]").search),
    ("identifier", _PHONE, _contains("+")),
    ("identifier", _LONG_DIGITS, _LONG_DIGITS.search),
    ("identifier", _IDENTIFIER, _MAY_IDENTIFY.search),
)
"""Patterns of values, each with a cheap test that every text with such a value passes: most texts have none of them."""


def _dates(text: str, language: Language | None) -> list[Value]:
    found: list[tuple[re.Match[str], int | None, int, int]] = []
    if _MAY_BE_DATE.search(text):
        for match in _ISO_DATE.finditer(text):
            found.append((match, int(match[1]), int(match[2]), int(match[3])))
        for match in _DAY_FIRST.finditer(text):
            found.append((match, int(match[3]), int(match[2]), int(match[1])))
        for match in _SHORT_DATE.finditer(text) if language is None or language.code in _POINTED else ():
            found.append((match, None, int(match[2]), int(match[1])))
    dates = [
        Value("date", match.start(), match.end(), match[0], date=(year, month, day))
        for match, year, month, day in found
        if 1 <= month <= 12 and 1 <= day <= 31
    ]
    for match in _CJK_DATE.finditer(text) if "月" in text or "월" in text else ():
        year, month, day = int(match[1]) if match[1] else None, int(match[2]), int(match[3])
        if 1 <= month <= 12 and 1 <= day <= 31:
            dates.append(Value("date", match.start(), match.end(), match[0], date=(year, month, day)))
    return dates + _named_dates(text, language)


_DAY_MONTH = re.compile(
    r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|ª|\.)?\s+(?:de\s+|of\s+)?(?P<month>[^\W\d_]{3,12})\b\.?,?"
    r"(?:\s+(?:de\s+)?(?P<year>\d{4})(?!\d))?"
)
_MONTH_DAY = re.compile(
    r"\b(?P<month>[^\W\d_]{3,12})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\d:])"
    r"(?:,?\s+(?:\d\d:\d\d(?::\d\d)?\s+)?(?P<year>\d{4})(?!\d))?"
)


def _named_dates(text: str, language: Language | None) -> list[Value]:
    lowered = normalize(text)
    months, shortest = _months(language.code if language is not None else "en")
    if not any(name in lowered for name in shortest):
        return []
    dates = []
    for pattern in (_DAY_MONTH, _MONTH_DAY):
        for match in pattern.finditer(lowered):
            month = months.get(match["month"])
            if month and 1 <= int(match["day"]) <= 31:
                date = (int(match["year"]) if match["year"] else None, month, int(match["day"]))
                dates.append(Value("date", match.start(), match.end(), text[match.start() : match.end()], date=date))
    return dates


@cache
def _months(code: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the names of the months, and those of them that contain no other one: a text without these has none."""
    known = languages()
    months = {**known["en"].months, **known[code].months}
    names = [name for name in months if not any(other in name for other in months if other != name)]
    return months, tuple(names)


def _number(text: str, match: re.Match[str], language: Language | None) -> Value:
    raw = match[0]
    start, end = match.span()
    readings = read_number(raw)
    unit = _UNITS.get(text[start - 1], "") if start else ""
    follows = _FOLLOWS.match(text, end) if text[end : end + 2].strip() else None
    if follows is None:
        return Value("number", start, end, raw, readings, unit or unit_at(text, start, end).measure)
    word = follows[1].lower()
    is_unit = not word.isascii() or len(word) > _MAX_UNIT or word in _UNITS
    if not is_unit and (language is None or word not in language.scale):
        return Value("number", start, end, raw, readings, unit or unit_at(text, start, end).measure)
    scale, size = _scale(text[end : end + 16].lower(), language)
    if scale != 1.0:
        scaled = (Reading(one.number * scale, max(0, one.decimals - _zeros(scale))) for one in readings)
        readings = tuple(dict.fromkeys((*scaled, *readings)))
    if named := _UNIT.match(text, end + size):
        unit = _UNITS.get(named[1].lower(), unit)
    return Value("number", start, end, raw, readings, unit or unit_at(text, start, end).measure)


_FOLLOWS = re.compile(r"\s?([^\W\d_]+|[%€$£])")
_SCALE_WORD = re.compile(r"\s?([^\W\d_]+)")
_MAX_UNIT = 14


def _zeros(scale: float) -> int:
    return len(str(int(scale))) - 1


def _scale(rest: str, language: Language | None) -> tuple[float, int]:
    for char, factor in FACTORS.items():
        if rest.startswith(char):
            return factor, 1
    word = _SCALE_WORD.match(rest)
    scale = language.scale.get(word[1]) if word and language is not None else None
    return (float(scale), word.end()) if word and scale else (1.0, 0)


@lru_cache(maxsize=1_024)
def read_number(raw: str) -> tuple[Reading, ...]:
    """Return the values that a number in a text can stand for, the most usual reading first."""
    if raw.isdigit():
        return (Reading(float(raw), 0),)
    sign = -1.0 if raw.startswith("-") else 1.0
    body = raw.lstrip("+-")
    marks = _MARK.findall(body)
    if not marks:
        return (Reading(sign * float(body), 0),)
    last = marks[-1]
    if last not in ".," or marks.count(last) > 1:
        return (Reading(sign * float(_MARK.sub("", body)), 0),)
    head, _, tail = body.rpartition(last)
    decimal = Reading(sign * float(f"{_MARK.sub('', head) if len(marks) > 1 else head}.{tail}"), len(tail))
    if len(tail) == 3 and len(marks) == 1 and 1 <= len(head) <= 3 and head != "0":
        # 1.234 and 1,234 are read both ways.
        whole = Reading(sign * float(head + tail), 0)
        return (whole, decimal) if last == "," else (decimal, whole)
    return (decimal,)


_MARK = re.compile(r"\D")
# Looking at the first character before all alternatives makes it more than twice as fast.
_RECORDED = re.compile(
    rf"(?=[-\d])(?:(?<![{_JOINED}.])(?<![a-zA-Z]-)-?(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)(?![\w]|\.\d)|(?<=[\d,;|])\d+(?:\.\d+)?(?![\w])"
    rf"|(?<![\w.])\d+(?:[.,]\d+)?(?=[a-zA-Z%€]{{1,4}}\b))"
)


def recorded_numbers(line: str) -> list[tuple[float, ...]]:
    """Return the values of a line that are numbers, each with all its readings; `12,5` in a table can be two."""
    found: list[tuple[float, ...]] = []
    plain = line if line.isascii() or not _FOREIGN.search(line) else line.translate(_DIGITS)
    if _MAY_BE_DATE.search(plain):
        for pattern in (_ISO_DATE, _DAY_FIRST):
            plain = pattern.sub(" ", plain)
    if "-" in plain and _MAY_BE_MONTH.search(plain):
        plain = _YEAR_MONTH.sub(" ", plain)
    for match in _RECORDED.finditer(plain):
        raw = match[0]
        if raw.isdigit():
            found.append((float(raw),))
        else:
            numbers = [reading.number for reading in read_number(raw)]
            if "," in raw:
                numbers += [float(part) for part in raw.lstrip("-").split(",") if part.isdigit()]
            found.append(tuple(dict.fromkeys(numbers)))
        if len(found) >= MAX_VALUES:
            break
    return found


def word_numbers(text: str, language: Language | None) -> list[Value]:
    """Return the values of a text that are numbers written as words."""
    if language is None:
        return []
    lowered = normalize(text)
    found = []
    if language.code in ("zh", "ja"):
        for match in re.finditer(
            r"[零〇一二两三四五六七八九十百千]+(?=[个個件名人次项項条條份张張台店つ本枚回度页頁种種行])", text
        ):
            if (value := _han_number(match[0])) is not None:
                found.append(Value("number", match.start(), match.end(), match[0], (Reading(value, 0),)))
        return found
    numbers = language.numbers
    start = 0
    pieces = lowered.replace("\n", " ").split(" ")
    # Most pieces are words that are no number, and splitting is much faster than a pattern.
    holding = {piece for piece in set(pieces) if _holds_number(piece, numbers)}
    for piece in pieces if holding else ():
        if piece in holding:
            for match in _COMPOUND.finditer(lowered, start, start + len(piece)):
                if (value := _word_number(match[0], numbers)) is not None:
                    place = match.start(), match.end()
                    found.append(Value("number", *place, text[place[0] : place[1]], (Reading(value, 0),)))
        start += len(piece) + 1
    return found


_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NO_WORD = "0123456789.,:;%+-()|*"


def _holds_number(piece: str, numbers: dict[str, float]) -> bool:
    if piece.isalpha():
        return piece in numbers
    if not piece.strip(_NO_WORD):
        return False  # reports are full of figures
    return any(_word_number(word, numbers) is not None for word in _COMPOUND.findall(piece))


def _word_number(word: str, numbers: dict[str, float]) -> float | None:
    value = numbers.get(word)
    if value is None and "-" in word:
        parts = [numbers.get(part) for part in word.split("-")]
        known = [part for part in parts if part is not None]
        value = sum(known) if len(known) == len(parts) else None
    return None if value is None else float(value)


_HAN = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}


def _han_number(text: str) -> float | None:
    total, current = 0, 0
    for char in text:
        if char in _HAN:
            current = _HAN[char]
        else:
            factor = {"十": 10, "百": 100, "千": 1000}[char]
            total += (current or 1) * factor
            current = 0
    return float(total + current)
