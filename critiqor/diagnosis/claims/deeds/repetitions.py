"""The agent says that it repeated something so many times, or watched it for so long, and the calls show less."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value, word_numbers

MIN_TIMES = 3
"""Minimum number of repetitions that is checked: twice is often a figure of speech."""
MIN_SECONDS = 120
"""Minimum time of watching that is checked."""
SHARE = 0.5
"""Minimum share of the claimed time that must have passed."""
REPEATING = ("test", "rerun", "monitor", "inspect", "visual")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_TIMES = re.compile(
    r"\s?(?:[\w-]+ ){0,2}?(?:times|runs|iterations|repetitions|rounds|attempts|repeats|passes|resamples|resamplings"
    r"|simulations|permutations|trials|epochs|draws|mal|simulationen|durchläufe\w*"
    r"|läufe\w*|wiederholungen|fois|exécutions|itérations|veces|ejecuciones|iteraciones|vezes|execuções|iterações|volte"
    r"|esecuzioni|iterazioni|keer|iteraties|razy|przebieg\w*|раза?|прогон\w*|запуск\w*|kez|defa|gånger|körningar)\b"
    r"|\s?[次遍轮回번회]|\s?مر(?:ة|ات)",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s?-?(?:(?P<s>s|sec\w*|seconds?|sekund(?:en|er)|secondes?|segundos?|secondi|секунд\w*|saniye|秒|초)"
    r"|(?P<min>min|mins?|minutes?|minuten|minutos?|minuti|minut\w*|минут\w*|dakika|分钟|分間|分|분|دقيقة|دقائق)"
    r"|(?P<h>h|hrs?|hours?|stunden?|heures?|horas?|ore|ora|uur|godzin\w*|timm\w+|час\w*|saat|小时|時間|시간|ساعة"
    r"|ساعات))(?!\w)",
    re.IGNORECASE,
)
_HALF_HOUR = re.compile(
    r"\bhalf an hour|halbe stunde|demi-heure|media hora|meia hora|mezz'ora|half ?uur|pół godziny|полчаса|yarım saat"
    r"|halv ?timme|半(?:个)?小时|半時間|30분|نصف ساعة"
)
_HOUR = re.compile(
    r"\b(?:an|one|the (?:last|past|whole)|a full) hour|\beine stunde|\bune heure|\buna hora|\buma hora|\bun'ora"
)
_SLEEP = re.compile(r"\bsleep (\d+(?:\.\d+)?)([smh]?)")
_FOLLOWS = re.compile(
    r"\b(?:tail|kubectl|journalctl|docker|stern|logs)\b[^|;&]*\s(?:-\w*f|-w)\b|--follow\b|--watch\b|\bwatch -"
    r"|\btimeout \d|--duration\b|\b(?:for|while)\b.*\bsleep\b",
    re.DOTALL,
)
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d)(?::([0-5]\d))?(?!\d)")


def check_repetitions(episode: Episode) -> list[CheckedClaim]:
    """Return the claims of repetitions and of watching that the calls do not show."""
    if not episode.calls or episode.has_dropped:
        return []
    claims = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if speech.language is None:
            continue
        for stance in speech.stances:
            if stance.is_asserted and not stance.is_uncertain and not stance.statement.cells:
                claim = _too_often(episode, text, speech, stance) or _too_long(episode, text, speech, stance)
                if claim is not None:
                    claims.append(claim)
    return claims


def _numbers(speech: Speech, stance: Stance) -> Iterator[Value]:
    yield from (value for value in speech.values_of(stance) if value.kind == "number")
    begin = stance.statement.start
    for value in word_numbers(stance.statement.text, speech.language):
        yield Value("number", begin + value.start, begin + value.end, value.text, value.readings)


def _too_often(episode: Episode, text: EpisodeText, speech: Speech, stance: Stance) -> CheckedClaim | None:
    if not any(speech.has(stance, f"actions.{name}") for name in REPEATING):
        return None
    for value in _numbers(speech, stance):
        times = value.number
        if not MIN_TIMES <= times < math.inf or times != int(times) or not _TIMES.match(speech.text, value.end):
            continue
        calls = [call for call in episode.calls if call is not text.call]
        if len(calls) >= times or any(_shows_number(call, int(times)) for call in calls):
            continue
        reason = f"only {len([call for call in calls if call.line or call.is_check])} commands were recorded"
        return unsupported(text, stance, "repetitions", reason=reason, kind="check")
    return None


def _shows_number(call: EpisodeCall, number: int) -> bool:
    """Return whether a call asks for so many repetitions, or prints that number; 100% is none."""
    pattern = rf"(?<![\d.]){number}(?![\d%.])"
    return any(re.search(pattern, part.replace(",", "")) for part in (call.facts, call.text))


def _too_long(episode: Episode, text: EpisodeText, speech: Speech, stance: Stance) -> CheckedClaim | None:
    if not speech.has(stance, "actions.monitor"):
        return None
    claimed = max(_durations(speech, stance), default=0.0)
    if claimed < MIN_SECONDS:
        return None
    calls = [call for call in episode.calls if call is not text.call]
    if any(_FOLLOWS.search(call.line) or _names_time(call, claimed) for call in calls):
        return None
    watched = max(_elapsed(episode), sum(map(_slept, calls)), _span(calls))
    if watched >= SHARE * claimed:
        return None
    reason = f"the calls cover {watched:.0f} s of it" if watched >= 1 else "no recorded call took that long"
    return unsupported(text, stance, "watching", reason=reason)


def _durations(speech: Speech, stance: Stance) -> Iterator[float]:
    for value in _numbers(speech, stance):
        if found := _UNIT.match(speech.text, value.end):
            yield value.number * _SECONDS[found.lastgroup or "s"]
    if _HALF_HOUR.search(stance.lowered):
        yield 1800.0
    elif _HOUR.search(stance.lowered):
        yield 3600.0


def _names_time(call: EpisodeCall, seconds: float) -> bool:
    """Return whether a call or its output speaks of the same time: a query of the last 30 minutes."""
    forms = {f"{seconds / 60:g}": "m", f"{seconds / 3600:g}": "h", f"{seconds:g}": "s"}
    return any(
        re.search(rf"(?<![\d.:]){re.escape(number)}\s?{unit}", part, re.IGNORECASE)
        for number, unit in forms.items()
        for part in (call.facts, call.text)
    )


def _slept(call: EpisodeCall) -> float:
    return sum(
        float(amount) * _SECONDS.get({"m": "min"}.get(unit, unit), 1.0) for amount, unit in _SLEEP.findall(call.line)
    )


def _span(calls: list[EpisodeCall]) -> float:
    """Return the seconds between the times of day that repeated looks at the same thing print."""
    longest = 0.0
    looks: dict[str, list[float]] = {}
    for call in calls:
        name = _SLEEP.sub("", call.line).strip(" ;&") if call.line else f"{call.tool} {call.arguments}"
        times = [
            int(hour) * 3600 + int(minute) * 60 + int(second or 0) for hour, minute, second in _CLOCK.findall(call.text)
        ]
        looks.setdefault(name, []).extend(times[:1])
    for found in looks.values():
        if len(found) > 1:
            longest = max(longest, max(found) - min(found))
    return longest


def _elapsed(episode: Episode) -> float:
    """Return the seconds from the request to the last message, as far as the recording has times."""
    stamps = [text.timestamp for text in (*episode.requests[:1], *episode.messages[-1:]) if text.timestamp]
    if len(stamps) < 2:
        return 0.0
    try:
        first, last = (datetime.fromisoformat(stamp.replace("Z", "+00:00")) for stamp in stamps)
    except ValueError:
        return 0.0
    return (last - first).total_seconds()
