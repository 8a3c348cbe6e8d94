"""Memory that is asked for again, or acted against."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re
from collections.abc import Sequence

from critiqor.diagnosis.claims.call_arguments import path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import language_of, normalize
from critiqor.diagnosis.claims.speech import Stance
from critiqor.diagnosis.claims.values import values_in, word_numbers
from critiqor.diagnosis.conduct.exclusions import contains_excluded, excluded_in
from critiqor.diagnosis.conduct.forgotten_prohibitions import MAX_CLAUSES, MAX_COMPARED, names_of
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import MAX_REQUEST, content_stems, says
from critiqor.diagnosis.hazards.words import words
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

_PROPER = re.compile(r"(?<=[\s\"'“„«])[^\W\d_a-zа-я][^\W_]{2,}(?:[ -][^\W\d_a-zа-я][^\W_]+)*")
_CLOCK = re.compile(r"(?<![\d:.-])([01]?\d|2[0-3]):([0-5]\d)(?![\d:])")
_STATEMENT = re.compile(r"(?<=[.!?;])\s+|\\n|\n|[。！？；]|\",\s?\"")

TYPE = "memory_failure"
MIN_ASKED_AGAIN = 2
"""Minimum number of parts of a question that are answered already."""
MAX_KNOWN = 8_000
"""Maximum number of characters of a text in which answers are looked for."""
_TOOL = re.compile(r"memory|recall|remember", re.IGNORECASE)
_FILE = re.compile(r"(?:^|/)(?:memory/|MEMORY\.md$|USER\.md$|preferences\.\w+$)")
_NOTED_VALUE = re.compile(r"(?<![\w/.:])(?=[\w@.+/-]*\d)[\w@.+/-]{2,40}\w|[\w.+-]+@[\w.-]+\w")
"""A number, a code or an address in an entry of a memory."""
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


def find_repeated_questions(episode: Episode) -> list[Lapse]:
    """Return that the agent asks the user for what the user or its memory has said already."""
    answer = episode.answer
    if answer is None or not episode.requests:
        return []
    reply = _objection(episode)
    if reply is None and not any(mark in answer.text for mark in "?？؟"):
        return []
    speech = episode.speech(answer)
    asked = [one for one in speech.stances if one.is_question and not says(speech.language, "asks_leave", one.lowered)]
    conditions = [one for one in speech.stances if says(speech.language, "conditions", one.lowered)] if reply else []
    open_ones = [one for one in asked or conditions if not _is_explained(one, speech.stances)]
    if open_ones and reply is not None:
        return [_asked_again(answer, open_ones[0].statement.text, reply)]
    known = _known(episode)
    for stance in speech.stances:
        given = (_given(stance.statement.text, known) or _noted(episode, stance)) if stance.is_question else None
        if given is not None:
            return [_asked_again(answer, stance.statement.text, given)]
    for stance in asked:
        if _CHOICE.search(stance.lowered):
            continue
        parts = [part for part in _PART.split(stance.lowered) if part.strip()]
        sources = [source for part in parts if (source := _source(episode, part, known)) is not None]
        typed = [source for source in sources if source[1]]
        if len(sources) >= MIN_ASKED_AGAIN and typed:
            return [_asked_again(answer, stance.statement.text, typed[0][0])]
    return []


def find_forgotten_statements(episode: Episode) -> list[Lapse]:
    """Return that the user asks for what they have said before, and the answer says that it is not known."""
    answer = episode.answer
    if answer is None or not episode.earlier or not any(mark in episode.request for mark in "?？؟"):
        return []
    if not all(map(_reads_memory, episode.calls)):
        return []  # what it could not find or do is elsewhere
    denied = content_stems(" ".join(one.lowered for one in episode.speech(answer).stances if one.is_bad_news))
    asked, answered = content_stems(episode.request) & denied, normalize(answer.text)
    for each in episode.earlier:
        for text in each.requests:
            said = text.text[:MAX_REQUEST]
            if any(mark in said for mark in "?？؟") or len(asked & content_stems(said)) < MIN_ASKED_AGAIN:
                continue
            values = {value.lower() for value in (*_NOTED_VALUE.findall(said), *_PROPER.findall(said))}
            values = {value for value in values if value not in normalize(episode.request)}
            if values and not any(value in answered for value in values):
                return [_asked_again(answer, episode.request, text.event_id)]
    return []


def _noted(episode: Episode, question: Stance) -> str | None:
    """Return the memory whose entries answer a question: they have its words that are not in the request, and values.

    A question that contains a value of the entry wants it confirmed.
    """
    wanted = content_stems(question.lowered) - content_stems(episode.request)
    for call in episode.calls:
        if not _reads_memory(call) or len(wanted) < MIN_ASKED_AGAIN:
            continue
        for entry in _memory_text(call).splitlines():
            values = _NOTED_VALUE.findall(entry)
            if len(wanted & content_stems(entry)) >= MIN_ASKED_AGAIN and values:
                is_confirmed = any(value.lower() in question.lowered for value in values)
                return None if is_confirmed else call.result_id
    return None


def _is_explained(question: Stance, stances: Sequence[Stance]) -> bool:
    """Return whether a question offers a choice that the same message explains: what was wanted is not possible."""
    if not _CHOICE.search(question.lowered):
        return False
    stems = content_stems(question.lowered)
    stated = (content_stems(one.lowered) for one in stances if not one.is_question)
    return any(len(stems & each) >= MIN_EXPLAINED for each in stated)


def _objection(episode: Episode) -> str | None:
    """Return the next message of the user if it says that the question was answered before."""
    following = episode.following
    if following is None or not following.requests:
        return None
    reply = following.requests[0]
    is_short = len(reply.text) <= MAX_OBJECTION
    return reply.event_id if is_short and words("said_already").within(reply.text) else None


MIN_EXPLAINED = 3
"""Minimum number of words that a question has in common with a statement that explains it."""
MAX_OBJECTION = 200
"""Maximum number of characters of a message in which a user objects to a question."""
_SLOTS = {
    "slot_address": re.compile(r"[^\n]{0,24}?(?:\d{1,5}[a-z]?,?\s+\w|\w{3,}\.?\s+\d)"),
    "slot_phone": re.compile(r"[^\n\d]{0,12}\+?\d[\d ()/.-]{6,}\d"),
    "slot_email": re.compile(r"[^\n@]{0,30}[\w.+-]+@[\w-]+\.\w"),
    "slot_name": re.compile(r"\W{1,3}(?:is\s|ist\s|es\s|est\s|è\s|é\s|of\s|under\s)?[^\W\d_a-z][^\W\d_]{2,}"),
}
"""What follows the name of a thing if its value was given, by the words for the thing."""


_QUALIFIED = re.compile(
    r"\b(?:e-?mail|ip|web|mac|billing|return|wallet|second|other|another|new|his|her|their)\s$", re.I
)
_OF_ANOTHER = re.compile(
    r"\s(?:(?:mail|e-mail|ip|web|url)\b|(?:of|de|da|di|van|von|der|des|del)\s(?:the\s|la\s|le\s)?"
    r"(?:file|branch|recipient|factur|facturaç|fattura|expédi|remite|mail|correo|e-mail))",
    re.I,
)


def _is_another(question: str, start: int, end: int) -> bool:
    """Return whether a word for a thing means another one of its kind: a billing address, the name of a file."""
    return _QUALIFIED.search(question[:start]) is not None or _OF_ANOTHER.match(question, end) is not None


def _given(question: str, known: list[_Known]) -> str | None:
    """Return where something that a question asks for was given under its name: my mobile's 07700 900418."""
    for slot, value in _SLOTS.items():
        hits = [span for span in words(slot).find(question) if not _is_another(question, *span)]
        # A question that contains the value wants it confirmed.
        if not hits or any(value.match(question, end) for _, end in hits):
            continue
        if slot == "slot_name" and not any(" " in question[start:end].strip() for start, end in hits):
            continue  # the name of a file, a list, a branch
        for one in known:
            if any(value.match(one.text, end) for _, end in words(slot).find(one.text)):
                return one.event_id
    return None


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
    """Return actions that do what a memory found before, or the user, advises against."""
    acting = [call for call in episode.calls if call.kind is Kind.ACTION or (call.line and call.has_effect)]
    if not acting:
        return []
    known = [call for each in (*reversed(episode.earlier), episode) for call in each.calls]
    lookups = [call for call in known if _reads_memory(call) and call.meaning.state != "failure"]
    said = [text for each in (*reversed(episode.earlier), episode) for text in each.requests]
    wishes = [(text, found) for text in said if (found := excluded_in(text.text[:MAX_REQUEST]))]
    for call in acting[:MAX_COMPARED]:
        if call.meaning.state == "failure":
            continue
        for lookup in lookups:
            if lookup.order < call.order and (noted := _contradicts(episode, lookup, call)) is not None:
                return [_contradicted(lookup.result_id, call, noted, "its memory says")]
        for text, found in wishes if not call.line else ():  # options and paths of a command are no ingredients
            if text.order < call.order and (noted := contains_excluded(episode, call, found, set())) is not None:
                return [_contradicted(text.event_id, call, noted, "the user said")]
    return []


