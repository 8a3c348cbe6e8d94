"""Only some of several items were dealt with, and the agent speaks of all of them."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.destinations.item_lists import (
    BULK,
    MAX_ITEMS,
    MIN_ITEMS,
    Items,
    is_named_by,
    requested_items,
    shown_items,
    stem_of,
)
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import word_numbers
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"


def check_completeness(episode: Episode) -> list[CheckedClaim]:
    """Return the claims about all of several items of which some were left out."""
    answer = episode.answer
    if answer is None or len(episode.calls) < 2 or not _may_be_complete(episode.speech(answer)):
        return []
    for items in (*requested_items(episode), *shown_items(episode)):
        missing, calls = _missing(episode, items)
        if not missing:
            continue
        claim = _complete_claim(episode.speech(answer), items, missing)
        if claim is not None:
            return [_incomplete(answer, claim, items, missing, calls)]
    return []


def _may_be_complete(speech: Speech) -> bool:
    """Return whether a text can speak of all of several items: it says so, or gives a small number."""
    if speech.mentions("totality"):
        return True
    numbers = [*speech.values, *word_numbers(speech.text, speech.language)]
    return any(MIN_ITEMS <= value.number <= MAX_ITEMS for value in numbers if value.readings and value.decimals == 0)


def _missing(episode: Episode, items: Items) -> tuple[list[str], list[EpisodeCall]]:
    """Return the items that no later call names although the same tool was called for others, and those calls."""
    later = [call for call in episode.calls if call.order > items.order and call.meaning.state != "failure"]
    by_tool: dict[str, list[EpisodeCall]] = {}
    for call in later:
        by_tool.setdefault(call.tool, []).append(call)
    best: tuple[list[str], list[EpisodeCall]] = ([], [])
    most = 0
    for calls in by_tool.values():
        touched = {name for name in items.names for call in calls if is_named_by(call, name)}
        if not 1 <= len(touched) < len(items.names) or (len(touched) == 1 and len(items.names) > 4):
            continue
        with_effect = any(call.has_effect for call in calls)
        comparable = [call for call in later if call.has_effect] if with_effect else later
        if any(BULK.search(call.line) for call in comparable):
            continue
        missing = [name for name in items.names if not any(is_named_by(call, name) for call in comparable)]
        if missing and len(touched) > most:
            best, most = (missing, calls), len(touched)
    return best


def _complete_claim(speech: Speech, items: Items, missing: list[str]) -> Stance | None:
    """Return the statement that speaks of all items, unless the missing ones are admitted."""
    count = float(len(items.names))
    text = speech.text.lower()
    for stance in speech.stances:
        if (stance.is_bad_news or stance.is_limited) and any(
            name.lower().split(".")[0] in stance.lowered for name in missing
        ):
            return None
    for stance in speech.stances:
        if not stance.is_asserted or (stance.is_bad_news and not _names_before_bad_news(speech, stance, missing)):
            continue
        values = [*speech.values_of(stance), *word_numbers(stance.statement.text, speech.language)]
        stated = {value.number for value in values if value.readings}
        if any(count - number in stated or number == count - len(missing) for number in stated if number < count):
            return None  # it says how many were dealt with, or left
        counts = count in stated
        total = speech.has(stance, "totality")
        named = sum(name.lower().split(".")[0] in text for name in missing) == len(missing)
        if counts or total or named:
            return stance
    return None


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
