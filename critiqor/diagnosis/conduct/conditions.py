"""Conditions of the user that a look shows not to be met, and the agent acts all the same."""

# ruff: noqa: RUF001 - letters of several scripts
from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import arguments_of, members
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import language_of
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.objections import is_negative, is_told, records_of
from critiqor.diagnosis.conduct.wording import content_stems, requests
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.results.state_words import state_of_word
from critiqor.diagnosis.signals.outputs import printed_lines
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "ignored_tool_output"
MAX_LOOK = 4_000
"""Maximum number of characters of a result that shows whether a condition is met."""
MAX_REQUEST = 1_000
"""Maximum number of characters of a request with conditions; a longer one specifies what is to be built."""
MIN_STEM = 4
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n|[。！？；]")
_CLAUSE = re.compile(
    r"[,:()，、：]|\s[–—-]\s"
    r"|\b(?:otherwise|else|sonst|andernfalls|sinon|si no|de lo contrario|senão|altrimenti|anders|иначе|annars)\b"
)
_NOTHING = re.compile(
    r"\b(?:nothing|none|nichts|nada|rien|niente|nulla|niets|nic|ничего|inget|ingenting)\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_NONE = re.compile(
    r"(?:\b(?:0|no|not|none|nothing|never|without|zero|kein\w*|nicht|sin|sans|aucun\w*|sem|nessun\w*|geen|bez|без|нет)\b"
    r"|[不无没])\W*(?:\w+\W+){0,2}$"
)
"""A negation or zero right before a word."""


def find_unmet_conditions(episode: Episode) -> list[Lapse]:
    """Return an action whose condition a look before it shows not to be met, if nobody was informed, at most one."""
    request = requests(episode)
    if len(request) > MAX_REQUEST or not words("condition").within(request):
        return []
    acting = [call for call in episode.calls if _may_act(call) and call.meaning.state != "failure"]
    conditions = [one for one in _SENTENCE.split(request) if words("condition").within(one)] if acting else []
    for condition in conditions:
        for call in acting:
            found = _against(episode, call, condition)
            if found is None:
                continue
            said = f"{found[1]}\n{condition}"
            if not is_told(episode, said, found[0], f"{request}\n{call.arguments}"):
                return [_lapse(episode, condition, *found, call)]
    return []


def _may_act(call: EpisodeCall) -> bool:
    return call.kind in (Kind.ACTION, Kind.OTHER) or (call.has_effect and bool(call.line)) or _is_record(call)


def _is_record(call: EpisodeCall) -> bool:
    """Return whether a call changes something else than a file."""
    return call.kind is Kind.CHANGE and not any(name in ("path", "file_path", "file") for name, _ in members(call))


def _against(episode: Episode, call: EpisodeCall, condition: str) -> tuple[EpisodeCall, str] | None:
    """Return the look, and its record, that shows that a call must not be made."""
    stems = content_stems(condition)
    done = content_stems(f"{call.tool} {call.line} {call.arguments}".replace("_", " ").replace(".", " "))
    is_meant = call.kind is Kind.ACTION and not call.line
    if not is_meant and not stems & done:
        return None
    named = {value.lower() for _, value in arguments_of(call)}
    part, forbids = _parted(condition)
    wanted = {stem for stem in content_stems(condition.replace(part, " ")) if not stem.isdigit()}
    if call.line and not wanted & done:
        return None  # a command that prepares something is not what depends on the condition
    undesired = _undesired(part) if forbids or words("forbid").within(part) or _NOTHING.search(part) else set()
    # "Renew it if it has expired" wants the action because something is wrong.
    needs_good = forbids or not _is_bad(part)
    if not (undesired or needs_good):
        return None
    seen: set[tuple[str, str]] = set()
    for look in reversed(episode.calls):
        # Only the last answer to each question counts.
        if look.order >= call.order or (look.tool, look.arguments) in seen:
            continue
        seen.add((look.tool, look.arguments))
        if _changes(look) and look is not call and not look.line:
            break  # what was wrong may have been put right
        if (look.reported_failure and not look.line) or "memory" in look.tool:
            continue  # a look that failed shows nothing, and what a memory says is compared elsewhere
        if look.kind in (Kind.ACTION, Kind.CHANGE) or len(look.text) > MAX_LOOK or not printed_lines(look.text):
            continue
        if look.line == call.line != "":
            continue
        records = records_of(look.text)
        mine = [record for record in records if any(value in record.lower() for value in named)] or records
        asked = {value.lower() for _, value in arguments_of(look)}
        for record in mine:
            if undesired and any(_affirms(record, stem) for stem in undesired):
                return look, record
            if needs_good and (len(mine) == 1 or named & asked) and is_negative(record):
                return look, record
    return None


def _changes(call: EpisodeCall) -> bool:
    return call.kind in (Kind.ACTION, Kind.CHANGE) and call.meaning.state != "failure"


def _parted(sentence: str) -> tuple[str, bool]:
    """Return the condition in a sentence, and whether the rest of it forbids something or asks for a report."""
    spans = words("condition").find(sentence)
    start = spans[0][0] if spans else 0
    end = next((mark.start() for mark in _CLAUSE.finditer(sentence, start) if mark.start() > start), len(sentence))
    rest = f"{sentence[:start]} {sentence[end:]}"
    return sentence[start:end], words("forbid").within(rest) or words("ask_first").within(rest)


def _is_bad(part: str) -> bool:
    """Return whether a condition names something bad: expired, offline, not shipped."""
    if words("barred").within(part) or words("forbid").within(part) or words("delete").within(part):
        return True
    if any(state_of_word(word) == "failure" for word in _WORD.findall(part)):
        return True
    return any(one.is_bad_news for one in Speech(part, language_of(part)).stances)


def _undesired(part: str) -> set[str]:
    """Return the beginnings of the words for what must not happen: only if nothing gets deleted."""
    found = {part[start:end].lower()[: max(MIN_STEM, end - start - 2)] for start, end in words("delete").find(part)}
    return {stem for stem in found if len(stem) >= MIN_STEM}


def _affirms(record: str, stem: str) -> bool:
    """Return whether a record says that something happens, and not that it does not: 1 to destroy."""
    lowered = record.lower()
    places = [match.start() for match in re.finditer(re.escape(stem), lowered)]
    return any(not _NONE.search(lowered[max(0, at - 24) : at]) for at in places)


def _lapse(episode: Episode, condition: str, look: EpisodeCall, record: str, call: EpisodeCall) -> Lapse:
    said, wanted = excerpt(" ".join(record.split()), 100), excerpt(condition.strip(), 100)
    return Lapse(
        type=TYPE,
        about=(call.tool, "condition"),
        severity="high",
        confidence=70,
        title=f"The agent acted although the user's condition was not met: {wanted}",
        explanation=f"{look.name} returned “{said}”. {call.name} was called all the same, and no message mentions it.",
        recommendation="Have the agent compare each result with the conditions of the request before it acts.",
        verification="Run the same task again: the agent stops and reports if the condition is not met.",
        causes=[
            (episode.requests[-1].event_id, f"The user said: {wanted}"),
            (look.result_id, f"{look.name} returned: {excerpt(said, 80)}"),
        ],
        event_id=call.call_id,
        happened=f"The agent called {call.name} all the same",
        calls=[call],
    )
