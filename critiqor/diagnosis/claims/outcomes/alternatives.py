"""Other ways to the goal of a call that failed: a corrected request, another tool, another seat or time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from critiqor.diagnosis.claims.call_arguments import decoded_arguments
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.signals.errors import reports_absence
from critiqor.diagnosis.signals.text import tokens
from critiqor.diagnosis.signals.tool_calls import words_of_tool

MIN_VALUE = 3
"""Minimum number of characters of a value that two calls share because they are about the same thing."""
MIN_CLAUSE = 3
"""Minimum number of further words of a clause that says something about a value instead of listing it."""
MAX_VALUE = 200
MAX_ERROR = 2_000
"""Maximum number of characters of an answer in which the reason for a failure is searched."""
_MISUSED = re.compile(
    r"\b(?:tool|function|method|action|service)\b[^\n]{0,60}\b(?:not found|unknown|not exist|not available|unsupported)"
    r"|\b(?:unknown|no such|invalid|unrecogni[sz]ed|unsupported|undefined) (?:tool|function|method|action|service"
    r"|arguments?|param\w*|options?|fields?|keys?|format|property|properties|keyword|type|date|time|timestamp|unit|enum)"
    r"|did you mean|must be (?:an? |one of|in |of |iso|given|provided|specified|between|numeric|set)"
    r"|\bmissing (?:required |mandatory )?(?:arguments?|param\w*|fields?|property|properties|key)"
    r"|(?:argument|param\w*|field|property|key)s? \S{1,40} (?:is |are )?(?:required|missing|invalid|unexpected)"
    r"|unexpected (?:keyword )?(?:argument|param\w*|field|key|token)|\bis required\b|expected (?:format|type|one of)"
    r"|schema validation|validation ?error|\b(?:400|422)\b[: ]|bad request|unprocessable",
    re.IGNORECASE,
)
"""Answers to a request that was not understood: nothing was tried yet."""
_WHO = re.compile(
    r"(?:^|_)(?:to|cc|bcc|from|recipients?|e?mail|user\w*|contact|phone|guests?|attendees?|members?|people|names?|channel"
    r"|path|file\w*|id|ids|field|key|item|sku|product|account|iban|host|server|branch|repo\w*|ticket|order|invoice)$"
)
"""Arguments that say what a call is about, not how or when: another one is another thing."""
_MOMENT = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d-\d\d")
_VERBS = (
    "create add insert new make open register",
    "edit update modify set change patch put adjust override configure replace",
    "send post mail message email notify reply sms forward publish share",
    "delete remove cancel drop revoke clear",
    "book reserve order buy purchase checkin hold",
    "upload import load store save write copy sync",
    "deploy release rollout start restart launch run",
    "pay charge transfer refund",
    "lock close shut",
    "schedule remind timer alarm plan",
)
_CLASSES = {word: number for number, words in enumerate(_VERBS) for word in words.split()}


def corrects(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call is the alternative form of a request that was not understood: its result counts."""
    if call.line or call.meaning.state != "failure" or not (later.has_effect and later.has_result):
        return False
    if later.tool != call.tool:
        is_another_form = later.tool in call.text or (_is_same_deed(later, call) and bool(_shared(later, call)))
        if not is_another_form and call.tool in call.text:
            # A tool that does not exist was meant to do what another one did: they speak of the same.
            is_another_form = len(_spoken(later) & _spoken(call)) >= MIN_SPOKEN
    else:
        differences = _differences(later, call)
        is_another_form = bool(_shared(later, call)) and not any(_is_who(*one) for one in differences)
    return is_another_form and _MISUSED.search(call.text[:MAX_ERROR]) is not None


def _spoken(call: EpisodeCall) -> set[str]:
    """Return the words in the name and the arguments of a call."""
    return set(_WORD.findall(f"{call.tool} {call.arguments[:MAX_ERROR]}".lower()))


_WORD = re.compile(r"[^\W\d_]{3,}|\d{2,}")
MIN_SPOKEN = 2
"""Minimum number of words that two calls share which are meant to do the same."""


