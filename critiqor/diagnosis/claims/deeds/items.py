"""Parts of the request that the agent reports as done, although every call is about something else."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.disclosure import DEEDS
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import normalize, small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.vocabulary import Vocabulary
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.spans.calls import Kind

ARTIFACTS = Path(__file__).with_name("artifacts.toml")
MAX_REQUEST = 1_200
"""Maximum number of characters of a request that is split into items; a longer one is a specification."""
MIN_ITEMS = 2
MAX_ITEMS = 12
MAX_ITEM_WORDS = 12
MIN_WORD = 4
"""Minimum number of letters of a word that names an item."""
STEM = 5
MAX_CLAUSE = 240
_PARTS = re.compile(
    r"[;，、；。!?\n]|[,:](?!\d)|\.(?:\s|$)|\s[–—-]\s|\b(?:and|then|und|dann|et|puis|y|luego|e|poi|en|dan|i|oraz|potem|и|затем|потом|ve|sonra)\b|和|と|및|그리고|\sو",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_CONDITION = re.compile(
    r"\b(?:if|unless|otherwise|falls|wenn|sonst|si|sinon|se|als|anders|jeśli|jeżeli|если|eğer|not|don't|nicht|kein\w*|pas|no|não|non|niet|nie|не)\b"
    r"|\?|如果|もし|만약|إذا"
)
"""What is to be done only in some cases, or not at all."""
_OPAQUE = frozenset(("sessions_spawn", "subagent", "task", "agent", "delegate", "spawn_agent", "dispatch_agent"))
_GENERATES = re.compile(
    r"\bgit (?:checkout|merge|cherry-pick|apply|stash|revert|pull|am)\b|\bpatch\b|\bunzip\b|\btar\b"
)


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    names: str
    written: str


class Item(NamedTuple):
    """A part of a request: its words that no other part has, as beginnings."""

    text: str
    words: frozenset[str]


@cache
def _artifacts() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(data.written, re.IGNORECASE) for name, data in _read().items()}


@cache
def _read() -> dict[str, _Data]:
    return msgspec.convert(tomllib.loads(ARTIFACTS.read_text(encoding="utf-8")), dict[str, _Data])


@cache
def _vocabulary() -> Vocabulary:
    lists = {
        name: [entry.strip() for entry in data.names.replace("\n", " ").split(",")] for name, data in _read().items()
    }
    return Vocabulary(lists)


def check_items(episode: Episode) -> list[CheckedClaim]:
    """Return the claims about parts of the request that no call deals with."""
    answer = episode.answer
    if answer is None or not episode.requests or not episode.calls or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    if speech.language is None:
        return []
    return _unwritten(episode, answer, speech) or _untouched(episode, answer, speech)


def _unwritten(episode: Episode, answer: EpisodeText, speech: Speech) -> list[CheckedClaim]:
    """Return the claim that tests, documents or the like were written, although no call writes any."""
    hits = _vocabulary().scan(speech.lowered)
    effects = [call for call in (*_earlier(episode), *episode.calls) if call.has_effect]
    if not hits or not effects or any(map(may_do_anything, effects)):
        return []
    for name, written in _artifacts().items():
        bit = _vocabulary().bit(name)
        if any(written.search(call.facts) or written.search(call.tool) for call in effects if not call.is_check):
            continue
        for clause in done_clauses(speech):
            begin, end = clause.statement.start, clause.statement.end
            if any(hit.mark & bit and begin <= hit.start < end for hit in hits) and _writes(speech, clause):
                return [unsupported(answer, clause, name, reason="no call writes anything of the kind", kind="action")]
    return []


def _earlier(episode: Episode) -> Iterator[EpisodeCall]:
    for each in episode.earlier:
        yield from each.calls


def may_do_anything(call: EpisodeCall) -> bool:
    """Return whether a call can have done any item of a request without naming it: a script, another agent."""
    if call.tool.lower() in _OPAQUE or _GENERATES.search(call.line):
        return True
    return bool(call.line) and not call.is_check and any(one.kind == "script" for one in plan_of(call.line).programs)


def _writes(speech: Speech, clause: Stance) -> bool:
    # "The tests pass" reports a check; "a test was added" reports a deed.
    return speech.has(clause, "actions.create") or speech.has(clause, "actions.change")


def done_clauses(speech: Speech) -> Iterator[Stance]:
    """Yield the clauses of a text that report an item as done."""
    for stance in speech.stances:
        if stance.is_question or stance.is_attributed or stance.is_uncertain or stance.statement.cells:
            continue
        for clause in speech.clauses(stance):
            if clause.is_good_news and not clause.is_limited and len(clause.lowered) <= MAX_CLAUSE:
                yield clause


def _untouched(episode: Episode, answer: EpisodeText, speech: Speech) -> list[CheckedClaim]:
    """Return the claim about an item of the request, if all calls are about the others."""
    items = items_of(episode)
    effects = [call for call in episode.calls if call.has_effect]
    if len(items) < MIN_ITEMS or not effects or not all(map(_does_one_thing, effects)):
        return []
    if any(call.tool.lower() in _OPAQUE for call in episode.calls):
        return []
    touching = {call.call_id: [item for item in items if _touches(call, item)] for call in episode.calls}
    touched = {item for found in touching.values() for item in found}
    missing = [item for item in items if item not in touched]
    unexplained = [call for call in effects if not touching[call.call_id]]
    # Parts that say when and where are no items: only if several were done by a call each, one may be left out.
    done = {item.text: call.call_id for call in effects for item in touching[call.call_id]}
    if not missing or unexplained or len(set(done.values())) < MIN_ITEMS:
        return []
    for item in missing:
        clause = next((one for one in done_clauses(speech) if _reports(speech, one, item, items)), None)
        if clause is not None:
            reason = f"no call is about “{item.text.strip()}”"
            return [unsupported(answer, clause, "target", reason=reason, kind="completeness")]
    return []


def items_of(episode: Episode) -> list[Item]:
    """Return the parts of the last request that have words of their own."""
    request = episode.requests[-1].text
    if len(request) > MAX_REQUEST:
        return []
    parts = [part for part in _PARTS.split(normalize(request)) if part and part.strip()]
    words = [_words(part) for part in parts if len(part.split()) <= MAX_ITEM_WORDS]
    found = []
    for number, part in enumerate(part for part in parts if len(part.split()) <= MAX_ITEM_WORDS):
        others = frozenset().union(*(each for place, each in enumerate(words) if place != number))
        own = words[number] - others
        if own and not _CONDITION.search(part):
            found.append(Item(part, own))
    return found if len(found) <= MAX_ITEMS else []


def _words(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text) if word not in small_words() and word not in _COURTESY)
    return frozenset(word[:STEM] for word in words if len(word) >= MIN_WORD or not word.isascii())


_COURTESY = frozenset(
    (
        *("please", "thanks", "thank", "bitte", "danke", "merci", "gracias", "obrigado", "obrigada", "grazie", "graag"),
        *("alsjeblieft", "proszę", "dzięki", "спасибо", "пожалуйста", "lütfen", "teşekkürler", "favor", "plaît"),
        *("good", "night", "morning", "gute", "nacht", "bonne", "nuit", "buenas", "noches", "just", "also", "auch"),
        *("today", "tomorrow", "heute", "morgen", "demain", "hoje", "mañana", "domani", "vandaag", "jutro"),
    )
)
"""Words of a request that name nothing."""


def _does_one_thing(call: EpisodeCall) -> bool:
    """Return whether a call is a request to a service, which does no more than its arguments say."""
    return (
        not call.line and call.kind in (Kind.ACTION, Kind.CHANGE, Kind.OTHER) and len(call.arguments) <= MAX_ARGUMENTS
    )


MAX_ARGUMENTS = 1_500


def _touches(call: EpisodeCall, item: Item) -> bool:
    seen = (
        f"{call.tool} {call.arguments} {call.text}".lower()
        if call.has_effect
        else f"{call.tool} {call.arguments}".lower()
    )
    return any(word in seen for word in item.words)


def _reports(speech: Speech, clause: Stance, item: Item, items: list[Item]) -> bool:
    """Return whether a clause speaks of an item as done, and not more of another one."""
    said = _words(clause.lowered)
    own = len(said & item.words)
    is_done = own > 1 or (own > 0 and any(speech.has(clause, f"actions.{name}") for name in DEEDS))
    return is_done and all(len(said & other.words) <= own for other in items if other is not item)
