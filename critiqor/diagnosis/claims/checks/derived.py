"""Values that a person can recompute: times of day, a change with both of its ends, and how many rows were changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.model.sanitize import excerpt

TYPE = "misreported_value"
MAX_TIMES = 60
"""Maximum number of different times of day in the outputs; with more, each time is a plausible one."""
SHIFT = 15
"""Time zones differ by a multiple of so many minutes; if none is named, only those that differ by hours are meant."""
HOUR = 60
MAX_MINUTES = 24 * 60
SLACK = 1.5
"""Largest difference in percent, or relative one of a factor, that rounding explains."""
_TIME = re.compile(r"(?<![\d:.,-])([01]?\d|2[0-3])(?::|h)([0-5]\d)(?![\d:%]|,\d)(?:\s?([ap])\.?m\b)?", re.IGNORECASE)
_STAMP = re.compile(r"(?<=\d[T ])([01]\d|2[0-3]):([0-5]\d)()(?::[\d.]+)?(?:Z|\s?UTC|[+-]\d\d:?\d\d)")
"""A time that is written with its zone: a person reads it in another one."""
_ZONED = re.compile(
    r"\b(?:UTC|GMT|[ECMPBI]S?[SD]?T|CES?T|JST|KST|MSK)\b|time ?zone|local time|zeitzone|ortszeit|fuso|fuseau|huso"
    r"|tijdzone|strefa|пояс|时区|時區|現地時間|시간대|توقيت|\b[A-Z][a-z]+ time\b",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(\d{1,3})\s?(?:'|min\b|mins\b|minut\w*|minuten|分|분|мин)", re.IGNORECASE)
_FACTOR = re.compile(
    r"\s?(?:x\b|×|times\b|-?fach\b|mal\b|fois\b|veces\b|vezes\b|volte\b|keer\b|razy\b|раза?\b|kat\b|倍|배|مرات|أضعاف)",
    re.IGNORECASE,
)
_ROWS = re.compile(
    r"\b(?:UPDATE|DELETE|INSERT 0|COPY|MERGE) (\d+)\b"
    r"|\b(\d+) (?:rows?|records?|documents?) (?:affected|updated|deleted|inserted|imported|migrated)\b"
)
_ROW_SIGNS = ("UPDATE ", "DELETE ", "INSERT 0", "COPY ", "MERGE ", " row", " record", " document")
"""One of them is in each text that says how many rows were changed."""
_MAY_BE_TIME = re.compile(r"[:h][0-5]\d", re.IGNORECASE)


def check_derived(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the values that do not agree with what they are computed or copied from."""
    claims: list[CheckedClaim] = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if not any(map(str.isdigit, speech.text)):
            continue
        claims += _times(text, speech, evidence)
        if speech.values:
            claims += _changes(text, speech, evidence)
            claims += _rows(text, speech, evidence)
    return claims


def _minutes(match: re.Match[str]) -> int:
    hours = int(match[1])
    if match[3]:
        hours = hours % 12 + (12 if match[3].lower() == "p" else 0)
    return hours * 60 + int(match[2])


def _times(text: EpisodeText, speech: Speech, evidence: Evidence) -> Iterator[CheckedClaim]:
    """Yield the times of day that differ from a recorded one by a slip, and follow from none."""
    said = list(_TIME.finditer(speech.text)) if _MAY_BE_TIME.search(speech.text) else []
    if not said:
        return
    recorded = {_minutes(match): (match, call) for call in evidence.calls for match in _TIME.finditer(call.text)}
    step = SHIFT if _ZONED.search(f"{evidence.episode.request}\n{speech.text}") else HOUR
    zoned = {_minutes(match) for call in evidence.calls for match in _STAMP.finditer(call.text)}
    if not recorded or len(recorded) > MAX_TIMES:
        return
    given = f"{evidence.episode.request}\n{evidence.seen}"
    known = {*recorded, *(_minutes(match) for match in _TIME.finditer(given))}
    lengths = {int(minutes) for minutes in _DURATION.findall(f"{given}\n{speech.text}")}
    for match in said:
        minutes = _minutes(match)
        is_shifted = any(abs(minutes - other) % step == 0 for other in (zoned if step == HOUR else known))
        if is_shifted or any(_follows(minutes, other, lengths) for other in known):
            continue
        wrote = f"{int(match[1])}{match[2]}"
        for other, call in recorded.values():
            if is_slip(wrote, f"{int(other[1])}{other[2]}") and other[0] not in speech.text:
                stance = next(one for one in speech.stances if one.statement.start <= match.start())
                yield _contradicted(text, stance, match.start(), match.end(), other[0], call)
                break


