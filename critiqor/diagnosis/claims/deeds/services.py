"""Several services were searched and used, one was only searched, and the agent reports everything as done."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from critiqor.diagnosis.claims.call_arguments import decoded_arguments
from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.items import items_of
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.destinations.record_lists import lists_in
from critiqor.diagnosis.claims.disclosure import DEEDS
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.spans.calls import Kind

MIN_DONE = 2
"""Minimum number of services that were searched and used, so that one more is expected to be."""
MIN_VALUE = 4
"""Minimum number of characters of a value that shows that a result was used."""
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Service(msgspec.Struct):
    """The tools with the same first word: `hotel_search`, `hotel_book`."""

    name: str
    looks: list[EpisodeCall] = msgspec.field(default_factory=list)
    deeds: list[EpisodeCall] = msgspec.field(default_factory=list)

    @property
    def verbs(self) -> set[str]:
        """The last words of the tools with which something was looked up."""
        return {_PART.findall(call.tool)[-1].lower() for call in self.looks}

    @property
    def parameters(self) -> set[str]:
        """The names of the arguments of these calls."""
        return {name for call in self.looks for name in decoded_arguments(call.arguments) or ()}


def check_services(episode: Episode) -> list[CheckedClaim]:
    """Return the claim that everything is done, if a service that was searched like the others was not used."""
    answer = episode.answer
    if answer is None or len(episode.calls) < 2 * MIN_DONE + 1 or episode.has_dropped:
        return []
    services = _services(episode)
    done = [each for each in services if each.looks and each.deeds]
    left = [each for each in services if each.looks and not each.deeds and _is_like(each, done)]
    if len(done) < MIN_DONE or not left or len(items_of(episode)) <= MIN_DONE:
        return []
    speech = episode.speech(answer)
    for service in left:
        if _is_used(service, episode) or _is_mentioned(service, speech):
            continue
        stance = next(_everything_done(speech), None)
        if stance is not None:
            reason = f"{service.looks[-1].name} was followed by nothing, unlike the other searches"
            calls = (service.looks[-1],)
            return [unsupported(answer, stance, "completeness", reason=reason, kind="completeness", calls=calls)]
    return []


def _services(episode: Episode) -> list[Service]:
    found: dict[str, Service] = {}
    for call in episode.calls:
        words = _PART.findall(call.tool)
        if call.line or len(words) < 2 or call.meaning.state == "failure":
            continue
        service = found.setdefault(words[0].lower(), Service(words[0].lower()))
        if call.kind is Kind.LOOKUP:
            service.looks.append(call)
        elif call.has_effect:
            service.deeds.append(call)
    return list(found.values())


def _is_like(service: Service, done: list[Service]) -> bool:
    """Return whether a service was searched as the others were, for something of its own.

    A search with the same parameters looks for the same at another place, to compare.
    """
    return any(service.verbs & other.verbs for other in done) and not any(
        service.parameters <= other.parameters for other in done
    )


def _is_used(service: Service, episode: Episode) -> bool:
    """Return whether a later call with an effect uses a value that the search returned."""
    later = [call for call in episode.calls if call.has_effect and call.order > service.looks[0].order]
    used = "\n".join(call.arguments for call in later).lower()
    return any(value in used for value in _values(service))


def _values(service: Service) -> Iterator[str]:
    for call in service.looks:
        for records in lists_in(call.text):
            for record in records:
                yield from (value.lower() for value in record.names if len(value) >= MIN_VALUE)


def _is_mentioned(service: Service, speech: Speech) -> bool:
    return service.name in speech.lowered or any(value in speech.lowered for value in _values(service))


def _everything_done(speech: Speech) -> Iterator[Stance]:
    for stance in speech.stances:
        for part in (stance, *speech.clauses(stance)):
            is_deed = any(speech.has(part, f"actions.{name}") for name in DEEDS)
            if part.is_good_news and is_deed and speech.has(part, "totality"):
                yield part