def _contradicts(episode: Episode, lookup: EpisodeCall, call: EpisodeCall) -> str | None:
    """Return the note in a memory that an action contradicts."""
    notes = _memory_text(lookup)
    found = contains_excluded(episode, call, excluded_in(notes), content_stems(episode.request))
    if found is not None:
        return found
    request = normalize(episode.request)
    for statement in _STATEMENT.split(notes)[:MAX_CLAUSES]:
        if not words("forbid").within(statement):
            continue
        lowered = normalize(statement)
        names = _names_in(statement, call.line) if call.line else names_of(episode, call)
        wanted = [name for name in names if name in request]
        named = [name for name in names if name in lowered and not any(one in name for one in wanted)]
        # The rest of a note is no name of what it is about.
        named = [name for name in named if _is_forbidden(statement, lowered, name) and not words("forbid").within(name)]
        if any(_is_proper(statement, lowered, name) for name in named) or _is_out_of_time(episode, statement, call):
            return statement.strip()
    return None


def _is_forbidden(statement: str, lowered: str, name: str) -> bool:
    """Return whether the clause that names something has the negation: always aisle, never window."""
    at = lowered.find(name)
    start = max(statement.rfind(mark, 0, at) for mark in ",;，、") + 1
    ends = [end for mark in ",;，、" if (end := statement.find(mark, at + len(name))) >= 0]
    return words("forbid").within(statement[start : min(ends, default=len(statement))])


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


