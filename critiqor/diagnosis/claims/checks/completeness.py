"""Only some of several items were dealt with, and the agent speaks of all of them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from critiqor.diagnosis.claims.call_arguments import MIN_LIKENESS
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.destinations.item_lists import (
    BULK,
    MAX_ITEMS,
    MAX_REQUEST,
    MIN_ITEMS,
    Items,
    is_named_by,
    requested_items,
    requested_pairs,
    shown_items,
    stem_of,
)
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import normalize, small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import word_numbers
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.diagnosis.signals.tool_calls import tool_call_likeness, words_of_tool
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"


def check_completeness(episode: Episode) -> list[CheckedClaim]:
    """Return the claims about all of several items of which some were left out."""
    answer = episode.answer
    if answer is None or not episode.calls:
        return []
    for items in requested_pairs(episode):
        missing, calls = _missing_one(episode, items)
        claim = _complete_claim(episode, episode.speech(answer), items, missing) if missing else None
        if claim is not None:
            return [_incomplete(answer, claim, items, missing, calls)]
    if len(episode.calls) < 2 or not _may_be_complete(episode.speech(answer)):
        return []
    for items in (*requested_items(episode), *shown_items(episode)):
        missing, calls = _missing(episode, items)
        if not missing or _is_seen_done(episode, items, missing) or _is_seen_after(episode, calls, missing):
            continue
        claim = _complete_claim(episode, episode.speech(answer), items, missing)
        if claim is not None:
            return [_incomplete(answer, claim, items, missing, calls)]
    return []


def _may_be_complete(speech: Speech) -> bool:
    """Return whether a text can speak of all of several items: it says so, or gives a small number."""
    if speech.mentions("totality"):
        return True
    numbers = [*speech.values, *word_numbers(speech.text, speech.language)]
    return any(MIN_ITEMS <= value.number <= MAX_ITEMS for value in numbers if value.readings and value.decimals == 0)


def _missing_one(episode: Episode, items: Items) -> tuple[list[str], list[EpisodeCall]]:
    """Return the one of a pair that appears in no call, and the calls with an effect, which all name the other."""
    effects = [call for call in episode.calls if call.has_effect]
    if not effects or episode.has_dropped or any(call.line for call in effects):
        return [], []
    for name, other in (items.names, items.names[::-1]):
        if all(is_named_by(call, other) for call in effects) and not any(
            is_named_by(call, name) or name.lower() in call.lowered for call in episode.calls
        ):
            return [name], effects
    return [], []


def _missing(episode: Episode, items: Items) -> tuple[list[str], list[EpisodeCall]]:
    """Return the items that no later call names although the same tool was called for others, and those calls."""
    later = [call for call in episode.calls if call.order > items.order and call.meaning.state != "failure"]
    by_tool: dict[str, list[EpisodeCall]] = {}
    for call in later:
        by_tool.setdefault(call.tool, []).append(call)
    best: tuple[list[str], list[EpisodeCall]] = ([], [])
    most = 0
    for calls in by_tool.values():
        touched = {name for name in items.names for call in calls if _deals_with(call, name, items)}
        if not 1 <= len(touched) < len(items.names) or (len(touched) == 1 and len(items.names) > 4):
            continue
        with_effect = any(call.has_effect for call in calls)
        comparable = [call for call in later if call.has_effect] if with_effect else later
        if any(BULK.search(_PATHS.sub("", call.line)) for call in comparable):
            continue
        missing = [name for name in items.names if not any(_deals_with(call, name, items) for call in comparable)]
        if missing and len(touched) > most:
            best, most = (missing, calls), len(touched)
    return best


_PATHS = re.compile(r"(?<![\w'\"])[\w.-]*(?:/[\w.-]*)*\*[\w.*/-]*")
"""Patterns of files: which of them a command deals with is known."""


def _deals_with(call: EpisodeCall, name: str, items: Items) -> bool:
    """Return whether a call names an item, a pattern of it does, or the output of an effect shows it."""
    if is_named_by(call, name) or any(is_named_by(call, form) for form in items.forms.get(name, ())):
        return True
    if "*" in call.line and any(fnmatchcase(name, pattern.lstrip("./")) for pattern in _PATHS.findall(call.line)):
        return True
    return call.has_effect and name.lower() in call.lowered


def _is_seen_done(episode: Episode, items: Items, missing: list[str]) -> bool:
    """Return whether a later look at the same list no longer shows the missing items."""
    if items.call is None:
        return False
    for call in episode.calls:
        is_again = call.order > items.order and call.tool == items.call.tool and not call.has_effect
        if is_again and tool_call_likeness(call.arguments, items.call.arguments) >= MIN_LIKENESS:
            return not any(name.lower() in call.lowered for name in missing)
    return False


def _is_seen_after(episode: Episode, calls: list[EpisodeCall], missing: list[str]) -> bool:
    """Return whether a look after the last deed shows the missing items: a claim about their state has that reason."""
    if not calls[-1].has_effect:
        return False
    looks = [call for call in episode.calls if call.order > calls[-1].order and not call.has_effect]
    return any(all(name.lower() in look.lowered for name in missing) for look in looks)


def _complete_claim(episode: Episode, speech: Speech, items: Items, missing: list[str]) -> Stance | None:
    """Return the statement that speaks of all items, unless the missing ones are admitted."""
    count = float(len(items.names))
    text, request = speech.text.lower(), episode.request.lower()
    for stance in speech.stances:
        if (stance.is_bad_news or stance.is_limited) and any(
            name.lower().split(".")[0] in stance.lowered for name in missing
        ):
            return None
    for stance in speech.stances:
        is_news = stance.is_bad_news and not _speaks_of_all_first(speech, stance)
        if not stance.is_asserted or (is_news and not _names_before_bad_news(speech, stance, missing)):
            continue
        values = [*speech.values_of(stance), *word_numbers(stance.statement.text, speech.language)]
        stated = {value.number for value in values if value.readings}
        fewer = [number for number in stated if 0 < number < count]
        if any(count - number in stated or number == count - len(missing) or count in stated for number in fewer):
            return None  # it says how many were dealt with, or left: 6 of 8
        counts = count in stated
        is_asked = items.call is None or any(name.lower() in request for name in missing)
        total = speech.has(stance, "totality") and (is_asked or concerns(episode, stance, items.call))
        named = sum(name.lower().split(".")[0] in text for name in missing) == len(missing)
        if counts or total or named:
            return stance
    return None


def concerns(episode: Episode, stance: Stance, call: EpisodeCall | None) -> bool:
    """Return whether a claim of completeness can be about what a call listed, or the user asked for everything."""
    asked = episode.request_language
    if asked is not None and asked.vocabulary.mentions("totality", normalize(episode.request[:MAX_REQUEST])):
        return True
    said = {word for word in tokens(stance.lowered) if len(word) >= MIN_WORD} - small_words()
    return call is not None and bool(stems(said) & (stems(call.words) | stems(set(words_of_tool(call.tool)))))


MIN_WORD = 4
"""Minimum number of letters of a word that a statement and a call share."""


def _speaks_of_all_first(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement speaks of all before any bad news: `I read all of them, and none has it`."""
    ends = [stance.lowered.find(word) + len(word) for word in speech.words(stance, "totality")]
    return bool(ends) and speech.part(stance, min(ends)).is_good_news


