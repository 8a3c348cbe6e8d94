"""Memory that is looked up without the words of the question, asked for again, or acted against."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.call_arguments import members, path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import language_of, normalize
from critiqor.diagnosis.claims.values import values_in, word_numbers
from critiqor.diagnosis.conduct.forgotten_prohibitions import MAX_CLAUSES, MAX_COMPARED, names_of
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import content_stems, requests, says
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.signals.text import decode_json
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind
from critiqor.spans.memory_lookups import memory_lookup

_PROPER = re.compile(r"(?<=[\s\"'“„«])[^\W\d_a-zа-я][^\W_]{2,}(?:[ -][^\W\d_a-zа-я][^\W_]+)*")
_CLOCK = re.compile(r"(?<![\d:.-])([01]?\d|2[0-3]):([0-5]\d)(?![\d:])")
_STATEMENT = re.compile(r"(?<=[.!?;])\s+|\\n|\n|[。！？；]|\",\s?\"")

TYPE = "memory_failure"
MIN_VAGUE = 3
"""Minimum number of lookups that found nothing, none of them with a word of the request."""
MIN_ASKED_AGAIN = 2
"""Minimum number of parts of a question that are answered already."""
MAX_KNOWN = 8_000
"""Maximum number of characters of a text in which answers are looked for."""
_TOOL = re.compile(r"memory|recall|remember", re.IGNORECASE)
_FILE = re.compile(r"(?:^|/)(?:memory/|MEMORY\.md$|USER\.md$|preferences\.\w+$)")
_PART = re.compile(r"[,;，、；]|\s(?:and|und|y|e|et|en|i|и|ve)\s")
_TIME = re.compile(r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?![\d:])")
_CHOICE = re.compile(r"\b(?:or|oder|ou|of|albo|или|veya)\b|还是|それとも|아니면|أم", re.IGNORECASE)


def _reads_memory(call: EpisodeCall) -> bool:
    """Return whether a call looks something up in the agent's memory."""
    if call.has_effect:
        return False
    return _TOOL.search(call.tool) is not None or _FILE.search(path_of(call)) is not None


def _memory_text(call: EpisodeCall) -> str:
    """Return what a memory lookup found."""
    return call.text.replace('\\"', '"')


def find_vague_lookups(episode: Episode) -> list[Lapse]:
    """Return lookups that found nothing, and that never used the words of what the user asked for."""
    lookups = [call for call in episode.calls if _TOOL.search(call.tool) and _query(call)]
    empty = [call for call in lookups if _found_nothing(call)]
    wanted = content_stems(requests(episode))
    if len(empty) < MIN_VAGUE or len(empty) < len(lookups) or not wanted:
        return []
    if any(content_stems(_query(call)) & wanted for call in empty):
        return []
    queries = ", ".join(f"“{excerpt(_query(call), 40)}”" for call in empty[:4])
    return [
        Lapse(
            type=TYPE,
            about=("vague",),
            confidence=75,
            title=f"{counted(len(empty), 'memory lookup')} found nothing, and none used the words of the request",
            explanation=f"Queries: {queries}. The user asked: “{excerpt(requests(episode), 100)}”",
            recommendation="Instruct the agent to search its memory with the names and things of the question.",
            verification="Run the same task again: the queries contain words of the request.",
            causes=[(empty[0].result_id, "The first lookup found nothing")],
            event_id=empty[1].call_id,
            happened="Looked up again without the words of the request",
            calls=empty,
        )
    ]


def _query(call: EpisodeCall) -> str:
    return next((value for name, value in members(call) if name in ("query", "q", "text", "question")), "")


def _found_nothing(call: EpisodeCall) -> bool:
    try:
        result = decode_json(call.text)
    except msgspec.DecodeError:
        result = call.text
    outcome = memory_lookup({}, result, has_ended=True, failed=call.reported_failure)["lookup"]
    return outcome == "empty"


def find_repeated_questions(episode: Episode) -> list[Lapse]:
    """Return that the agent asks the user for what the user or its memory has said already."""
    answer = episode.answer
    if answer is None or not episode.requests or not any(mark in answer.text for mark in "?？؟"):
        return []
    speech = episode.speech(answer)
    asked = [one for one in speech.stances if one.is_question and not says(speech.language, "asks_leave", one.lowered)]
    asked = [one for one in asked if not _CHOICE.search(one.lowered)]
    known = _known(episode)
    for stance in asked:
        parts = [part for part in _PART.split(stance.lowered) if part.strip()]
        sources = [source for part in parts if (source := _source(episode, part, known)) is not None]
        typed = [source for source in sources if source[1]]
        if len(sources) >= MIN_ASKED_AGAIN and typed:
            return [_asked_again(answer, stance.statement.text, typed[0][0])]
    return []