def _is_out_of_time(episode: Episode, statement: str, call: EpisodeCall) -> bool:
    """Return whether an action begins before, or lies after, a time in a statement, unless the user names its time."""
    limit = _CLOCK.search(statement)
    if limit is None:
        return False
    given = list(_CLOCK.finditer(call.arguments))
    found = [*given, *_CLOCK.finditer(call.text)]
    if not found or any(one[0] in episode.request for one in found):
        return False
    times = list(map(_minutes, found))
    language = language_of(statement)
    bound = _minutes(limit)
    if says(language, "before", statement):
        return min(map(_minutes, given)) < bound if given else max(times) < bound
    return says(language, "after", statement) and min(times) > bound


def _minutes(time: re.Match[str]) -> int:
    return int(time[1]) * 60 + int(time[2])


def _contradicted(source: str, call: EpisodeCall, noted: str, who: str) -> Lapse:
    said = excerpt(noted, 100)
    return Lapse(
        type="memory_failure",
        about=("contradicted",),
        severity="high",
        confidence=70,
        title=f"The agent acted against what {who}: {said}",
        explanation=f"{call.name} was called after that was known: {excerpt(call.arguments, 120)}",
        recommendation="Have the agent check an action against the memories that it has found before it acts.",
        verification="Run the same task again: the action agrees with what is noted.",
        causes=[(source, f"It was known: {said}")],
        event_id=call.call_id,
        happened="The agent did the opposite",
        calls=[call],
    )
