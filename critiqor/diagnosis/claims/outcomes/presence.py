"""A text says that something is there, or no longer there, and the last look at the place shows otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.outcomes.affected import covers, is_change, is_look
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.model.sanitize import excerpt

MIN_SIBLINGS = 2
"""Minimum number of things of the same kind in an output that lists them."""
MAX_BETWEEN = 12
"""Maximum number of characters between the word for an absence and what is absent: no more remaining X."""
_MARKED = re.compile(
    r"#[A-Z]{2,20}[A-Z0-9/]{0,20}[!?]?|`([^`\s]{3,60})`|\b[A-Z]{2,8}[-_]\d{1,20}\b"
    # Bounded, and only from the beginning of a word: long texts without a space are read in one go.
    r"|(?<![\w.+@-])(?:[\w.+-]{1,64}@)?[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}(?![\w@-])",
    re.ASCII,
)
"""Names that occur in a text and in an output in the same form: codes, addresses, hosts, and what is set as code."""
_CODE = re.compile(r"([A-Za-z]{2,8}[-_])\d+")
_GONE = re.compile(
    r"(?<![\w.:])0(?![\w.:])|:\s?0\b|\[\s?\]|\bnull\b|^\s*-"
    r"|\b(?:no|not|none|never|without|removed?|removing|deleted?|deleting|fixed|replaced|renamed)\b",
    re.IGNORECASE,
)
"""Signs of a line of output that says of something that it is not there, or that it was removed."""


def check_presence(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims that something is there, or is not, which the last look at the place contradicts."""
    answer = episode.answer
    looks = [call for call in episode.calls if is_look(call) and call.text] if answer is not None else []
    if answer is None or not looks or not _MARKED.search(answer.text):
        return []
    speech = episode.speech(answer)
    claims = []
    for stance in speech.stances:
        if stance.is_question or stance.is_uncertain or stance.is_plan or stance.is_limited or stance.statement.cells:
            continue
        for match in _MARKED.finditer(speech.text, stance.statement.start, stance.statement.end):
            name = match[1] or match[0]
            if _is_said_absent(speech, stance, match):
                look = _shows(episode, looks, name) if not _goes_on(speech, match.end()) else None
                if look is not None:
                    claims.append(_contradicted(answer, stance, look, f"still shows {excerpt(name, 40)}"))
                    break
            elif stance.is_good_news and evidence.is_complete:
                look = _leaves_out(episode, looks, name)
                if look is not None:
                    others = ", ".join(excerpt(one, 40) for one in _siblings(look.text, name)[:3])
                    claims.append(_contradicted(answer, stance, look, f"lists {others}, and not {excerpt(name, 40)}"))
                    break
    return claims


def _is_said_absent(speech: Speech, stance: Stance, match: re.Match[str]) -> bool:
    """Return whether a word beside a name says that there is none of it."""
    for start, end in speech.places(stance, "absent"):
        gap = speech.lowered[end : match.start()] if end <= match.start() else speech.lowered[match.end() : start]
        is_behind = end > match.start()
        if is_behind and (speech.language is None or speech.language.code not in _BEHIND):
            continue
        if len(gap) <= MAX_BETWEEN and len(gap.split()) <= 1 and not _BREAK.search(gap):
            return True
    return False


def _goes_on(speech: Speech, end: int) -> bool:
    """Return whether a limit follows in the same sentence, which a mark such as `#REF!` has ended too early."""
    following = next((one for one in speech.stances if one.statement.start >= end), None)
    return following is not None and following.is_limited and following.statement.text.lstrip()[:1].islower()


_BEHIND = frozenset(("ja", "ko", "tr", "zh"))
"""Languages in which the word for an absence follows what is absent."""
_BREAK = re.compile(r"[.,;:()!?，。；：（）]")


def _shows(episode: Episode, looks: list[EpisodeCall], name: str) -> EpisodeCall | None:
    """Return the last look that shows a name, if nothing was changed and nobody has looked again since."""
    for look in reversed(looks):
        if name in look.text:
            lines = [line for line in look.text.splitlines() if name in line]
            if all(map(_GONE.search, lines)):
                return None
            later = [call for call in episode.calls if call.order > look.order]
            return None if any(is_change(call) or covers(call, look) for call in later) else look
    return None


def _leaves_out(episode: Episode, looks: list[EpisodeCall], name: str) -> EpisodeCall | None:
    """Return the last look if it lists things like a name, and nothing that was done or seen contains the name."""
    look = looks[-1]
    if len(_siblings(look.text, name)) < MIN_SIBLINGS:
        return None
    lowered = name.lower()
    for call in episode.calls:
        is_done = is_change(call) and (call.order > look.order or lowered in call.facts.lower())
        if (is_done and call is not look) or lowered in call.lowered:
            return None
    return look if lowered in episode.request.lower() else None


def _siblings(text: str, name: str) -> list[str]:
    """Return the things in an output whose names are of the form of a name: hosts of a domain, codes of a series."""
    return list(dict.fromkeys(one for one in _like(text, name) if one.lower() != name.lower()))


def _like(text: str, name: str) -> Iterator[str]:
    if code := _CODE.fullmatch(name):
        yield from re.findall(rf"(?<![\w-]){re.escape(code[1])}\d+(?![\w-])", text)
    elif name.count(".") >= 2 or "@" in name:
        parent = name.rpartition("@")[2] if "@" in name else ".".join(name.split(".")[-2:])
        if parent.lower() in text.lower():
            yield from re.findall(rf"(?<![\w.@-])(?:[\w.+-]+[.@])?{re.escape(parent)}(?![\w-])", text, re.IGNORECASE)


def _contradicted(answer: EpisodeText, stance: Stance, look: EpisodeCall, shown: str) -> CheckedClaim:
    return CheckedClaim(
        text=answer,
        start=stance.statement.start,
        end=stance.statement.end,
        kind="check",
        status="contradicted",
        reason=f"{look.name} {shown}",
        calls=[look],
        problem=Problem(
            type="unsupported_claim",
            about=("presence",),
            severity="high",
            confidence=75,
            title=f"The last look contradicts the report: {look.name} {shown}",
            explanation=f"The answer says “{excerpt(stance.statement.text, 100)}”, but {look.name} {shown}.",
            recommendation="Have the agent report what its last look at the place shows.",
        ),
    )
