"""Only some of several items were dealt with, and the agent speaks of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.checks.targets import named_targets
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import word_numbers
from critiqor.diagnosis.signals.text import decode_json
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
MIN_ITEMS = 3
"""Minimum number of items of a list; of two, one may well stand for both."""
MAX_REQUEST = 2_000
"""Maximum number of characters of a request whose items are looked for."""
MAX_NAME = 200
"""Maximum number of characters of the name of a file."""
MAX_ITEMS = 60
"""Maximum number of items of a list that is compared item by item."""
_NAME = re.compile(r"[^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,2}")
_AND = re.compile(r"\s*(?:,|，|、|;|\band\b|\bund\b|\by\b|\be\b|\bet\b|\ben\b|\bi\b|\bи\b|\bve\b|和|と|및|و)\s*")
_LISTED = re.compile(r"(?:[^,，、;:.!?\n()]{2,40}(?:,|，|、)\s*){1,12}[^,，、;:.!?\n()]{2,40}")
_COMMA = re.compile("[,，、]")
BULK = re.compile(r"\*|\bfor \w+ in\b|\bxargs\b|\bfind [^|;]*-exec|\s-[rR]\b|--all\b|\{\w+,|\bwhile\b|\bglob\(|\bmap\(")
"""Command lines that deal with many items at once."""
_FILE = re.compile(r"(?<![\w.~/@+-])[\w.~/@+-]*\w\.[A-Za-z]\w{0,5}\b")


_ENDING = re.compile(r"\.[A-Za-z]")
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")
_MACHINE = re.compile(r"\b[a-z][a-z0-9]*(?:-[a-z0-9]+)+\b|\b[a-z]+\d+\b")


class Items(msgspec.Struct, frozen=True):
    """A list of items that the user named or an output showed."""

    names: tuple[str, ...]
    order: int
    call: EpisodeCall | None = None


def check_completeness(episode: Episode) -> list[CheckedClaim]:
    """Return the claims about all of several items of which some were left out."""
    answer = episode.answer
    if answer is None or len(episode.calls) < 2 or not _may_be_complete(episode.speech(answer)):
        return []
    for items in (*requested_items(episode), *shown_items(episode)):
        missing, calls = _missing(episode, items)
        if not missing:
            continue
        claim = _complete_claim(episode.speech(answer), items, missing)
        if claim is not None:
            return [_incomplete(answer, claim, items, missing, calls)]
    return []


def _may_be_complete(speech: Speech) -> bool:
    """Return whether a text can speak of all of several items: it says so, or gives a small number."""
    if speech.mentions("totality"):
        return True
    numbers = [*speech.values, *word_numbers(speech.text, speech.language)]
    return any(MIN_ITEMS <= value.number <= MAX_ITEMS for value in numbers if value.readings and value.decimals == 0)


def requested_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of names in the request: addresses, files, ids, and names in a row."""
    for request in episode.requests:
        text = request.text[:MAX_REQUEST]
        found = named_targets(text)
        for kind in (_ADDRESS, _FILE, _MACHINE):
            names = [name for name in found if kind.fullmatch(name)] or kind.findall(text)
            if MIN_ITEMS <= len(set(names)) <= MAX_ITEMS:
                yield Items(tuple(dict.fromkeys(names)), request.order)
        for match in _LISTED.finditer(text) if _COMMA.search(request.text) else ():
            parts = [part.strip(" \"'`“”«».") for part in _AND.split(match[0])]
            # The words before the first name and after the last one belong to the sentence.
            names = [part.rsplit(" ", 1)[-1] if number == 0 else part for number, part in enumerate(parts)]
            names = [name.split(" ")[0] if number == len(names) - 1 else name for number, name in enumerate(names)]
            names = [name for name in names if len(name) >= 2 and name[0].isupper()]
            if MIN_ITEMS <= len(set(names)) <= MAX_ITEMS:
                yield Items(tuple(dict.fromkeys(names)), request.order)


def shown_items(episode: Episode) -> Iterator[Items]:
    """Yield the lists of files and records in outputs."""
    for call in episode.calls:
        if call.kind in (Kind.ACTION, Kind.CHANGE, Kind.THOUGHT) or call.is_check:
            continue
        for names in (_files(call.text), _members(call.text)):
            if MIN_ITEMS <= len(names) <= MAX_ITEMS:
                yield Items(tuple(names), call.order, call)


def _files(text: str) -> list[str]:
    """Return the files of a listing: lines that hold nothing else."""
    if len(_ENDING.findall(text)) < MIN_ITEMS:
        return []
    lines = [line.split() for line in text.splitlines() if line.strip()]
    names = [word for words in lines if all(map(_is_file, words)) for word in words]
    return list(dict.fromkeys(names)) if len(names) * 2 > sum(map(len, lines)) else []


