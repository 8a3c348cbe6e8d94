"""Parts of a request that no call deals with, although the agent reports them, or everything, as done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import deed_words, is_content, is_form_of, wanted_deeds
from critiqor.diagnosis.claims.checks.targets import AND
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done, capabilities
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.disclosure import DEEDS
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, normalize, small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.signals.tool_calls import is_delegation, kind_of_verb
from critiqor.spans.calls import Kind

MAX_REQUEST = 1_200
"""Maximum number of characters of a request that is split into parts; a longer one is a specification."""
MAX_PARTS = 16
MAX_PART_WORDS = 16
MIN_WORD = 4
"""Minimum number of letters of a word that names a part."""
STEM = 5
MIN_DONE = 2
"""Minimum number of parts that were done by a call each, so that one more is expected to be."""
MIN_SAID = 2
"""Minimum number of words of a clause that are about a part."""
MAX_CLAUSE = 240
MAX_ARGUMENTS = 1_500
_PARTS = re.compile(
    r"[;，、；。!?\n]|[,:](?!\d)|\.(?:\s|$)|\s[–—-]\s|\b(?:then|dann|puis|luego|poi|dan|oraz|potem|sedan|затем|потом|sonra)\b"
    rf"|{AND}|그리고",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]{2,}")
_CONDITION = re.compile(
    r"\b(?:if|unless|otherwise|falls|wenn|sonst|si|sinon|se|als|anders|jeśli|jeżeli|если|eğer|om|annars|not|don't|nicht"
    r"|kein\w*|pas|no|não|non|niet|nie|не|inte)\b|\?|如果|もし|만약|إذا"
)
"""What is to be done only in some cases, or not at all."""
_GENERATES = re.compile(
    r"\bgit (?:checkout|merge|cherry-pick|apply|stash|revert|pull|am)\b|\bpatch\b|\bunzip\b|\btar\b"
)
_TOOL_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_AGENTS = frozenset(("task", "agent"))


class Part(NamedTuple):
    """A part of a request: its words that no other part has, as beginnings."""

    text: str
    words: frozenset[str]


def check_request_parts(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims about parts of the request that no call deals with."""
    answer = episode.answer
    effects = [call for call in evidence.calls if call.has_effect]
    if answer is None or not episode.requests or not effects or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    if speech.language is None or any(map(may_do_anything, effects)):
        return []
    return _impossible(episode, evidence, answer, speech) or _left_out(episode, answer, speech)


def may_do_anything(call: EpisodeCall) -> bool:
    """Return whether a call can have done any part of a request without naming it: a script, another agent."""
    if is_delegation(call.tool) or call.tool.lower() in _AGENTS or _GENERATES.search(call.line):
        return True
    return bool(call.line) and not call.is_check and any(one.kind == "script" for one in plan_of(call.line).programs)


def _impossible(episode: Episode, evidence: Evidence, answer: EpisodeText, speech: Speech) -> list[CheckedClaim]:
    """Return the claims of deeds that the request asks for, and that none of the calls can have done."""
    assert speech.language is not None
    wanted = wanted_deeds(episode.requests[-1].text, speech.language) - {"send"}  # `contacts` judges what was sent
    claims = []
    for clause in done_clauses(speech) if wanted else ():
        for name in sorted(wanted):
            words = deed_words(speech, clause, name)
            if not words or all(is_content(word, evidence) for word in words):
                continue
            if not any(can_have_done(call, name) for call in evidence.calls):
                claims.append(unsupported(answer, clause, name, kind="action"))
                wanted = wanted - {name}
                break
    return claims


def done_clauses(speech: Speech) -> Iterator[Stance]:
    """Yield the clauses of an answer that report a part of the request as done."""
    for stance in speech.stances:
        if stance.is_question or stance.is_attributed or stance.is_uncertain or stance.statement.cells:
            continue
        for clause in speech.clauses(stance):
            if clause.is_good_news and not clause.is_limited and len(clause.lowered) <= MAX_CLAUSE:
                yield clause


