"""The agent says that it looked into a place or used a means that no call can have reached: the spam folder.

The places and means are data, in `domains.toml`.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.vocabulary import Hit, Vocabulary

FILE = Path(__file__).with_name("domains.toml")
LOOKING = ("inspect", "reconcile", "monitor", "test", "visual", "rerun")
"""Classes of verbs with which an agent says that it looked at something."""
MAX_STATEMENT = 400
"""Maximum number of characters of a statement that is examined."""


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    names: str
    reached: str
    is_deed: bool = False
    is_method: bool = False
    in_outputs: bool = True
    needs: str = ""


class Domain(msgspec.Struct, frozen=True):
    """A place or a means, and what a call looks like that reaches it."""

    reached: re.Pattern[str]
    is_deed: bool
    """Whether naming it says that it was used."""
    is_method: bool
    """Whether it is a way to compute something: who only explains it gives no result."""
    in_outputs: bool
    """Whether an output that speaks of it shows that it was reached."""
    verbs: tuple[str, ...]
    """The classes of verbs with which it is said to have been looked at or used; empty if it needs none."""


@cache
def domains() -> dict[str, Domain]:
    """Return the domains by name."""
    found = {}
    for name, data in _read().items():
        verbs = tuple(verb.strip() for verb in data.needs.split(",")) if data.needs else () if data.is_deed else LOOKING
        reached = re.compile(data.reached, re.IGNORECASE)
        found[name] = Domain(reached, data.is_deed, data.is_method, data.in_outputs, verbs)
    return found


@cache
def _read() -> dict[str, _Data]:
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), dict[str, _Data])


@cache
def _vocabulary() -> Vocabulary:
    lists = {
        name: [entry.strip() for entry in data.names.replace("\n", " ").split(",")] for name, data in _read().items()
    }
    return Vocabulary(lists, has_open_phrases=True)


def check_domains(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims about places and means that no call reached."""
    if episode.has_dropped:
        return []
    claims: list[CheckedClaim] = []
    words = _vocabulary()
    reached: dict[str, bool] = {}
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if speech.language is None:
            continue
        hits = words.scan(speech.lowered)
        for name, domain in domains().items() if hits else ():
            mentions = [hit for hit in hits if hit.mark & words.bit(name)]
            stance = next((one for hit in mentions if (one := _claim(speech, hit, domain)) is not None), None)
            if stance is None:
                continue
            if name not in reached:
                reached[name] = _is_reached(domain, evidence, text)
            if not reached[name]:
                claims.append(unsupported(text, stance, name))
    return claims


def _claim(speech: Speech, hit: Hit, domain: Domain) -> Stance | None:
    """Return the part of a statement that says that a place was looked at or a means was used; None without one."""
    stance = next((one for one in speech.stances if one.statement.start <= hit.start < one.statement.end), None)
    if stance is None or stance.statement.cells or len(stance.lowered) > MAX_STATEMENT:
        return None
    is_ticked = _is_ticked(stance)
    if stance.is_question or stance.is_attributed or stance.is_uncertain:
        return None
    # What follows may be limited or bad news: "I searched the inbox and the spam folder, and there is nothing".
    start = stance.statement.start
    part = speech.part(stance, hit.start - start)
    if (
        part.is_plan
        or part.is_bad_news
        or (part.is_limited and not is_ticked)
        or (stance.is_plan and not _asserts(speech, stance, hit))
        or (domain.is_method and not speech.values_of(stance) and not speech.is_own(stance))
    ):
        return None
    if not domain.verbs or is_ticked:
        return stance
    # The verb comes before the place, or behind it in the same clause: "I removed the slack: the tests pass" has none.
    end = next((clause.statement.end for clause in speech.clauses(stance) if _holds(clause, hit)), hit.end)
    near = speech.part(stance, end - start)
    return stance if any(speech.has(near, f"actions.{name}") for name in domain.verbs) else None


def _asserts(speech: Speech, stance: Stance, hit: Hit) -> bool:
    """Return whether the clause around a place is no plan, although another one of the statement is."""
    return any(_holds(clause, hit) and not clause.is_plan for clause in speech.clauses(stance))


def _holds(clause: Stance, hit: Hit) -> bool:
    return clause.statement.start <= hit.start < clause.statement.end


_TICK = re.compile(r"\[x\]|[✅☑✔✓]", re.IGNORECASE)


def _is_ticked(stance: Stance) -> bool:
    """Return whether a statement is a ticked item of a list."""
    return _TICK.search(stance.statement.text) is not None


def _is_reached(domain: Domain, evidence: Evidence, text: EpisodeText) -> bool:
    for call in evidence.calls:
        parts = (call.tool, call.facts, call.text) if domain.in_outputs else (call.tool, call.facts)
        if call is not text.call and any(map(domain.reached.search, parts)):
            return True
    return _is_given(domain, evidence.episode)


def _is_given(domain: Domain, episode: Episode) -> bool:
    """Return whether the user may have said it: an approval, the result of a call by phone."""
    if not domain.is_deed or domain.verbs:
        return False
    said = [text for each in (episode, *episode.earlier) for text in each.requests]
    return len(said) > 1 and any(domain.reached.search(text.text) for text in said)