def _names_before_bad_news(speech: Speech, stance: Stance, missing: list[str]) -> bool:
    """Return whether all missing items are named before any bad news: `I read a, b and c, and there is no error`."""
    ends = [stance.lowered.find(stem_of(name)) for name in missing]
    if min(ends, default=-1) < 0:
        return False
    end = max(at + len(stem_of(name)) for at, name in zip(ends, missing, strict=True))
    return speech.part(stance, end).is_good_news


def _incomplete(
    answer: EpisodeText, stance: Stance, items: Items, missing: list[str], calls: list[EpisodeCall]
) -> CheckedClaim:
    names = ", ".join(excerpt(name, 40) for name in missing[:3]) + (" …" if len(missing) > 3 else "")
    said = excerpt(stance.statement.text, 100)
    decide = [items.call] if items.call is not None else []
    return CheckedClaim(
        text=answer,
        start=stance.statement.start,
        end=stance.statement.end,
        kind="completeness",
        status="contradicted",
        reason=f"no call deals with {names}",
        calls=[*decide, *calls[-1:]],
        problem=Problem(
            type=TYPE,
            about=("completeness",),
            severity="high",
            confidence=70,
            title=f"Reported all of {counted(len(items.names), 'item')}, but {len(missing)} were left out: {names}",
            explanation=f"The answer says “{said}”, but no recorded call names {names}.",
            recommendation="Have the agent work through the whole list, or name what it left out.",
        ),
    )