def _left_out(episode: Episode, answer: EpisodeText, speech: Speech) -> list[CheckedClaim]:
    """Return the claim about a part of the request, if all calls with an effect are about others.

    Only calls of services are judged, which do no more than their arguments say.
    """
    effects = [call for call in episode.calls if call.has_effect]
    parts = _parts_of(episode) if len(effects) >= MIN_DONE and all(map(_does_one_thing, effects)) else []
    if len(parts) <= MIN_DONE:
        return []
    touching = {call.call_id: [part for part in parts if _touches(call, part)] for call in episode.calls}
    by_effect = {call.call_id: touching[call.call_id] for call in effects}
    if _matched(by_effect) >= MIN_DONE and all(by_effect.values()):
        done = frozenset().union(*(part.words for found in touching.values() for part in found))
        left = frozenset().union(*(part.words for part in parts if not part.words & done))
        for clause in done_clauses(speech) if left else ():
            if _is_about(speech, clause, left, done, effects):
                reason = f"no call is about “{_named(parts, clause, left)}”"
                return [unsupported(answer, clause, "target", reason=reason, kind="completeness")]
        omitted = [part for part in parts if not any(part in found for found in by_effect.values())]
        for part in omitted:
            whole = _whole_claim(speech, part) if _is_order(part, episode.request_language) else None
            if whole is not None:
                reason = f"no call with an effect is about “{part.text}”"
                return [unsupported(answer, whole, "completeness", reason=reason, kind="completeness")]
    return _begun(episode, answer, speech, parts, effects)


def _parts_of(episode: Episode) -> list[Part]:
    """Return the parts of the last request that have words of their own."""
    request = episode.requests[-1].text
    if len(request) > MAX_REQUEST:
        return []
    texts = [text.strip() for text in _PARTS.split(normalize(request)) if text and text.strip()]
    words = [_words(text) for text in texts]
    found = []
    for number, text in enumerate(texts):
        others = frozenset().union(*(each for place, each in enumerate(words) if place != number))
        own = words[number] - others
        if own and len(text.split()) <= MAX_PART_WORDS and not _CONDITION.search(text):
            found.append(Part(text, own))
    return found if len(found) <= MAX_PARTS else []


def _words(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text) if word not in small_words() and word not in _COURTESY)
    return frozenset(
        word if word.isdigit() else word[:STEM]
        for word in words
        if len(word) >= MIN_WORD or not word.isascii() or not word.isalpha()
    )


_COURTESY = frozenset(
    (
        *("please", "thanks", "thank", "bitte", "danke", "merci", "gracias", "obrigado", "obrigada", "grazie", "graag"),
        *("alsjeblieft", "proszę", "dzięki", "спасибо", "пожалуйста", "lütfen", "teşekkürler", "favor", "plaît"),
        *("good", "night", "morning", "gute", "nacht", "bonne", "nuit", "buenas", "noches", "just", "also", "auch"),
        *("today", "tomorrow", "heute", "morgen", "demain", "hoje", "mañana", "domani", "vandaag", "jutro", "idag"),
    )
)
"""Words of a request that name nothing."""


def _does_one_thing(call: EpisodeCall) -> bool:
    """Return whether a call is a request to a service, which does no more than its arguments say."""
    return (
        not call.line and call.kind in (Kind.ACTION, Kind.CHANGE, Kind.OTHER) and len(call.arguments) <= MAX_ARGUMENTS
    )


def _touches(call: EpisodeCall, part: Part) -> bool:
    seen = normalize(f"{call.tool} {call.arguments}")
    words = {form for word in part.words for form in (word, word.removesuffix("s"))}
    return any(word in seen or (call.has_effect and word in call.lowered) for word in words)


def _matched(touching: dict[str, list[Part]]) -> int:
    """Return how many parts can have been done by a call each."""
    doers: dict[Part, str] = {}

    def find(call: str, tried: set[Part]) -> bool:
        for part in touching[call]:
            if part not in tried:
                tried.add(part)
                if part not in doers or find(doers[part], tried):
                    doers[part] = call
                    return True
        return False

    return sum(find(call, set()) for call in touching)


def _is_about(
    speech: Speech, clause: Stance, left: frozenset[str], done: frozenset[str], effects: list[EpisodeCall]
) -> bool:
    """Return whether a clause reports what was left out as done, and is not more about something that was done."""
    said = _words(clause.lowered)
    deeds = [name for name in DEEDS if speech.has(clause, f"actions.{name}")]
    if len(said & left) < (1 if deeds else MIN_SAID) or len(said & done) > len(said & left):
        return False
    # "The confirmation was sent" may be in other words than the call that sent it.
    return not any(name not in capabilities() or can_have_done(call, name) for name in deeds for call in effects)


