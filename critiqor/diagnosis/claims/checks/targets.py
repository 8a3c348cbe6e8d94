"""Something that the user named was never touched by any call, and the agent reports it as done."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem, claim_on
from critiqor.diagnosis.claims.episode import Episode, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.values import values_in
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"
AND = r"(?<![-'’\w])(?:and|und|y|e|et|en|i|och|и|ve)(?![-'’\w])|和|と|및|\sو"
"""Words between the last two of several things; `e` is none in `e-mail`."""
MAX_REQUEST = 8_000
"""Maximum number of characters of a request whose names are looked for."""
_HANDLE = re.compile(r"(?<![\w&/])[#@][\w-]{3,}")
_CODE = re.compile(r"`([^`\n]{3,60})`")
_BRANCH = re.compile(r"(?<![\w./:$€£])[^\W\d][\w-]*/[\w./-]*\w")
_PER = re.compile(
    r"[^/.]*/[^/.]{1,3}|[$€£]?\d[\d.,]*\w?/.*"
    r"|(?!(?:feat\w*|fix|bugfix|hotfix|release|chore|docs|origin|refactor|test|dev|user)/)[^\W\d_]+/[^\W\d_]+",
    re.IGNORECASE,
)
"""A unit such as Mbit/s, a price per unit, or two words of which one or both are meant: before/after."""
_MAY_BE_CAMEL = re.compile(r"[A-Z](?<=[a-z].)")
_CAMEL = re.compile(r"\b[a-z]+[A-Z]\w+\b|\b\w+_\w+\b")


def targets_in_request(request: str) -> list[str]:
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
    claims = list(_unused_numbers(episode, answer, evidence))
    for name in targets_in_request(episode.request[:MAX_REQUEST]):
        if _is_seen(name.lower(), evidence.seen):
            continue
        for stance in episode.speech(answer).stances:
            if stance.is_good_news and not stance.is_uncertain and _mentions(stance.lowered, name.lower()):
                claims.append(_checked(answer, *claim_on(answer, stance), name))
                break
    return claims


def _unused_numbers(episode: Episode, answer: EpisodeText, evidence: Evidence) -> Iterator[CheckedClaim]:
    """Yield the claims about a telephone number, a postcode or the like that was given, and that no call contains.

    Only if calls with an effect contain another number or address of the same sentence: a number that is only
    mentioned, such as one to call back, is needed by none.
    """
    request = episode.request[:MAX_REQUEST]
    numbers = [match for match in _GROUPED.finditer(request) if not _is_digits_seen(match[0], evidence.squeezed)]
    if not numbers:
        return
    used = "\n".join(call.arguments for call in episode.calls if call.has_effect).lower()
    for match in numbers:
        before, after = _SENTENCE.split(request[: match.start()])[-1], _SENTENCE.split(request[match.end() :])[0]
        if not any(name.lower() in used for name in targets_in_request(f"{before} {after}")):
            continue
        near = f"{_SEGMENT.split(before)[-1]} {_SEGMENT.split(after)[0]}"
        words = stems({word for word in tokens(near) if len(word) >= MIN_STEM} - small_words())
        for stance in episode.speech(answer).stances:
            is_meant = match[0] in stance.lowered or words & stems(tokens(stance.lowered))
            if is_meant and stance.is_good_news and not stance.is_uncertain:
                yield _checked(answer, *claim_on(answer, stance), match[0])
                break


_GROUPED = re.compile(r"(?<![\w.,+/-])\+?\d{2,5}(?:[ /-]\d{2,9}){1,4}(?![\w/-]|[.,]\d)")
"""Digits in groups, as in telephone numbers and postcodes."""
_SENTENCE = re.compile(r"[.!?;。！？]\s|\n")
_SEGMENT = re.compile(rf"[,:，、]|{AND}")
MIN_DIGITS = 5
LAST_DIGITS = 6
"""Number of digits at the end of a telephone number that do not depend on how its beginning is written."""


def _is_digits_seen(number: str, seen: str) -> bool:
    digits = "".join(filter(str.isdigit, number))
    is_date = any(value.date is not None or value.unit for value in values_in(number))
    return len(digits) < MIN_DIGITS or is_date or digits[-LAST_DIGITS:] in seen


def _is_seen(name: str, seen: str) -> bool:
    if name in seen:
        return True
    # Of a pattern, only the beginning is fixed.
    bare = name.partition("*")[0].lstrip("#@v~").rsplit("/", 1)[-1]
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