class _Known:
    """A text that the agent knows, with the event that it came from."""

    def __init__(self, event_id: str, text: str) -> None:
        self.event_id = event_id
        self.text = text[:MAX_KNOWN]
        self.stems = content_stems(self.text)
        language = language_of(self.text)
        values = values_in(self.text, language)
        self.has_date = any(value.kind == "date" for value in values)
        self.has_time = _TIME.search(self.text) is not None
        numbers = [value for value in (*values, *word_numbers(self.text, language)) if value.readings]
        self.counted = {stem for value in numbers for stem in content_stems(self.text[value.end : value.end + 20][:20])}
        """The beginnings of the words that follow a number: what was counted."""


def _known(episode: Episode) -> list[_Known]:
    texts = [(text.event_id, text.text) for each in (episode, *episode.earlier) for text in each.requests]
    texts += [(call.result_id, _memory_text(call)) for call in episode.calls if _reads_memory(call)]
    return [_Known(event_id, text) for event_id, text in texts if text.strip()]


def _source(episode: Episode, part: str, known: list[_Known]) -> tuple[str, bool] | None:
    """Return where a part of a question is answered, and whether a value of the kind that it asks for is there."""
    language = episode.language
    stems = content_stems(part)
    for one in known:
        if says(language, "ask_date", part) and one.has_date and not values_in(part, language):
            return one.event_id, True
        if says(language, "ask_time", part) and one.has_time and not _TIME.search(part):
            return one.event_id, True
        if says(language, "ask_count", part) and stems & one.counted:
            return one.event_id, True
    for one in known:
        if stems & one.stems and not says(language, "ask_count", part):
            return one.event_id, False
    return None


def _asked_again(answer: EpisodeText, question: str, source: str) -> Lapse:
    return Lapse(
        type=TYPE,
        about=("asked again",),
        confidence=65,
        title="The agent asked the user for what it had been given already",
        explanation=f"The agent asked: “{excerpt(question, 160)}”",
        recommendation="Have the agent read the conversation and its memories before it asks the user.",
        verification="Run the same task again: the agent asks only for what nobody has said.",
        causes=[(source, "It was said here")],
        event_id=answer.event_id,
        happened="The agent asked for it again",
    )


def find_contradicted_memories(episode: Episode) -> list[Lapse]:
    """Return actions that do what a memory found before advises against."""
    lookups = [call for call in episode.calls if _reads_memory(call) and call.meaning.state != "failure"]
    if not lookups:
        return []
    acting = [call for call in episode.calls if call.kind is Kind.ACTION and call.order > lookups[0].order]
    for call in acting[:MAX_COMPARED]:
        if call.meaning.state == "failure":
            continue
        for lookup in lookups:
            if lookup.order < call.order and (noted := _contradicts(episode, lookup, call)) is not None:
                return [_contradicted(lookup, call, noted)]
    return []


def _contradicts(episode: Episode, lookup: EpisodeCall, call: EpisodeCall) -> str | None:
    """Return the note in a memory that an action contradicts."""
    request = normalize(episode.request)
    for statement in _STATEMENT.split(_memory_text(lookup))[:MAX_CLAUSES]:
        if not words("forbid").within(statement):
            continue
        lowered = normalize(statement)
        names = _names_in(statement, call.line) if call.line else names_of(episode, call)
        named = [name for name in names if name in lowered and name not in request]
        if any(_is_proper(statement, lowered, name) for name in named) or _is_out_of_time(statement, call):
            return statement.strip()
    return None


def _names_in(statement: str, line: str) -> list[str]:
    """Return the names of a statement that a command line contains, in lower case."""
    lowered = normalize(line)
    names = [normalize(match[0]) for match in _PROPER.finditer(statement, 1)]
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lowered)]


def _is_proper(statement: str, lowered: str, name: str) -> bool:
    """Return whether a statement names something in particular: capital letters, quotes or another script."""
    at = lowered.find(name)
    written = statement[at : at + len(name)]
    return any(char.isupper() or char.isdigit() for char in written) or not written.isascii()


def _is_out_of_time(statement: str, call: EpisodeCall) -> bool:
    """Return whether every time of an action is on the wrong side of a time in a statement."""
    limit = _CLOCK.search(statement)
    if limit is None:
        return False
    times = [_minutes(one) for one in _CLOCK.finditer(f"{call.arguments}\n{call.text}")]
    if not times:
        return False
    language = language_of(statement)
    bound = _minutes(limit)
    if says(language, "before", statement):
        return max(times) < bound
    return says(language, "after", statement) and min(times) > bound


def _minutes(time: re.Match[str]) -> int:
    return int(time[1]) * 60 + int(time[2])


def _contradicted(lookup: EpisodeCall, call: EpisodeCall, noted: str) -> Lapse:
    said = excerpt(noted, 100)
    return Lapse(
        type="memory_failure",
        about=("contradicted",),
        severity="high",
        confidence=70,
        title=f"The agent acted against what its memory says: {said}",
        explanation=f"{call.name} was called after the memory had been found: {excerpt(call.arguments, 120)}",
        recommendation="Have the agent check an action against the memories that it has found before it acts.",
        verification="Run the same task again: the action agrees with what is noted.",
        causes=[(lookup.result_id, f"Memory says: {said}")],
        event_id=call.call_id,
        happened="The agent did the opposite",
        calls=[call],
    )
