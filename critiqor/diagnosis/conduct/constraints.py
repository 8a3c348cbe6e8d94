"""What the user forbade before a compaction or memory advises against, and the agent did all the same."""

# ruff: noqa: RUF001 - letters and punctuation of several scripts
from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import language_of, normalize
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.memory import memory_text, reads_memory
from critiqor.diagnosis.conduct.prohibitions import forbidding_clauses, is_broken, names_of
from critiqor.diagnosis.conduct.wording import MAX_REQUEST, says
from critiqor.diagnosis.hazards.words import words
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

MAX_CLAUSES = 40
"""Maximum number of clauses with which each call is compared."""
MAX_COMPARED = 60
"""Maximum number of calls after a compaction, or after a memory lookup, that are compared."""
_PROPER = re.compile(r"(?<=[\s\"'“„«])[^\W\d_a-zа-я][^\W_]{2,}(?:[ -][^\W\d_a-zа-я][^\W_]+)*")
_TIME = re.compile(r"(?<![\d:.-])([01]?\d|2[0-3]):([0-5]\d)(?![\d:])")
_STATEMENT = re.compile(r"(?<=[.!?;])\s+|\\n|\n|[。！？；]|\",\s?\"")


def find_forgotten_prohibitions(episode: Episode) -> list[Lapse]:
    """Return what the user forbade before a compaction, and the agent did after it."""
    compactions = [order for each in (episode, *episode.earlier) for order in each.compactions]
    if not compactions or not episode.calls:
        return []
    last = max(compactions)
    texts = [text for each in (*reversed(episode.earlier), episode) for text in each.requests]
    later = " ".join(normalize(text.text) for text in texts if text.order > last)
    clauses = [
        (clause, text) for text in texts if text.order < last for clause in forbidding_clauses(text.text[:MAX_REQUEST])
    ][-MAX_CLAUSES:]
    acting = [call for call in episode.calls if call.order > last and call.has_effect]
    for call in acting[:MAX_COMPARED]:
        if call.meaning.state == "failure":
            continue
        for clause, text in clauses:
            name = is_broken(clause, episode, call)
            if name is not None and name not in later:
                return [_forgotten(call, clause, text)]
    return []


def _forgotten(call: EpisodeCall, clause: str, text: EpisodeText) -> Lapse:
    said = excerpt(clause, 100)
    return Lapse(
        type="compaction_loss",
        about=("instructions", "contradicted"),
        severity="high",
        confidence=75,
        title=f"After a compaction, the agent did what the user had forbidden: {said}",
        explanation=f"{call.name} does what the user had ruled out before the history was summarized.",
        recommendation="Have the agent write instructions that must survive a compaction to memory or a file.",
        verification="Run the same task again: what the user has forbidden is not done, before or after a compaction.",
        causes=[(text.event_id, f"The user said: {said}")],
        event_id=call.call_id,
        happened="Done anyway, after the context was compacted",
        calls=[call],
    )


def find_contradicted_memories(episode: Episode) -> list[Lapse]:
    """Return actions that do what a memory found before advises against."""
    lookups = [call for call in episode.calls if reads_memory(call) and call.meaning.state != "failure"]
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
    for statement in _STATEMENT.split(memory_text(lookup))[:MAX_CLAUSES]:
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
    limit = _TIME.search(statement)
    if limit is None:
        return False
    times = [_minutes(one) for one in _TIME.finditer(f"{call.arguments}\n{call.text}")]
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