def _follows(minutes: int, other: int, lengths: set[int]) -> bool:
    """Return whether a time is another one, on a clock of 12 hours, or some recorded minutes before or after."""
    difference = abs(minutes - other)
    return difference % (MAX_MINUTES // 2) == 0 or difference in lengths or MAX_MINUTES - difference in lengths


def _changes(text: EpisodeText, speech: Speech, evidence: Evidence) -> Iterator[CheckedClaim]:
    """Yield the percentages and factors beside two recorded numbers that cannot be computed from these."""
    for stance in speech.stances:
        values = [value for value in speech.values_of(stance) if value.kind == "number"]
        if (
            stance.is_plan
            or stance.is_question
            or not MIN_TOGETHER <= len(values) <= MAX_TOGETHER
            or stance.statement.cells
        ):
            continue
        for value in values:
            is_factor = _FACTOR.match(speech.text, value.end) is not None
            if value.unit != "%" and not is_factor:
                continue
            ends = [one for one in values if one is not value and one.unit != "%"]
            if len(ends) != 2 or ends[0].unit != ends[1].unit or not all(map(evidence.states, ends)):
                continue
            if evidence.outputs.states(value) or evidence.requested.states(value):
                continue
            if not is_factor and evidence.supports(value) and not _is_change(speech, stance, ends, value):
                continue
            first, second = (one.number for one in ends)
            if first > 0 and second > 0 and first != second and not _agrees(value, first, second, is_factor=is_factor):
                low, high = sorted((first, second))
                expected = f"{high / low:.2g}" if is_factor else f"{100 * (second - first) / first:+.1f}%"
                yield _contradicted(text, stance, value.start, value.end, expected, None)


def _is_change(speech: Speech, stance: Stance, ends: list[Value], value: Value) -> bool:
    """Return whether a percentage is said to be the change from one number to the other."""
    between = speech.lowered[ends[0].end : ends[1].start]
    behind = speech.lowered[ends[1].end : value.start]
    if not 0 < value.start - ends[1].end <= MAX_BEHIND or not _TO.search(between):
        return False
    return value.text[:1] in "+-−" or "(" in behind or _CHANGE.search(behind) is not None


MAX_BEHIND = 40
"""Maximum number of characters between the end of a change and how large it is."""
_TO = re.compile(r"→|->|\b(?:to|auf|a|à|para|naar|na|do|до|na)\b|から|到|至|에서|إلى|['’]?(?:e|a|ye|ya)\b")
_CHANGE = re.compile(
    r"\b(?:increas|decreas|ris|rose|grow|grew|growth|drop|fell|fall|declin|up\b|down\b|chang|gain|loss|improv|anstieg|steiger"
    r"|zuwachs|rückgang|wachs|veränder|plus|minus|aument|subid|increment|caíd|disminu|hausse|baisse|augment|diminu|alta\b"
    r"|queda|cresc|calo|stijg|daling|wzrost|spadek|рост|сниж|увелич|паден|artış|düşüş|azal)|增|减|減|涨|升|降|증가|감소|زياد|انخفاض"
)
"""Words for a change, in the languages that the answers are read in."""
MIN_TOGETHER = 3
MAX_TOGETHER = 4
"""Numbers of a statement about one change: both ends and the change, and maybe one more."""


def _agrees(value: Value, first: float, second: float, *, is_factor: bool) -> bool:
    low, high = sorted((first, second))
    claimed = abs(value.number)
    if is_factor:
        return any(abs(claimed - each) <= max(0.1, 0.06 * each) for each in (high / low, high / low - 1))
    shares = (high / low - 1, 1 - low / high, low / high, high / low, low / (low + high), high / (low + high))
    return any(abs(claimed - 100 * each) <= max(SLACK, 6 * each) for each in shares)


def _rows(text: EpisodeText, speech: Speech, evidence: Evidence) -> Iterator[CheckedClaim]:
    """Yield the claims that all of so many rows were changed, while fewer were."""
    claimed = [stance for stance in speech.stances if stance.is_good_news and speech.has(stance, "totality")]
    if not any(map(speech.values_of, claimed)):
        return
    changed = [
        (int(found[1] or found[2]), call)
        for call in evidence.episode.calls
        if call.has_effect and any(map(call.text.__contains__, _ROW_SIGNS))
        for found in _ROWS.finditer(call.text)
    ]
    if not changed:
        return
    most, call = max(changed, key=lambda pair: pair[0])
    total = sum(count for count, _ in changed)
    for stance in claimed:
        for value in speech.values_of(stance):
            is_more = value.kind == "number" and value.decimals == 0 and value.number > total and len(value.digits) > 1
            if is_more and any(value.text.replace(",", "") in each.numbers for each in evidence.calls):
                yield _contradicted(text, stance, value.start, value.end, f"{most} changed rows", call)


def _contradicted(
    text: EpisodeText, stance: Stance, start: int, end: int, recorded: str, call: EpisodeCall | None
) -> CheckedClaim:
    said = excerpt(stance.statement.text, 100)
    value = excerpt(text.text[start:end], 30)
    source = f"{call.name} printed {excerpt(recorded, 30)}" if call else f"the numbers beside it give {recorded}"
    return CheckedClaim(
        text=text,
        start=start,
        end=end,
        kind="value",
        status="contradicted",
        reason=source,
        calls=[call] if call is not None else [],
        problem=Problem(
            type=TYPE,
            about=("derived",),
            severity="high",
            confidence=75,
            title=f"Reported {value}, but {source}",
            explanation=f"The text says “{said}”. {value} neither was recorded nor follows from the recording.",
            recommendation="Have the agent recompute what it derives from an output before it reports it.",
        ),
    )