def _named(parts: list[Part], clause: Stance, left: frozenset[str]) -> str:
    said = _words(clause.lowered) & left
    return max(parts, key=lambda part: len(part.words & said)).text


def _is_order(part: Part, language: Language | None) -> bool:
    """Return whether a part is the verb of a deed with an object of its own.

    To send or to show something can be done by the answer.
    """
    verb = next((word for word in _WORD.findall(part.text) if word not in small_words() and word not in _COURTESY), "")
    if not part.words - {verb[:STEM]}:
        return False
    if kind_of_verb(verb) in (Kind.CHANGE, Kind.ACTION):
        return not any(verb in capabilities()[name].tools for name in ("send", "share"))
    if language is None or len(verb) < MIN_WORD:
        return False
    return any(is_form_of(verb, form) for form in _forms(language))


@cache
def _forms(language: Language) -> tuple[str, ...]:
    """Return the words with which deeds that can be ordered are reported."""
    actions = language.read_actions()
    return tuple(entry for name in _ORDERED for entry in actions.get(name, ()) if entry.isalpha())


_ORDERED = tuple(name for name in DEEDS if name not in ("send", "share", "build"))


def _whole_claim(speech: Speech, part: Part) -> Stance | None:
    """Return the statement that everything is done, if no statement admits that something is not."""
    for stance in speech.stances:
        if stance.is_bad_news or stance.is_question or stance.is_limited or stance.is_uncertain:
            return None
        if _words(stance.lowered) & part.words:
            return None  # It may have been done in another way, or was there already.
    return next(_everything_done(speech), None)


def _begun(
    episode: Episode, answer: EpisodeText, speech: Speech, parts: list[Part], effects: list[EpisodeCall]
) -> list[CheckedClaim]:
    """Return the claim that everything is done, if a service was only asked, and nothing came of its answer."""
    acted = {_service(call) for call in effects}
    if len(acted) < MIN_DONE or len(parts) <= len(effects):
        return []
    asked: dict[str, list[EpisodeCall]] = {}
    for call in episode.calls:
        if call.kind is Kind.LOOKUP and not call.line and (service := _service(call)) and service not in acted:
            asked.setdefault(service, []).append(call)
    done = "\n".join([*(f"{call.arguments}\n{call.text}" for call in effects), answer.text]).lower() if asked else ""
    for service, calls in asked.items():
        values = {word for call in calls for word in _values(call)}
        if service in done or any(value in done for value in values) or calls[-1].meaning.state == "failure":
            continue
        # A part that only this service deals with may ask for no more than a look.
        others = [call for call in episode.calls if call not in calls]
        own = [part for part in parts if not any(_touches(call, part) for call in others)]
        if any(
            not _is_order(part, episode.request_language) and any(_touches(call, part) for call in calls)
            for part in own
        ):
            continue
        stance = next(_everything_done(speech), None)
        if stance is not None:
            reason = f"nothing followed {calls[-1].name}"
            return [unsupported(answer, stance, "completeness", reason=reason, kind="completeness", calls=(calls[-1],))]
    return []


def _service(call: EpisodeCall) -> str:
    """Return the first word of the name of a tool: `hotel` of `hotel_search`."""
    words = _TOOL_PART.findall(call.tool)
    return words[0].lower() if len(words) > 1 else ""


def _values(call: EpisodeCall) -> Iterator[str]:
    """Yield the words of what a lookup was asked and returned, without the names of members."""
    for text in (call.arguments, call.lowered):
        for word in _WORD.findall(_MEMBER.sub(" ", text).lower()):
            if len(word) >= MIN_WORD and word not in small_words() and word not in _TRUTH:
                yield word


_MEMBER = re.compile(r'"[^"]*"\s?:')
_TRUTH = frozenset(("true", "false", "null", "none"))


def _everything_done(speech: Speech) -> Iterator[Stance]:
    for stance in speech.stances:
        for part in (stance, *speech.clauses(stance)):
            if part.is_good_news and speech.has(part, "totality"):
                yield part
