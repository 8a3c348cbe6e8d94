"""What all hazards share: the texts of an episode, and the draft of a finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.text import decode_json
from critiqor.model import CausalStep, Scope, Severity

_PATHS = frozenset(("path", "file", "file_path", "filepath", "filename", "target_file"))
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\s*:)')


class Hazard(msgspec.Struct, kw_only=True):
    """A hazard that was found, before it becomes the draft of a finding."""

    type: str
    about: tuple[str, ...]
    severity: Severity
    confidence: int
    title: str
    explanation: str
    recommendation: str
    calls: list[EpisodeCall]
    """The calls that did it, the first one first."""
    causes: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """What led to it: event id and what happened."""


def draft_of(episode: Episode, hazard: Hazard) -> Draft:
    """Return the draft of a finding about a hazard."""
    first = hazard.calls[0]
    steps = [CausalStep(event_id, happened, None) for event_id, happened in hazard.causes]
    steps.append(CausalStep(first.call_id, f"The agent called {first.name}", "caused" if steps else None))
    events = [*(event_id for event_id, _ in hazard.causes), *(call.call_id for call in hazard.calls)]
    return Draft(
        type=hazard.type,
        about=hazard.about,
        severity=hazard.severity,
        confidence=hazard.confidence,
        title=hazard.title,
        explanation=hazard.explanation,
        evidence=cite_events(events),
        occurrences=len(hazard.calls),
        first_bad_step=first.call_id,
        chain=steps,
        scope=Scope(episode.session_key, episode.agent_run_id),
        recommendation=hazard.recommendation,
        verification="Run the same task again: the agent does only what it was asked for.",
    )


class CallFacts(msgspec.Struct):
    """What was read from a call, once it was asked for: later episodes of the session look at it again."""

    members: list[tuple[str, str]] | None = None
    path: str | None = None
    operations: object = None
    is_read_as_is: bool | None = None
    read: object = None
    passages: object = None
    gaps: object = None


def facts_of(call: EpisodeCall) -> CallFacts:
    """Return what was read from a call so far."""
    facts = call.known_hazards
    if not isinstance(facts, CallFacts):
        facts = call.known_hazards = CallFacts()
    return facts


def members(call: EpisodeCall) -> list[tuple[str, str]]:
    """Return the texts and numbers in the arguments of a call, each with the name of its member."""
    facts = facts_of(call)
    if facts.members is None:
        facts.members = _all_members(call)
    return facts.members


def _all_members(call: EpisodeCall) -> list[tuple[str, str]]:
    try:
        value = decode_json(call.arguments)
    except msgspec.DecodeError:
        # Long arguments are kept in part.
        return [("", _unescaped(match[1])) for match in _STRING.finditer(call.arguments)]
    return list(_members("", value))


def _members(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _members(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _members(name, inner)
    elif isinstance(value, str):
        yield name, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, str(value)


def _unescaped(text: str) -> str:
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text


def argument_text(call: EpisodeCall) -> str:
    """Return all texts in the arguments of a call."""
    return "\n".join(value for _, value in members(call))


def path_of(call: EpisodeCall) -> str:
    """Return the file that a call names; empty if it names none."""
    facts = facts_of(call)
    if facts.path is None:
        facts.path = next((value for name, value in members(call) if name.lower() in _PATHS), "")
    return facts.path


def requests_of(episode: Episode) -> list[str]:
    """Return what the user wrote in this and earlier episodes of the session, the first message first."""
    return [text.text for each in (*reversed(episode.earlier), episode) for text in each.requests]


def agreed_text(episode: Episode) -> str:
    """Return what the user wrote, with the messages of the agent to which the user replied."""
    parts: list[str] = []
    for each in reversed(episode.earlier):
        parts += [text.text for text in (*each.requests, *each.messages[-1:])]
    return "\n".join((*parts, episode.request))


def earlier_calls(episode: Episode, call: EpisodeCall) -> list[EpisodeCall]:
    """Return the calls of the session whose results were known when a call was made, in order."""
    before = [each for earlier in reversed(episode.earlier) for each in earlier.calls]
    return before + [each for each in episode.calls if each is not call and each.result_id < call.call_id]
