"""What a user forbids, wants to keep, or wants to be asked about, and whether an operation breaks it."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.hazards.operations import Operation
from critiqor.diagnosis.hazards.session_history import requests_of
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.signals.text import tokens

_CLAUSE = re.compile(
    r"[.!?]+(?:\s+|$)|[,;:()\n]|[，。；！？、]|\s[–—-]\s|\b(?:but|and|aber|und|pero|mais|mas|però|maar|men|och|ale|но|ama)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?]+(?:\s+|$)|\n|[。！？]")
_REMINDER = re.compile(
    r"forget|vergiss|vergess|olvid|oubli|esque|dimentic|vergeet|glöm|zapomn|забуд|unutma|忘|잊|تنس|hesitat|worry", re.I
)
_AFTER = re.compile(
    r"^(?:nicht|kein\w*|nichts|niet|geen|inte|ej|inget|inga|pas|rien|jamais|[^\x00-\u02ff].*|.*(?:me|ma|meyin|mayın))$"
)
"""Negations that can follow the verb."""
_TRASH = re.compile(r"trash|recycle|bin\b", re.IGNORECASE)
_FOR_GOOD = re.compile(
    r"permanent|\bhard\b|for good|forever|irrevers|irrevoc|endgültig|dauerhaft|unwiderruflich|définiti|definiti"
    r"|para siempre|para sempre|per sempre|voorgoed|för gott|för alltid|trwale|na stałe"
    r"|навсегда|безвозвратн|окончательн|kalıcı|永久|彻底|完全に|영구|نهائي",
    re.IGNORECASE,
)
"""A way of deleting that the trash is not: what is in it can be taken back."""
MAX_BETWEEN = 5
"""Maximum number of words between a negation and what it forbids."""
_SPECIFIC = re.compile(r"\w@\w|\w\.\w+/|\d[\w-]*\w{3}|[A-Za-z]-?\d{3}")
"""An address or an identifier in a request: an operation whose target contains it is the one that is meant."""
_IN_BULK = re.compile(
    r"群发|群組|群组|\bbulk|\bmass\b|\bgroup (?:mail|message|chat|text)|sammel|rundmail|en masse|masiv|zbiorcz|массов"
    r"|рассылк|toplu|一斉|一括|단체|جماعي",
    re.IGNORECASE,
)
"""Sending one message to many at once."""
_NUMBER = re.compile(r"\d{3,}")
"""A number that tells one target from the others: buckets of the pull requests 611 and 618."""
_FILLER = 3
_SHORT = 3
"""Maximum number of characters of a name that is too short to be recognized in a text."""


class Broken(msgspec.Struct, frozen=True):
    """A limit that an operation breaks."""

    kind: str
    text: str


_CLASSES = {
    "delete": ("touch",),
    "discard": ("touch", "force"),
    "force": ("force",),
    "overwrite": ("touch",),
    "stop": ("stop",),
    "send": ("send",),
}


def broken_limit(episode: Episode, operation: Operation) -> Broken | None:
    """Return the limit of the user that an operation breaks; None if it breaks none."""
    requests = requests_of(episode)
    for at, request in enumerate(requests):
        if at < len(requests) - len(episode.requests) and _is_lifted(requests[at + 1 :], operation):
            continue
        kept = _without_ordered(request, operation)
        is_ordered = operation.verb == "delete" and bool(operation.targets) and not kept.targets
        broken = _broken(request, kept, operation.targets, episode, is_ordered=is_ordered)
        if broken is not None:
            return broken
    return None


def may_forbid_change(requests: list[str], operation: Operation) -> bool:
    """Return whether requests can forbid to overwrite the targets of an operation: one names a file and a limit."""
    names = [name for target in operation.targets if len(name := target.rpartition("/")[2].lower()) > _SHORT]
    return bool(names) and any(
        words("forbid").may_be_within(request) or words("keep").may_be_within(request)
        for request in requests
        if any(name in request.lower() for name in names)
    )


def _is_lifted(later: list[str], operation: Operation) -> bool:
    concepts = ("delete", "act", "force") if operation.verb != "send" else ("send", "act")
    return any(words(concept).within(text) for text in later for concept in concepts)


def _without_ordered(request: str, operation: Operation) -> Operation:
    """Return an operation without the targets that a request names in full where it limits nothing: they are meant."""
    clauses = [clause for clause in _CLAUSE.split(request) if clause]
    allowed = " ".join(each for each in clauses if not (words("forbid").within(each) or words("keep").within(each)))
    given = {word.strip(".,;:") for word in allowed.split() if _SPECIFIC.search(word)}
    numbers = set(_NUMBER.findall(allowed))
    kept = tuple(
        target
        for target in operation.targets
        if len(target) <= _SHORT
        or not (
            _names(allowed, target)
            or any(_names(target, each) for each in given)
            or not numbers.isdisjoint(_NUMBER.findall(target))
        )
    )
    return msgspec.structs.replace(operation, targets=kept)


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", text, re.IGNORECASE) is not None


def _broken(
    request: str, operation: Operation, named: tuple[str, ...], episode: Episode, *, is_ordered: bool
) -> Broken | None:
    if operation.verb in ("delete", "discard", "force") or (operation.verb == "send" and operation.is_wide):
        for sentence in _SENTENCE.split(request):
            for concept in ("ask_first", "dry_run"):
                places = words(concept).find(sentence)
                # A word in the name of a target limits nothing: preview-pr-611.
                found = {sentence[start:end].lower() for start, end in places}
                if any(not any(word in target.lower() for target in named) for word in found):
                    return Broken(concept, sentence.strip())
    # What the same request orders by name is no part of what it forbids in general: "no other", "not for good".
    for clause in () if is_ordered else _CLAUSE.split(request):
        if not clause or _REMINDER.search(clause):
            continue
        if _forbids(clause, operation, episode) or _keeps(clause, operation):
            return Broken("forbidden", clause.strip())
    return None


def _forbids(clause: str, operation: Operation, episode: Episode) -> bool:
    negations = words("forbid").find(clause)
    if not negations or (_TRASH.search(operation.what) and _FOR_GOOD.search(clause)):
        return False
    if operation.verb == "send" and not operation.is_wide and _IN_BULK.search(clause):
        return False
    for concept in _CLASSES[operation.verb]:
        for start, end in words(concept).find(clause):
            for first, last in negations:
                between = clause[last:start] if last <= start else clause[end:first]
                in_order = first <= start or _AFTER.match(clause[first:last].lower()) is not None
                if in_order and len(between.split()) <= MAX_BETWEEN and _is_about(clause, operation, concept):
                    return bool(_named(clause, operation)) or not _names_another(clause, episode)
    return False


def _names_another(clause: str, episode: Episode) -> bool:
    """Return whether a clause names something that the results list: not what an operation is about."""
    return any(
        re.search(rf"(?m)(?:^\s*|[/\"']){re.escape(word)}(?=[\s\"'/]|$)", call.lowered) is not None
        for word in tokens(clause)
        if len(word) > _SHORT
        for call in episode.calls
        if word in call.lowered
    )


def _keeps(clause: str, operation: Operation) -> bool:
    if operation.verb not in ("delete", "discard", "overwrite") or not words("keep").within(clause):
        return False
    named = _named(clause, operation)
    return bool(named) and (operation.verb != "overwrite" or any(_is_kept(clause.lower(), name) for name in named))


def _is_kept(clause: str, name: str) -> bool:
    """Return whether a file is what is to stay, and not the place of something else: `keep notes in a.md`."""
    at = clause.find(name)
    before = [end for _, end in words("keep").find(clause) if end <= at]
    return not before or len(clause[before[-1] : at].split()) <= MAX_ARTICLES


MAX_ARTICLES = 1
"""Maximum number of words between `keep` and the file that is to stay as it is."""


def _named(clause: str, operation: Operation) -> set[str]:
    """Return the words of a clause that name what an operation is about."""
    lowered = clause.lower()
    if operation.verb == "overwrite":
        # Only a file that is named itself: a folder or a topic is too vague to forbid a change.
        names = {target.rpartition("/")[2].lower() for target in operation.targets}
        return {name for name in names if len(name) > _SHORT and name in lowered}
    parents = [word.strip("\"'`,.") for word in lowered.split() if "/" in word and len(word) >= 4]
    within = {parent for parent in parents for target in operation.targets if target.lower().startswith(parent)}
    if within:
        return within
    last = [target.rstrip("/*").rpartition("/")[2] for target in operation.targets]
    own = {word for name in last for word in tokens(name.partition(".")[0] or name) if len(word) >= 3}
    said = tokens(clause)
    return {word for word in own if word in said or any(one.startswith(word[:5]) for one in said if len(word) >= 5)}


def _is_about(clause: str, operation: Operation, concept: str) -> bool:
    """Return whether a clause that forbids something means the target of an operation."""
    if operation.verb == "overwrite":
        return bool(_named(clause, operation))
    if concept in ("force", "send") or _named(clause, operation):
        return concept != "send" or _is_general(clause, operation)
    return _is_general(clause, operation)


def _is_general(clause: str, operation: Operation) -> bool:
    """Return whether a clause names nothing in particular: `don't delete anything`."""
    known = [span for concept in ("forbid", "touch", "send", "force", "delete") for span in words(concept).find(clause)]
    rest = clause
    for start, end in known:
        rest = rest[:start] + " " * (end - start) + rest[end:]
    if not rest.isascii() and not re.search(r"\s", clause.strip()):
        return len(rest.strip()) <= 2 * _FILLER  # languages without spaces
    return len(tokens(rest)) <= _FILLER
