"""The agent deals with some of several items or questions, and stops without a word about the others."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from critiqor.diagnosis.claims.checks.completeness import (
    BULK,
    Items,
    is_named_by,
    requested_items,
    shown_items,
    stem_of,
)
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.claims.values import values_in, word_numbers
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.stops import only_urges, stop
from critiqor.diagnosis.conduct.wording import content_stems, request_language, requests, says
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

MIN_LEFT_OUT = 1 / 3
"""Minimum share of items that are left out: a single one of many may have been dealt with in another way."""
MAX_LISTS = 8
"""Maximum number of lists of items that are compared with the calls."""
MIN_QUESTIONS = 2
MAX_QUESTIONS = 12
"""Minimum and maximum number of questions of a request that are looked up in the answer one by one."""
_FOLDER = re.compile(r"(?<![\w.~-])[\w.~-]*/[\w./~-]*")
_NUMBERED = re.compile(r"(?:^|[\s(:])\(?(\d{1,2}|[a-h])[.):]\)?\s+(?=\S)")
_QUESTION = re.compile(r"[^.!?？؟。\n]{6,}+[?？؟]")
_ENUMERATED = re.compile(r"[,;，、；]|\s[–—-]\s")


def find_leftovers(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return the items or questions that an agent left out without a word."""
    if episode.following is not None and not only_urges(episode.following):
        return None
    return _items_left_out(episode, answer) or _questions_left_out(episode, answer)


def _items_left_out(episode: Episode, answer: EpisodeText) -> Lapse | None:
    speech = episode.speech(answer)
    stated = [stance for stance in speech.stances if not stance.is_question]
    if any(stance.is_bad_news for stance in stated):
        return None
    if any(stance.is_limited for stance in stated) and not _asks_to_go_on(episode, speech):
        return None
    lowered = answer.text.lower()
    for items in islice(_lists(episode), MAX_LISTS):
        missing = _missing(episode, items)
        if len(missing) < MIN_LEFT_OUT * len(items.names) or any(stem_of(name) in lowered for name in missing):
            continue
        names = ", ".join(excerpt(name, 40) for name in missing[:3]) + (" …" if len(missing) > 3 else "")
        done = len(items.names) - len(missing)
        title = f"The agent dealt with {done} of {counted(len(items.names), 'item')}, and stopped"
        why = f"No recorded call deals with {names}, and the answer is silent about it."
        lapse = stop(episode, answer, "items", title, why)
        lapse.calls += [items.call] if items.call is not None else []
        return lapse
    return None


def _asks_to_go_on(episode: Episode, speech: Speech) -> bool:
    """Return whether the agent stopped in the middle to ask for leave, although everything was wanted."""
    language = request_language(episode)
    wants_all = language is not None and language.vocabulary.mentions("totality", requests(episode).lower())
    asks = any(says(speech.language, "asks_leave", stance.lowered) for stance in speech.stances)
    return asks and wants_all


def _lists(episode: Episode) -> Iterator[Items]:
    """Yield the lists of items that the user wants to have dealt with: by name, by their number, or all in a folder."""
    yield from requested_items(episode)
    request = requests(episode)
    language = request_language(episode)
    values = [*values_in(request, language), *word_numbers(request, language)]
    counts = {value.number for value in values if value.readings}
    wants_all = language is not None and language.vocabulary.mentions("totality", request.lower())
    folders = {folder.strip("./") for folder in _FOLDER.findall(request)} - {""} if wants_all else set()
    for items in shown_items(episode) if counts or folders else ():
        listed_by = items.call.arguments if items.call is not None else ""
        if len(items.names) in counts or any(folder in listed_by for folder in folders):
            yield items


def _missing(episode: Episode, items: Items) -> list[str]:
    """Return the items that no call deals with although calls of the same kind deal with others; empty if unknown."""
    later = [call for call in episode.calls if call.order > items.order and call.kind is not Kind.THOUGHT]
    if any(BULK.search(call.line) for call in later):
        return []
    acting = [call for call in later if call.has_effect]
    for calls in (acting, later):
        missing = [name for name in items.names if not any(is_named_by(call, name) for call in calls)]
        if len(missing) < len(items.names):
            return [] if _has_unnamed(calls, items) else missing
    return []


def _has_unnamed(calls: list[EpisodeCall], items: Items) -> bool:
    """Return whether calls that name no item follow those that do: they may deal with the others."""
    naming = [call for call in calls if any(is_named_by(call, name) for name in items.names)]
    tools = {call.tool for call in naming}
    return any(call.tool in tools and call.order > naming[-1].order for call in calls)


def _questions_left_out(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return questions of which the answer does not contain a word, if it is too short to answer all of them."""
    questions = _questions(requests(episode))
    speech = episode.speech(answer)
    if not MIN_QUESTIONS <= len(questions) <= MAX_QUESTIONS or len(speech.stances) >= len(questions):
        return None
    if any(stance.is_bad_news or stance.is_question or stance.is_plan for stance in speech.stances):
        return None
    said = content_stems(answer.text)
    own = [content_stems(question) for question in questions]
    common = set.intersection(*own) if own else set()
    open_ones = [question for question, words in zip(questions, own, strict=True) if not (words - common) & said]
    parts = len(_ENUMERATED.findall(answer.text)) + len(speech.stances)
    if not open_ones or len(open_ones) == len(questions) or parts >= len(questions):
        return None
    title = (
        f"The agent answered {len(questions) - len(open_ones)} of {counted(len(questions), 'question')}, and stopped"
    )
    return stop(episode, answer, "questions", title, f"Not answered: “{excerpt(open_ones[0], 120)}”")


def _questions(request: str) -> list[str]:
    """Return the questions of a request: numbered parts, or sentences with a question mark."""
    marks = list(_NUMBERED.finditer(request))
    if len(marks) >= MIN_QUESTIONS and "?" in request:
        ends = [*(mark.start() for mark in marks[1:]), len(request)]
        return [request[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return [match[0].strip() for match in _QUESTION.finditer(request)]