def _is_file(word: str) -> bool:
    return len(word) <= MAX_NAME and _FILE.fullmatch(word) is not None


def _members(text: str) -> list[str]:
    """Return the identifying member of each object of the longest list in a JSON answer."""
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return []
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    longest = max(lists, key=len, default=[])
    for name in (
        "path",
        "file",
        "url",
        "name",
        "id",
        "key",
        "title",
        "email",
        "sku",
        "slug",
        "code",
        "number",
        "ref",
        "host",
    ):
        found = [str(item[name]) for item in longest if isinstance(item, dict) and item.get(name)]
        if len(found) == len(longest) and found:
            return list(dict.fromkeys(found))
    return [item for item in longest if isinstance(item, str)] if all(isinstance(each, str) for each in longest) else []


def _missing(episode: Episode, items: Items) -> tuple[list[str], list[EpisodeCall]]:
    """Return the items that no later call names although the same tool was called for others, and those calls."""
    later = [call for call in episode.calls if call.order > items.order and call.meaning.state != "failure"]
    by_tool: dict[str, list[EpisodeCall]] = {}
    for call in later:
        by_tool.setdefault(call.tool, []).append(call)
    best: tuple[list[str], list[EpisodeCall]] = ([], [])
    most = 0
    for calls in by_tool.values():
        touched = {name for name in items.names for call in calls if is_named_by(call, name)}
        if not 1 <= len(touched) < len(items.names) or (len(touched) == 1 and len(items.names) > 4):
            continue
        with_effect = any(call.has_effect for call in calls)
        comparable = [call for call in later if call.has_effect] if with_effect else later
        if any(BULK.search(call.line) for call in comparable):
            continue
        missing = [name for name in items.names if not any(is_named_by(call, name) for call in comparable)]
        if missing and len(touched) > most:
            best, most = (missing, calls), len(touched)
    return best


def is_named_by(call: EpisodeCall, name: str) -> bool:
    """Return whether the arguments of a call name an item."""
    lowered = call.arguments.lower()
    short = name.lower().rsplit("/", 1)[-1]
    stem = short.split(".")[0]
    return short in lowered or (len(stem) > 3 and stem in lowered)


def _complete_claim(speech: Speech, items: Items, missing: list[str]) -> Stance | None:
    """Return the statement that speaks of all items, unless the missing ones are admitted."""
    count = float(len(items.names))
    text = speech.text.lower()
    for stance in speech.stances:
        if (stance.is_bad_news or stance.is_limited) and any(
            name.lower().split(".")[0] in stance.lowered for name in missing
        ):
            return None
    for stance in speech.stances:
        if not stance.is_asserted or (stance.is_bad_news and not _names_before_bad_news(speech, stance, missing)):
            continue
        values = [*speech.values_of(stance), *word_numbers(stance.statement.text, speech.language)]
        stated = {value.number for value in values if value.readings}
        if any(count - number in stated or number == count - len(missing) for number in stated if number < count):
            return None  # it says how many were dealt with, or left
        counts = count in stated
        total = speech.has(stance, "totality")
        named = sum(name.lower().split(".")[0] in text for name in missing) == len(missing)
        if counts or total or named:
            return stance
    return None


def _names_before_bad_news(speech: Speech, stance: Stance, missing: list[str]) -> bool:
    """Return whether all missing items are named before any bad news: `I read a, b and c, and there is no error`."""
    ends = [stance.lowered.find(stem_of(name)) for name in missing]
    if min(ends, default=-1) < 0:
        return False
    end = max(at + len(stem_of(name)) for at, name in zip(ends, missing, strict=True))
    return speech.part(stance, end).is_good_news


def stem_of(name: str) -> str:
    """Return the name of an item as texts mention it: without folder and extension."""
    return name.lower().rsplit("/", 1)[-1].split(".")[0]


def _incomplete(
    answer: EpisodeText, stance: Stance, items: Items, missing: list[str], calls: list[EpisodeCall]
) -> CheckedClaim:
    names = ", ".join(excerpt(name, 40) for name in missing[:3]) + (" …" if len(missing) > 3 else "")
    said = excerpt(stance.statement.text, 100)
    decide = [items.call] if items.call is not None else []
    return CheckedClaim(
        text=answer,
        start=stance.statement.start,
        end=stance.statement.end,
        kind="completeness",
        status="contradicted",
        reason=f"no call deals with {names}",
        calls=[*decide, *calls[-1:]],
        problem=Problem(
            type=TYPE,
            about=("completeness",),
            severity="high",
            confidence=70,
            title=f"Reported all of {counted(len(items.names), 'item')}, but {len(missing)} were left out: {names}",
            explanation=f"The answer says “{said}”, but no recorded call names {names}.",
            recommendation="Have the agent work through the whole list, or name what it left out.",
        ),
    )
