"""What the words of an answer say: states such as `on_request`, and the names of members such as `rows_rejected`."""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache

import msgspec

from critiqor.diagnosis.results.meaning_struct import ResultState
from critiqor.diagnosis.results.rules import FOLDER

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STATUS = re.compile(r"([1-5]\d\d)(?:_|$)", re.ASCII)
_SEPARATOR = re.compile(r"[\s_:.,;/!()-]+")
_OPEN = re.compile(r"(?:still_|yet_)?to_be_\w+|will_be_\w+|yet_to_\w+")
"""A state that is to come: to be confirmed, will be repriced."""
_MAX_WORDS = 5
"""Maximum number of words of a state; more are a text about something."""
_MIN_STEM = 4
_OPENING = ("error", "failed", "failure", "fehler", "erreur")
"""StateWords that say enough at the beginning of a longer text: `ERROR: no space left on device`."""
_KINDS: tuple[ResultState, ...] = ("success", "failure", "not_final")


class StateWords(msgspec.Struct, frozen=True):
    """The words and members in `rules/states.toml`."""

    states: dict[str, ResultState]
    """Whole values."""
    parts: dict[str, ResultState]
    """Single words of values."""
    lists: dict[str, frozenset[str]]
    """The other lists of the file by name."""
    intended: dict[str, frozenset[str]]
    contrary: dict[str, frozenset[str]]
    names: tuple[str, ...]
    """Members with the name of an item, in order."""


@cache
def state_words() -> StateWords:
    """Return the words of answers that state something, such as `on_request`."""
    document = tomllib.loads((FOLDER / "states.toml").read_text("utf-8"))
    states: dict[str, ResultState] = {}
    parts: dict[str, ResultState] = {}
    for kind in _KINDS:
        states.update(dict.fromkeys(_entries(document.pop(kind)), kind))
        parts.update(dict.fromkeys(_entries(document.pop(f"{kind}_words")), kind))
    intended, contrary = (
        {verb: frozenset(_entries(text)) for verb, text in document.pop(name).items()}
        for name in ("intended", "contrary")
    )
    names = tuple(_entries(document["name_members"]))
    lists = {name: frozenset(_entries(text)) for name, text in document.items()}
    return StateWords(states, parts, lists, intended, contrary, names)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.replace("\n", ",").split(",") if entry.strip()]


@lru_cache(maxsize=2048)
def name_of(key: str) -> str:
    """Return the name of a member as lists of state words have it: in lower case, with `_` between its words."""
    return _CAMEL.sub("_", key).lower().replace("-", "_") if not key.islower() else key.replace("-", "_")


def state_of_word(value: str) -> ResultState | None:
    """Return what a state such as `In Progress` or `PENDING_MANAGER` says; None if its words are unknown."""
    return _state_of(normal_state(value))


def normal_state(value: str) -> str:
    """Return a state in lower case, with `_` between its words."""
    word = value.strip()
    word = _CAMEL.sub("_", word) if not word.isupper() else word
    return _SEPARATOR.sub("_", word.lower()).strip("_")


@lru_cache(maxsize=2048)
def _state_of(word: str) -> ResultState | None:
    known = state_words()
    if (found := known.states.get(word)) is not None:
        return found
    if status := _STATUS.match(word):
        return http_state(int(status[1]))
    if _OPEN.match(word):
        return "not_final"
    parts = word.split("_")
    if len(parts) > _MAX_WORDS or (len(parts) > 2 and parts[0] in _OPENING):
        return "failure" if parts[0] in _OPENING else None
    said = [known.parts.get(part) for part in parts]
    negating = known.lists["negating_words"]
    if any(part in negating for part in parts):
        # `not_sent` failed, `no_errors` did not; `no_show` is unknown.
        if "failure" in said:
            return "success" if said.count("failure") == 1 and len(parts) == 2 else None
        return "failure" if "success" in said else None
    return next((kind for kind in ("failure", "not_final", "success") if kind in said), None)


def http_state(status: int) -> ResultState | None:
    """Return the state that an HTTP status means where it stands in place of a state word; None for other numbers."""
    if status == 202:
        return "not_final"
    if 200 <= status < 300:
        return "success"
    return "failure" if 400 <= status <= 599 else None


def has_same_stem(word: str, verb: str) -> bool:
    """Return whether a word of a state is a form of a verb: `extended` of `extend`, `reservation` of `reserve`."""
    if word == verb:
        return True
    if len(verb) < _MIN_STEM:
        return len(verb) == _MIN_STEM - 1 and word in (f"{verb}ed", f"{verb}{verb[-1]}ed")
    size = max(_MIN_STEM, min(len(word), len(verb)) - 1)
    return len(verb) >= _MIN_STEM and word[:size] == verb[:size] and not word.endswith("ing")
