"""The agent says that it did or checked something for which no call was made."""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done, capabilities
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, normalize, small_words
from critiqor.diagnosis.claims.outcomes.check_classes import check_classes
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.model import ClaimKind
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
MIN_WORD = 4
"""Minimum number of letters of a word that is looked up in outputs."""
MAX_REQUEST = 2_000
"""Maximum number of characters of a request whose verbs are looked for."""
MAX_CLAUSE = 300
"""Maximum number of characters of a clause that is examined."""


class ActionClass(NamedTuple):
    """How claims of an action are recognized, and what a call that does it looks like."""

    trace: re.Pattern[str] | None = None
    """What its tool or its arguments contain; None if `capabilities` knows what its calls look like."""
    needs_subject: bool = False
    """Whether its verbs are used for many things, so that its noun must be in the clause too."""
    kind: ClaimKind = "action"


def _traces(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


CLASSES: dict[str, ActionClass] = {
    "test": ActionClass(
        _traces(
            *("test", "spec", "jest", r"\btox\b", r"\bnox\b", "check", "verify", "cypress", "playwright", "coverage"),
            *(r"\brun (?:view|watch|list)\b", "pipeline", "workflow", r"\bci\b"),
        ),
        needs_subject=True,
        kind="check",
    ),
    "backup": ActionClass(),
    "restore": ActionClass(needs_subject=True),
    "pay": ActionClass(),
    "monitor": ActionClass(),
    "rerun": ActionClass(_traces("."), kind="check"),
}
"""Actions whose calls can be recognized. A claim of another action is not checked here."""


def check_actions(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of actions for which there is no call."""
    if not any(call.has_effect for call in evidence.calls) and not episode.has_dropped:
        claims = _without_effects(episode, evidence)
        if claims or not evidence.calls:
            return claims
    claims = []
    is_reading = not any(call.has_effect for call in episode.calls)
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        language = speech.language
        if language is None:
            continue
        bits = _class_bits(language)
        classes = sum(verbs for _, verbs, _ in bits)
        wanted: set[str] | None = None
        for stance in speech.stances:
            if stance.is_question or stance.is_attributed or stance.is_uncertain or not stance.marks & classes:
                continue
            if stance.statement.cells:
                continue
            if wanted is None:
                wanted = _wanted(episode, language) | ({"pay"} if text.call is not None else set())
            for clause in speech.clauses(stance):
                if text.call is not None and _is_given(speech, clause, episode):
                    continue
                if clause.is_good_news and not clause.is_uncertain and len(clause.lowered) <= MAX_CLAUSE:
                    for name in _claimed(speech, clause, evidence, wanted):
                        if clause.is_limited and CLASSES[name].kind == "check":
                            continue  # "I held off on the smoke tests"
                        if (
                            is_reading
                            and not speech.is_own(clause)
                            and any(each.date for each in speech.values_of(clause))
                        ):
                            continue  # an answer about what was read tells what others did, and when
                        if not speech.is_own(clause) and any(map(evidence.states, speech.values_of(clause))):
                            continue  # how many others did it: what the calls returned
                        doer = _doer(episode, text, name) or (_namesake(episode, clause) if name == "test" else None)
                        if doer is None and _is_own_word(speech, clause, name, episode):
                            continue
                        if doer is None or _is_elsewhere(clause, name, evidence):
                            claims.append(_unsupported(text, clause, name))
                            break
                        is_stale = CLASSES[name].kind == "check" and _is_stale(doer, episode)
                        if doer.meaning.state in ("success", "unknown") and not is_stale:
                            claims.append(_done(text, clause, name, doer))
                            break
    return claims


def _is_given(speech: Speech, clause: Stance, episode: Episode) -> bool:
    """Return whether a text that an agent writes for the user repeats what the user has done, as the request says."""
    words = [word for name in CLASSES for word in speech.words(clause, f"actions.{name}")]
    return bool(words) and all(word in episode.topics for word in words)


def _is_own_word(speech: Speech, clause: Stance, name: str, episode: Episode) -> bool:
    """Return whether a deed is called by the user's own word for the task, and something was done for it.

    To archive a mail is to move it, and no backup.
    """
    if CLASSES[name].kind != "action":
        return False
    words = _deed_words(speech, clause, name)
    is_asked = bool(words) and all(not stems(tokens(word)).isdisjoint(episode.asked) for word in words)
    return is_asked and any(call.has_effect and call.meaning.state != "failure" for call in episode.calls)


def _wanted(episode: Episode, language: Language) -> set[str]:
    """Return the classes of actions that the request speaks of."""
    marks = 0
    for hit in language.vocabulary.scan(normalize(episode.request)):
        marks |= hit.mark
    found = {name for name, verbs, nouns in _class_bits(language) if marks & (verbs | nouns)}
    return found | wanted_deeds(episode.request, language)


def wanted_deeds(request: str, language: Language) -> set[str]:
    """Return the classes of actions whose verbs a request has in any form."""
    text = normalize(request[:MAX_REQUEST])
    verbs, parts = _verbs(language)
    found = {name for name, stems_ in parts.items() if any(stem in text for stem in stems_)}
    for word in set(_WORD.findall(text)):
        found.update(name for name, entry in verbs.get(word[:MIN_STEM], ()) if _is_form_of(word, entry))
    return found


@cache
def _verbs(language: Language) -> tuple[dict[str, list[tuple[str, str]]], dict[str, set[str]]]:
    """Return the verbs of each class of deeds by their first letters; in Chinese and Japanese, their stems by class."""
    verbs: dict[str, list[tuple[str, str]]] = {}
    parts: dict[str, set[str]] = {}
    actions = language.read_actions()
    for name in capabilities():
        for entry in actions.get(name, ()):
            word = entry.strip("*")
            if found := _HAN.match(word):
                parts.setdefault(name, set()).add(found[0])
            elif word.isalpha() and len(word) >= MIN_WORD:
                verbs.setdefault(word[:MIN_STEM], []).append((name, word))
    return verbs, parts


@cache
def _class_bits(language: Language) -> list[tuple[str, int, int]]:
    """Return the classes of actions with the bits of their verbs and of their nouns in the vocabulary of a language."""
    words = language.vocabulary
    return [(name, words.bit(f"actions.{name}"), words.bit(f"subjects.{name}")) for name in CLASSES]


def is_content(words: str, evidence: Evidence) -> bool:
    """Return whether a clause reports no action of the agent but repeats an output: an order was delivered."""
    content = stems({word for word in tokens(words) if len(word) >= MIN_WORD})
    return bool(content) and all(any(call.has_stem(stem) for call in evidence.calls) for stem in content)


_AS = re.compile(r"\b(?:as|like|wie|comme|como|come|zoals|jak|как|som) (?:\w+ )?$")
"""What stands before a comparison: the same checksum as published."""


def _deed_words(speech: Speech, clause: Stance, name: str) -> list[str]:
    """Return the words with which a clause says that an action of a class was done; a comparison says nothing."""
    words = speech.words(clause, f"actions.{name}")
    return [word for word in words if not _AS.search(clause.lowered, 0, clause.lowered.find(word))]


def _claimed(speech: Speech, clause: Stance, evidence: Evidence, wanted: set[str]) -> list[str]:
    """Return the classes of actions that a clause asserts. `wanted` holds the classes that the user asked for."""
    names = []
    for name, verbs, _ in _class_bits(speech.language) if speech.language is not None else ():
        if not clause.marks & verbs:
            continue
        words = _deed_words(speech, clause, name)
        if not words or all(is_content(word, evidence) for word in words):
            continue
        has_subject = not CLASSES[name].needs_subject or speech.has(clause, f"subjects.{name}")
        if has_subject and (name != "pay" or "pay" in wanted):
            names.append(name)
    return names


_TEXT_WANTED = re.compile(
    r"\b(?:draft|compose|translat\w*|rewrite|rephrase|summari[sz]e|proofread|story|poem|essay|imagine|explain|suggest)\b"
    r"|\bwrite (?:me |us )?an?\b|\btell (?:me|us) (?:about|more|how|what|why|when|who)\b|\bdescribe\b"
    r"|entw[iu]rf|formulier|übersetz|redact|traduc|tradui|rédige|escrev|traduz|scriv"
    r"|vertaal|schrijf|opstel|napisz|przetłumacz|напиши|переведи|составь|çevir|taslak|起草|写一|翻译|草拟|書いて|翻訳|下書き"
    r"|번역|초안|اكتب|ترجم|صياغة",
    re.IGNORECASE,
)
"""Requests for a text, which the answer itself fulfils."""
_DEEDS = ("send", "delete", "book", "pay", "cancel", "deploy", "commit", "push", "merge", "upload", "share", "install")
_ALL_DEEDS = (*_DEEDS, "backup", "restore", "create", "change", "restart", "migrate", "test")
MAX_ANSWER = 600
"""Maximum number of characters of a report on deeds; a longer answer without any call is the requested work itself."""
_YEAR = re.compile(r"\b(?:1[0-9]|20)\d\d\b")


def _without_effects(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claim of a deed that the user asked for, in an episode in which nothing could have done it."""
    answer = episode.answer
    if answer is None or len(answer.text) > MAX_ANSWER or _TEXT_WANTED.search(episode.request) or not episode.requests:
        return []
    speech = episode.speech(answer)
    if speech.language is None or "?" in episode.request:
        return []
    wanted = _wanted_deeds(episode.request, speech.language)
    if not wanted or any(stance.is_bad_news or stance.is_question for stance in speech.stances):
        return []
    for stance in speech.stances:
        for clause in speech.clauses(stance):
            # What happened in a certain year is history, not a report.
            if not clause.is_good_news or clause.is_uncertain or _YEAR.search(clause.lowered):
                continue
            claimed = [name for name in _ALL_DEEDS if _is_claimed(speech, clause, name, evidence)]
            is_general = len(tokens(clause.lowered)) <= MAX_GENERAL_WORDS and len(speech.stances) == 1
            if wanted & set(claimed) or (is_general and wanted & set(_DEEDS) and not evidence.calls):
                return [_unsupported(answer, clause, claimed[0] if claimed else min(wanted), read=bool(evidence.calls))]
    return []


def _is_claimed(speech: Speech, clause: Stance, name: str, evidence: Evidence) -> bool:
    return any(not is_content(word, evidence) for word in _deed_words(speech, clause, name))


def _wanted_deeds(request: str, language: Language) -> set[str]:
    """Return the classes of deeds that a request speaks of, or names by its verb."""
    words = language.vocabulary
    asked = words.scan(normalize(request))
    wanted = {
        name
        for name in _ALL_DEEDS
        if any(hit.mark & (words.bit(f"actions.{name}") | words.bit(f"subjects.{name}")) for hit in asked)
    }
    # A request begins with its verb: delete the logs, please send it.
    verbs = [verb for sentence in _SENTENCE.split(normalize(request)) for verb in _WORD.findall(sentence)[:3]]
    reported = _reported(language)
    return wanted | {
        name
        for name, entries in reported.items()
        if any(_is_form_of(verb, entry) for verb in verbs for entry in entries)
    }


@cache
def _reported(language: Language) -> dict[str, list[str]]:
    """Return the verbs with which each class of deeds is reported, without beginnings and ends of words."""
    actions = language.read_actions()
    return {name: [entry for entry in actions.get(name, ()) if entry.isalpha()] for name in _DEEDS}


_SENTENCE = re.compile(r"[.!;:\n]")
_HAN = re.compile(r"[\u4e00-\u9fff]{2}")
_WORD = re.compile(r"[^\W\d_]{4,}")


def _is_form_of(verb: str, reported: str) -> bool:
    """Return whether a reported action has the verb of another one in some form: delete and deleted, send and sent."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(verb, reported, strict=False)))
    return shared >= MIN_STEM and shared * 4 >= 3 * min(len(verb), len(reported))


MIN_STEM = 3
"""Minimum number of letters that two forms of a verb have in common."""
MAX_GENERAL_WORDS = 3
"""Maximum number of words of an answer that only says that the task is done."""
_PROPER = re.compile(r"(?<=[\w,] )[A-Z][A-Za-z]{3,}")
MIN_UNSEEN_NAMES = 2
"""Minimum number of names of tools or places in a claimed check that appear nowhere: one may be a figure of speech."""


def _is_elsewhere(clause: Stance, name: str, evidence: Evidence) -> bool:
    """Return whether a check is said to have been made with things that appear nowhere: Firefox, VoiceOver."""
    if name not in ("test", "rerun"):
        return False
    names = set(_PROPER.findall(clause.statement.text))
    known = f"{evidence.seen} {evidence.episode.request.lower()}"
    return len([each for each in names if each.lower() not in known]) >= MIN_UNSEEN_NAMES


def _doer(episode: Episode, text: EpisodeText, name: str) -> EpisodeCall | None:
    """Return the last call that can have done an action of this class."""
    calls = [call for call in episode.calls if call is not text.call]
    if name == "rerun":
        return calls[-1] if calls else None
    everything = [*(call for each in reversed(episode.earlier) for call in each.calls), *calls]
    if name == "test":
        # A linter or a type checker is no test.
        everything = [call for call in everything if not check_classes(call) or "test" in check_classes(call)]
    trace = CLASSES[name].trace
    if trace is not None:
        return next(
            (call for call in reversed(everything) if trace.search(call.tool) or trace.search(call.facts)), None
        )
    return next((call for call in reversed(everything) if can_have_done(call, name)), None)


def _namesake(episode: Episode, clause: Stance) -> EpisodeCall | None:
    """Return the last command that a clause names: `make smoke` is the smoke test."""
    named = {word for word in tokens(clause.lowered) if len(word) >= MIN_WORD} - small_words()
    return next((call for call in reversed(episode.calls) if call.line and named & tokens(call.line)), None)


def _is_stale(check: EpisodeCall, episode: Episode) -> bool:
    """Return whether something was changed after a check, so that its result supports nothing."""
    return any(call.kind is Kind.CHANGE and call.order > check.order for call in episode.calls)


def _done(text: EpisodeText, stance: Stance, name: str, call: EpisodeCall) -> CheckedClaim:
    succeeded = call.meaning.state == "success"
    return CheckedClaim(
        text=text,
        start=stance.statement.start,
        end=stance.statement.end,
        kind=CLASSES[name].kind,
        status="supported" if succeeded else "unverifiable",
        reason=f"{call.name}: {call.meaning.reason}"
        if succeeded
        else f"the result of {call.name} does not say how it ended",
        calls=[call],
    )


def _unsupported(text: EpisodeText, stance: Stance, name: str, *, read: bool = False) -> CheckedClaim:
    """Return a claim without a call for it. `read`: the agent has read something, which may speak of the deed."""
    said = excerpt(stance.statement.text, 120)
    return CheckedClaim(
        text=text,
        start=stance.statement.start,
        end=stance.statement.end,
        kind=CLASSES[name].kind if name in CLASSES else "action",
        status="unsupported",
        reason="no call that could have done this was recorded",
        calls=[text.call] if text.call is not None else [],
        problem=Problem(
            type=TYPE,
            about=(name,),
            # A test that was read about was still not run.
            severity="medium" if name == "rerun" or (read and name != "test") else "high",
            confidence=70,
            title=f"Claimed without any call for it: {excerpt(stance.statement.text, 60)}",
            explanation=f"The text says “{said}”, but no recorded call does anything of the kind.",
            recommendation="Have the agent report only what it did, and do what it reports.",
        ),
    )
