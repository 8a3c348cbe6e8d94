"""Dates and times of day that differ from those of the record which a sentence names."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date as calendar_date
from functools import cached_property
from typing import NamedTuple

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, language_of, normalize, small_words
from critiqor.diagnosis.claims.recorded.facts import records_of
from critiqor.diagnosis.claims.recorded.records import Record
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value, values_in

MAX_RECORDS = 400
"""Maximum number of records with a date that are compared."""
MIN_NAME = 4
"""Minimum number of letters of a word that names a record."""
ANY_YEAR = 2000
_TIME = re.compile(
    r"(?<![\d:.,-])([01]?\d|2[0-3])(?::|h|\.(?=[0-5]\d\s?uhr)|時|时|点|點|시)\s?([0-5]\d)(?![\d%]|,\d)(?:分|분)?"
    r"(?:\s?([ap])\.?m\b)?",
    re.IGNORECASE,
)
_MAY_BE_TIME = re.compile(r"[:h.時时点點시]\s?[0-5]\d(?:(?<!\.\d\d)|\s?uhr)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?\s?(Z|UTC|[+-]\d\d:?\d\d)?")
_ZONE = re.compile(
    r"\b(?:UTC|GMT|[ECMPBI]S?[SD]?T|CES?T|JST|KST|MSK|time ?zones?|timezones?|local time|zeitzone|ortszeit|fuso|fuseau"
    r"|huso|tijdzone|strefa|пояс\w*)\b|\b[A-Z][a-z]+/[A-Z][A-Za-z_]+\b|\b[A-Z][a-z]+ time\b"
    r"|时区|時區|現地時間|시간대|توقيت"
)
_WORD = re.compile(r"[^\W_]{2,}")
_STAMP = re.compile(r"\d+t\d+z?|\d+z")
_PLAIN_NUMBER = re.compile(r"(?<![\d.:/t-])\d{1,3}(?![\d:/-])")
"""A number that is no part of a date or a time."""


MAX_LINE = 400
"""Maximum number of characters of a line whose dates and times belong together."""


class Moment(NamedTuple):
    """A record with a date or a time."""

    words: frozenset[str]
    dates: frozenset[tuple[int, int]]
    """Month and day."""
    times: frozenset[int]
    """Minutes since midnight."""
    is_zoned: bool
    """Whether its times are in UTC: a person reads them in another zone."""
    text: str
    call: EpisodeCall


class Moments:
    """The dates and times of outputs by record."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    @cached_property
    def _recorded(self) -> list[Moment]:
        found = []
        for call in self._evidence.calls:
            if _MAY_TELL.search(call.text):
                records = (record for record in records_of(call) if record.is_structured)
                found += [one for record in records if (one := _moment(record, call)) is not None]
            if len(found) > MAX_RECORDS:
                return []
        return found

    @cached_property
    def _given(self) -> str:
        evidence = self._evidence
        return f"{evidence.seen}\n{evidence.episode.request.lower()}"

    @cached_property
    def _known_dates(self) -> set[tuple[int, int]]:
        known = {date for moment in self._recorded for date in moment.dates}
        language = self._evidence.episode.language
        return known | {value.date[1:] for value in values_in(self._given, language, has_numbers=False) if value.date}

    @cached_property
    def _numbers(self) -> set[int]:
        return {int(number) for number in _PLAIN_NUMBER.findall(self._given)}

    def wrong_date(self, speech: Speech, stance: Stance, value: Value) -> Moment | None:
        """Return the record that a sentence is about, if it has another date and the claimed one follows from none."""
        if value.date is None or stance.is_uncertain or not self._evidence.is_complete:
            return None
        day = value.date[1:]
        # Most dates are in an output as they are, which is quickly seen.
        if f"-{day[0]:02d}-{day[1]:02d}" in self._given or day in self._known_dates:
            return None
        if (shifted := self._shifted(speech, day)) is not None:
            return shifted
        moments = [moment for moment in self._named(stance) if moment.dates]
        if not moments or len({date for moment in moments for date in moment.dates}) > 1:
            return None
        distances = {abs((_day(day) - _day(known)).days) for known in self._known_dates}
        if distances & self._numbers and not distances & {1, 2, 3}:
            return None
        return moments[-1]

    def _shifted(self, speech: Speech, day: tuple[int, int]) -> Moment | None:
        """Return the line of an output whose times a text repeats with the day before or after: 15 May for 14 May."""
        times = {_minutes(match) for match in _TIME.finditer(speech.text)}
        said = {value.date[1:] for value in speech.values if value.date is not None}
        if not times or _ZONE.search(speech.text) or _ZONE.search(self._evidence.episode.request):
            return None
        for call in self._evidence.calls:
            for line in call.text.splitlines() if _MAY_TELL.search(call.text) else ():
                shown = times & {_minutes(match) for match in _TIME.finditer(line[:MAX_LINE])}
                found = values_in(line[:MAX_LINE], has_numbers=False) if shown else []
                dates = {value.date[1:] for value in found if value.date is not None}
                if len(dates) == 1 and not dates & said and abs((_day(day) - _day(*dates)).days) == 1:
                    text = line.strip()
                    return Moment(frozenset(), frozenset(dates), frozenset(shown), is_zoned=False, text=text, call=call)
        return None

    def wrong_times(self, speech: Speech, stance: Stance) -> list[tuple[re.Match[str], Moment]]:
        """Return the times of day of a sentence that the record it is about does not have."""
        if not _MAY_BE_TIME.search(stance.lowered):
            return []
        said = list(_TIME.finditer(speech.text, stance.statement.start, stance.statement.end))
        if not said or stance.is_uncertain or not self._evidence.is_complete:
            return []
        moments = [moment for moment in self._named(stance) if moment.times]
        times = {time for moment in moments for time in moment.times}
        if len(moments) != 1 or len(times) > 2 or moments[0].is_zoned or _ZONE.search(speech.text):
            return []
        everything = f"{self._evidence.episode.request}\n" + "\n".join(call.arguments for call in self._evidence.calls)
        if _ZONE.search(everything):
            return []
        known = {_minutes(match) for match in _TIME.finditer(f"{self._given}\n{everything}")} | times
        return [
            (match, moments[0]) for match in said if not any(_is_same(match, other, self._numbers) for other in known)
        ]

    def _named(self, stance: Stance) -> list[Moment]:
        """Return the records with the most words of a sentence."""
        words = frozenset(word for word in _WORD.findall(stance.lowered))
        best, found = 0, []
        for moment in self._recorded:
            shared = len(moment.words & words)
            if shared > best:
                best, found = shared, [moment]
            elif shared and shared == best:
                found.append(moment)
        return found


