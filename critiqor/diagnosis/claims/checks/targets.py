"""Something that the user named was never touched by any call, and the agent reports it as done."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem, claim_on
from critiqor.diagnosis.claims.episode import Episode, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.values import values_in
from critiqor.diagnosis.signals.text import tokens
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"
MAX_REQUEST = 8_000
"""Maximum number of characters of a request whose names are looked for."""
_HANDLE = re.compile(r"(?<![\w&/])[#@][\w-]{3,}")
_CODE = re.compile(r"`([^`\n]{3,60})`")
_BRANCH = re.compile(r"(?<![\w./:$€£])[^\W\d][\w-]*/[\w./-]*\w")
_PER = re.compile(r"[^/.]*/[^/.]{1,3}|(?:and|he|his|him|yes|either)/\w+|[$€£]?\d[\d.,]*\w?/.*", re.IGNORECASE)
"""A unit such as Mbit/s, a price per unit, or two words or numbers of which one is meant."""
_MAY_BE_CAMEL = re.compile(r"[A-Z](?<=[a-z].)")
_CAMEL = re.compile(r"\b[a-z]+[A-Z]\w+\b|\b\w+_\w+\b")


def named_targets(request: str) -> list[str]:
    """Return the names in a request that leave no doubt: files, addresses, channels, branches, versions, code."""
    found = [
        value.text
        for value in values_in(request, has_numbers=False)
        if value.kind in ("path", "url", "email", "version", "identifier") and not _PER.fullmatch(value.text)
    ]
    if "#" in request or "@" in request:
        found += _HANDLE.findall(request)
    if "/" in request:
        found += [name for name in _BRANCH.findall(request) if not _PER.fullmatch(name)]
    if "_" in request or _MAY_BE_CAMEL.search(request):
        found += _CAMEL.findall(request)
    found += [code for code in _CODE.findall(request) if " " not in code and "(" not in code]
    return list(dict.fromkeys(name.strip(".,;:!?") for name in found))


def check_targets(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims about something that the user named and that no call touched."""
    answer = episode.answer
    if answer is None or not episode.calls or not evidence.is_complete:
        return []
    claims = []
    for name in named_targets(episode.request[:MAX_REQUEST]):
        if _is_seen(name.lower(), evidence.seen):
            continue
        for stance in episode.speech(answer).stances:
            if stance.is_good_news and not stance.is_uncertain and _mentions(stance.lowered, name.lower()):
                claims.append(_checked(answer, *claim_on(answer, stance), name))
                break
    return claims


def _is_seen(name: str, seen: str) -> bool:
    if name in seen:
        return True
    bare = name.lstrip("#@v~").rsplit("/", 1)[-1]
    if len(bare) >= 3 and bare in seen:
        return True
    stem, _, ending = bare.rpartition(".")
    return ending in _BUILT and len(stem) >= MIN_STEM and f"{stem}." in seen


_BUILT = frozenset(
    ("o", "so", "a", "vo", "class", "jar", "pyc", "exe", "dll", "wasm", "map", "whl", "pdf", "html", "min.js")
)
"""Endings of files that a compiler or a converter makes of another file of the same name."""
MIN_STEM = 4


def _mentions(statement: str, name: str) -> bool:
    return name in statement or (
        len(name) > 4 and name.lstrip("#@v~").rsplit("/", 1)[-1].split(".")[0] in tokens(statement)
    )


def _checked(text: EpisodeText, start: int, end: int, name: str) -> CheckedClaim:
    quote = excerpt(text.text[start:end], 80)
    return CheckedClaim(
        text=text,
        start=start,
        end=end,
        kind="action",
        status="unsupported",
        reason=f"no call mentions {name}",
        problem=Problem(
            type=TYPE,
            about=("target",),
            severity="high",
            confidence=75,
            title=f"Reported {excerpt(name, 40)} as done, but no call touched it",
            explanation=f"The user named {name}, and the answer says “{quote}”, but neither the "
            "arguments nor the output of any call contain it.",
            recommendation=f"Have the agent do what was asked about {name}, or say that it did not.",
        ),
    )