def reaches_same(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether another tool was an alternative to a call that failed: the same deed with the same thing."""
    if call.line or later.line or later.tool == call.tool or later.meaning.state not in ("success", "unknown"):
        return False
    if not (later.has_effect and later.has_result) or not _is_same_deed(later, call):
        return False
    names = {value for value in _shared(later, call) if not value.isdigit()}
    return bool(names)


def is_reported_instead(episode: Episode, call: EpisodeCall, answer: EpisodeText) -> bool:
    """Return whether an answer reports what was reached instead of what failed: seat 17F, because 11A was gone."""
    if call.line or call.meaning.items:
        return False
    for later in episode.calls:
        is_other = later.order > call.order and later.tool == call.tool and later.has_result
        if is_other and later.meaning.state in ("success", "unknown") and _shared(later, call):
            differences = list(_differences(later, call))
            if differences and all(
                _is_told(episode, answer, *one) or _is_spelling(call, *one[1:]) for one in differences
            ):
                return True
    return False


def _is_told(episode: Episode, answer: EpisodeText, name: str, failed: str, reached: str) -> bool:
    """Return whether an answer names the value that was reached, and does not claim the one that failed."""
    old, new = _marks(failed, reached), _marks(reached, failed)
    speech = episode.speech(answer)
    said = tokens(speech.lowered)
    if not new & said:
        return False
    if not old & said:
        return not (_WHO.search(name) and old & tokens(episode.request))
    for stance in speech.stances:
        for clause in speech.clauses(stance):
            words = tokens(clause.lowered)
            if words & old and (words & new or len(words - old - small_words()) < MIN_CLAUSE):
                return False
    return True


def _is_spelling(call: EpisodeCall, failed: str, reached: str) -> bool:
    """Return whether the later value is the right spelling of one that does not exist: `releases` for `release`."""
    if not reports_absence(call.text[:MAX_ERROR].replace("_", " ")):
        return False
    return SequenceMatcher(None, failed[:MAX_SPELLING], reached[:MAX_SPELLING]).ratio() >= MIN_SPELLING


MIN_SPELLING = 0.8
"""Minimum likeness of two spellings of a name."""
MAX_SPELLING = 60


def _marks(value: str, other: str) -> set[str]:
    """Return the words of a value that another one does not have."""
    return tokens(value) - tokens(other)


def _is_same_deed(one: EpisodeCall, other: EpisodeCall) -> bool:
    first, second = _deeds(one), _deeds(other)
    return bool(first & second)


def _deeds(call: EpisodeCall) -> set[int]:
    return {_CLASSES[word] for word in words_of_tool(call.tool) if word in _CLASSES}


def _shared(one: EpisodeCall, other: EpisodeCall) -> set[str]:
    """Return the values that two calls have in common, whatever they are called."""
    return set(_values(one)) & set(_values(other))


def _values(call: EpisodeCall) -> Iterator[str]:
    waiting: list[object] = [decoded_arguments(call.arguments) or {}]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one[:MAX_VALUE]
        elif isinstance(one, str) and MIN_VALUE <= len(one) <= MAX_VALUE:
            yield one.lower()
        elif isinstance(one, int | float) and not isinstance(one, bool) and abs(one) >= MIN_NUMBER:
            yield f"{one:g}"


MIN_NUMBER = 10
"""Minimum of a number that two calls do not share by chance."""


def _differences(later: EpisodeCall, call: EpisodeCall) -> Iterator[tuple[str, str, str]]:
    """Yield the arguments with another value: their name, the value that failed, and the later one."""
    first, second = decoded_arguments(call.arguments) or {}, decoded_arguments(later.arguments) or {}
    for name in first.keys() & second.keys():
        if first[name] != second[name]:
            yield name.lower(), str(first[name])[:MAX_VALUE].lower(), str(second[name])[:MAX_VALUE].lower()


def _is_who(name: str, failed: str, reached: str) -> bool:
    return _WHO.search(name) is not None and not _MOMENT.search(failed) and not _MOMENT.search(reached)