_MAY_TELL = re.compile(r"\d[-/.]\d|\d:\d|\d\s?[月월]")


def _moment(record: Record, call: EpisodeCall) -> Moment | None:
    texts = [*record.names, *(cell.text for cell in record.cells if cell.text not in record.names)]
    joined = "\n".join(texts)
    dates = frozenset(value.date[1:] for value in values_in(joined, has_numbers=False) if value.date)
    stamps = list(_ISO.finditer(joined))
    plain = _ISO.sub(" ", joined)
    times = {int(one[1]) * 60 + int(one[2]) for one in stamps} | {_minutes(one) for one in _TIME.finditer(plain)}
    if not dates and not times:
        return None
    words = frozenset(
        word
        for text in texts
        for word in _WORD.findall(text.lower())
        if (len(word) >= MIN_NAME or not word.isascii()) and not word.isdigit() and not _STAMP.fullmatch(word)
    )
    is_zoned = any(one[3] in ("Z", "UTC", "+00:00", "+0000") for one in stamps)
    shown = stamps[0][0] if stamps else joined
    return Moment(words - small_words(), dates, frozenset(times), is_zoned, shown, call)


def _minutes(match: re.Match[str]) -> int:
    hours = int(match[1])
    if match[3]:
        hours = hours % 12 + (12 if match[3].lower() == "p" else 0)
    return hours * 60 + int(match[2])


def _is_same(match: re.Match[str], other: int, lengths: set[int]) -> bool:
    """Return whether a time is another one, on a clock of 12 hours or not, or some known minutes before or after it."""
    difference = abs(_minutes(match) - other)
    return difference in (0, 720) or difference in lengths or (difference % 60 == 0 and difference // 60 in lengths)


def _day(day: tuple[int, int]) -> calendar_date:
    month, number = day
    try:
        return calendar_date(ANY_YEAR, month, number)
    except ValueError:
        return calendar_date(ANY_YEAR, month, 28)


def weekdays_in(text: str, language: Language | None = None) -> set[int]:
    """Return the weekdays that a text names, from 1 for Monday; an English plural or genitive counts, too.

    The language of a short text can be given, because it may not be recognized.
    """
    language = language or language_of(text)
    known = language.weekdays if language is not None else {}
    spoken = (word if word in known else word.rstrip("s") for word in _LETTERS.findall(normalize(text)))
    return {known[word] for word in spoken if word in known}


def weekdays_of_dates(text: str) -> set[int]:
    """Return the weekdays of the dates in a text, such as 2026-05-14."""
    days = set()
    for match in _DATE.findall(text):
        with suppress(ValueError):
            days.add(calendar_date.fromisoformat(match).isoweekday())
    return days


_LETTERS = re.compile(r"[^\W\d_]{2,}")
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
