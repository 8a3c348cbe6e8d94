"""What a JSON answer says about the call: `ok: false`, an error member, a state, or items with a state each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from critiqor.diagnosis.results.json_items import counts_of, item_name, names_of
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE, SEVERITY, UNKNOWN, Meaning, ResultState
from critiqor.diagnosis.results.state_words import (
    StateWords,
    has_same_stem,
    http_state,
    name_of,
    normal_state,
    state_of_word,
    state_words,
)
from critiqor.diagnosis.signals.text import decode_json

MAX_JSON = 65536
"""Maximum number of characters of a JSON answer that is decoded."""
_MAX_DEPTH = 4
_MAX_ITEMS = 200
_MAX_STATE = 60
"""Maximum number of characters of a state; more are a text."""
_MAX_GIVEN = 80
_ABOUT_RESULT = ("metadata", "meta")
"""Members that describe the result, not the thing: their states do not count, their numbers do."""
_NO_ERROR = frozenset(("", "none", "null", "ok", "no error", "noerror", "0", "false", "success", "n/a", "-"))
_SMTP = re.compile(r"[45]\d\d[ -]#?[45]\.\d{1,3}\.\d{1,3}\b")
_UNDER_WAY = re.compile(r"[a-z]{3,}ing")
"""A state such as `encoding`: it goes on."""
_MAKING = frozenset(("create", "add", "new", "todo", "task", "draft", "insert", "list"))
_LATER = frozenset(("completed", "done", "published", "deployed", "valid", "healthy", "delivered", "sent", "saved"))
"""What a thing that was only made, or scheduled, is not yet: it says nothing about the call."""
_DELIVERING = frozenset(
    ("send", "pay", "transfer", "publish", "post", "deploy", "charge", "refund", "email", "mail", "message", "sms")
)
"""Verbs of calls whose deed is the delivery: that it is planned does not mean that it is done."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\b\d{1,2}:\d\d\b|\bcron\b")


class _Sign(msgspec.Struct, frozen=True, gc=False):
    """A member that says something about the call."""

    state: ResultState
    depth: int
    key: str
    value: Any
    rule: str
    reason: str
    weak: bool = False
    """Whether a state further inside outranks it: `"ok": true` may only mean that an answer came."""
    failed: int | None = None
    passed: int | None = None
    total: int | None = None
    items: tuple[str, ...] = ()


class _Call:
    """What is known of a call: what it is for, and what it was given."""

    def __init__(self, verbs: frozenset[str], arguments: str, *, lookup: bool) -> None:
        self.known = state_words()
        self.lookup = lookup
        self.arguments = arguments
        self._verbs = verbs

    @cached_property
    def given(self) -> Any:
        """The arguments."""
        return decoded(self.arguments)

    @cached_property
    def values(self) -> frozenset[str]:
        """The short values of its arguments: an answer that repeats one says what was asked for."""
        found: set[str] = set()
        waiting = [self.given]
        while waiting and len(found) < _MAX_ITEMS:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value[:_MAX_ITEMS]
            elif isinstance(value, str) and len(value) <= _MAX_GIVEN:
                found.add(normal_state(value))
        return frozenset(found)

    @cached_property
    def verbs(self) -> frozenset[str]:
        """The words of its name, and of the arguments that say what it does."""
        if not isinstance(self.given, dict):
            return self._verbs
        names = self.known.lists["verb_arguments"]
        said = [value for name, value in self.given.items() if isinstance(value, str) and name.lower() in names]
        return self._verbs | {part for value in said for part in normal_state(value[:_MAX_GIVEN]).split("_")}

    @cached_property
    def intended(self) -> frozenset[str]:
        """The states that it is to lead to."""
        return frozenset().union(*(self.known.intended.get(verb, ()) for verb in self.verbs))

    @cached_property
    def contrary(self) -> frozenset[str]:
        """The states that it is to end."""
        return frozenset().union(*(self.known.contrary.get(verb, ()) for verb in self.verbs))

    @cached_property
    def is_for_later(self) -> bool:
        """Whether it was given the time at which something is to happen, and what is to happen reaches nobody."""
        return _DELIVERING.isdisjoint(self.verbs) and _MOMENT.search(self.arguments) is not None

    def is_form(self, word: str) -> bool:
        """Return whether a word is a form of what the call is for."""
        return any(has_same_stem(word, verb) for verb in self.verbs)

    def state_of(self, value: str) -> ResultState | None:
        """Return what a state says of this call: `cancelled` is the success of `cancel_order`."""
        word = normal_state(value)
        found = state_of_word(value)
        if word in self.known.lists["for_later_words"] and self.is_for_later:
            return "success"
        if found == "success" and word not in self.contrary:
            return found
        rest = "_".join(part for part in word.split("_") if not self.is_form(part))
        if word in self.intended or rest in self.intended:
            return "success"
        if word in self.contrary:
            return None if word in self.values else "failure"
        if found is None and _UNDER_WAY.fullmatch(word):
            return None if word in self.values else "not_final"
        if found is None:
            parts = frozenset(word.split("_"))
            is_done = any(part.endswith("ed") and self.is_form(part) for part in parts)
            return "success" if is_done and self.known.lists["negating_words"].isdisjoint(parts) else None
        if word in self.values or not rest:
            return "success"
        # Of `pending (item modified)`, the answer of `modify_pending_order`, no word is left that says more.
        return found if rest == word or state_of_word(rest) == found else "success"


def states_of(verbs: frozenset[str], arguments: str) -> Callable[[str], ResultState | None]:
    """Return what a state in a JSON answer says of a call: `cancelled` is the success of `cancel_order`.

    The arguments are read once for all states that it is asked about.
    """
    return _Call(verbs, arguments, lookup=False).state_of


def decoded(text: str) -> Any:
    """Return the value of an answer that is nothing but JSON; None if it is something else."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "[") or len(stripped) > MAX_JSON:
        return None
    try:
        return decode_json(stripped)
    except msgspec.DecodeError:
        return None


_LEAF = re.compile(r"<(?:[\w-]+:)?([A-Za-z][\w.-]*)(?:\s[^<>]*)?>\s*([^<>]{1,200}?)\s*</")


def leaves_of_xml(text: str) -> dict[str, str] | None:
    """Return the texts in an XML answer by element, to be read as a JSON answer; None for a page or without texts."""
    if len(text) > MAX_JSON or _PAGE.search(text[:_MAX_HEAD]):
        return None
    return dict(_LEAF.findall(text)) or None


_PAGE = re.compile(r"<!doctype html|<html|<svg|<body|<div", re.IGNORECASE)
_MAX_HEAD = 2_000
"""Number of characters at the beginning of an answer in which a page is recognized."""


def meaning_of_json(
    value: Any, text: str, verbs: frozenset[str] = frozenset(), *, lookup: bool = False, arguments: str = ""
) -> Meaning:
    """Return what a JSON answer means.

    `verbs` are the words in the name of the tool. For a `lookup`, states describe what was looked up, and
    only errors count.
    """
    call = _Call(verbs, arguments, lookup=lookup)
    signs = list(_signs(value, 0, call))
    if not signs:
        return UNKNOWN
    if any(sign.state == "success" and name_of(sign.key) in _RESULTS for sign in signs):
        # A job that has stopped with a success has ended as it should.
        signs = [sign for sign in signs if str(sign.value).lower() not in _ENDED]
    strong = [sign for sign in signs if not sign.weak]
    if strong:
        # The outermost state describes the call, those inside describe parts of it.
        failures = [sign for sign in signs if sign.state == "failure" and sign.rule != "json_state"]
        states = [sign for sign in strong if sign.rule in ("json_state", "json_items", "json_counts")]
        if states:
            # A cancelled order is cancelled, whether or not its refund is still pending.
            strong = [sign for sign in strong if sign.rule != "json_word" or sign.state == "failure"]
        outermost = min((sign.depth for sign in states), default=0)
        decisive = [sign for sign in states if sign.depth == outermost]
        if any("_" not in name_of(sign.key) for sign in decisive):
            # The `state` of a booking outranks its `refund_state`, unless that failed.
            decisive = [sign for sign in decisive if sign.state == "failure" or "_" not in name_of(sign.key)]
        candidates = failures + decisive + [sign for sign in strong if sign not in states]
        if decisive and max(SEVERITY[sign.state] for sign in decisive) < SEVERITY["failure"]:
            # A message that is `scheduled` is not sent yet, and a confirmed order may have no number yet.
            candidates = [sign for sign in candidates if sign.rule not in ("json_null", "json_later")]
    else:
        candidates = signs
    worst = max(SEVERITY[sign.state] for sign in candidates)
    chosen = min((sign for sign in candidates if SEVERITY[sign.state] == worst), key=_rank)
    if not chosen.items and chosen.state == "failure":
        named = next((sign for sign in candidates if sign.items and sign.state == "failure"), chosen)
        chosen = msgspec.structs.replace(chosen, items=named.items)
    return _meaning(chosen, text)


_RESULTS = frozenset(("result", "conclusion", "outcome", "verdict", "exitstatus"))
"""Members that say how something ended; a state beside them says that it has."""
_ENDED = frozenset(("stopped", "terminated", "closed", "ended", "exited", "halted"))


def _rank(sign: _Sign) -> tuple[bool, int, bool]:
    """Return the order of equal statements: those with numbers first, then the outer ones, then those that say why."""
    return (sign.failed is None, sign.depth, sign.rule == "json_verdict")


def _signs(value: Any, depth: int, call: _Call) -> Iterator[_Sign]:
    if isinstance(value, list):
        if not call.lookup:
            yield from _items([(item_name(item), item) for item in value[:_MAX_ITEMS]], depth, call)
        return
    if not isinstance(value, dict):
        return
    yield from _counts(value, depth, call)
    lists = call.known.lists
    if not call.lookup and depth and len(value) > 1 and all(isinstance(member, dict) for member in value.values()):
        yield from _items(list(value.items())[:_MAX_ITEMS], depth, call)
        return
    for key, member in value.items():
        name = name_of(key)
        if name in lists["ignored_members"]:
            if name in _ABOUT_RESULT and not call.lookup:
                yield from _nested_counts(member, depth + 1, call)
            continue
        if sign := _sign(key, name, member, depth, call):
            yield sign
        elif isinstance(member, dict | list) and depth < _MAX_DEPTH and name not in lists["error_members"]:
            yield from _signs(member, depth + 1, call)


def _sign(key: str, name: str, value: Any, depth: int, call: _Call) -> _Sign | None:
    lists = call.known.lists
    if isinstance(value, bool):
        return _verdict(key, name, value, depth, call)
    if value is None:
        return None if call.lookup else _missing(key, name, depth, call)
    if _is_in(name, lists["error_members"]):
        return _error(key, value, depth)
    if isinstance(value, int):
        return _number(key, name, value, depth, call.known)
    if not isinstance(value, str) or len(value) > _MAX_STATE * 2:
        return None
    if value[:1] in ("4", "5") and _SMTP.match(value) and name not in lists["content_members"]:
        return _Sign("failure", depth, key, value, "json_error", f"{key}: {value[:80]}")
    if depth == 0 and name in _ABOUT_ANSWER and value.lower() in _FAULTS:
        return _Sign("failure", depth, key, value, "json_error", f"{key} is {value.lower()}")
    last = name.rpartition("_")[2]
    if last in lists["state_members"] or name.endswith(("status", "state")):
        return None if len(value) > _MAX_STATE else _state(key, value, depth, call)
    if depth == 0 and name == "dry_run" and value.lower() == "true":
        return _Sign("not_final", depth, key, value, "json_state", "dry run")
    if not call.lookup and depth <= 2 and name not in lists["content_members"] and len(value) <= _MAX_STATE:
        return _unnamed_state(key, value, depth, call)
    return None


_ABOUT_ANSWER = frozenset(("object", "type", "kind", "result", "outcome", "response"))
_FAULTS = frozenset(("error", "failure", "exception", "fault"))
"""What a member that says of which type an answer is has for a failure."""


def _is_in(name: str, listed: frozenset[str]) -> bool:
    return name in listed or name.replace("_", "") in listed


def _verdict(key: str, name: str, value: bool, depth: int, call: _Call) -> _Sign | None:
    lists, lookup = call.known.lists, call.lookup
    if depth > 2 or (lookup and depth > 0):
        return None
    if isinstance(call.given, dict) and call.given.get(key) is value and not _is_in(name, lists["good_members"]):
        return None  # it was asked for: `"locked": false` to unlock something, `"draft": true` for a draft
    said = f"{key} is {str(value).lower()}"
    if _is_in(name, lists["good_members"]):
        if lookup and name not in ("ok", "success", "is_success"):
            return None
        if not value and name in _LATER:
            if not _MAKING.isdisjoint(call.verbs):
                return None
            return _Sign("failure", depth, key, value, "json_later", said)
        return _Sign("success" if value else "failure", depth, key, value, "json_verdict", said, weak=value)
    if lookup and not (value and name.replace("_", "") == "iserror"):
        return None
    if not value:
        last = name.rpartition("_")[2]
        if name in lists["open_members"]:
            return None if call.is_form(name) else _Sign("not_final", depth, key, value, "json_null", said)
        if name in lists["outcome_members"] or (last.endswith(("ed", "en", "t")) and call.is_form(last)):
            return _Sign("failure", depth, key, value, "json_verdict", said)
        return None
    if _is_in(name, lists["bad_members"]):
        return None if call.is_form(name) else _Sign("failure", depth, key, value, "json_verdict", said)
    if _is_in(name, lists["pending_members"]) and call.state_of(name) != "success":
        return _Sign("not_final", depth, key, value, "json_state", said)
    return None


def _missing(key: str, name: str, depth: int, call: _Call) -> _Sign | None:
    """Return what `null` says where the thing that was to be made, its number or its confirmation belongs."""
    lists = call.known.lists
    if depth > 1:
        return None
    if _is_in(name, lists["confirmations"]):
        return _Sign("not_final", depth, key, None, "json_null", f"{key} is null")
    noun, _, last = name.rpartition("_")
    thing = noun if noun and last in lists["identity_words"] else name
    if "_" in thing or not call.is_form(thing):
        return None
    return _Sign("failure", depth, key, None, "json_null", f"{key} is null")


def _error(key: str, value: Any, depth: int) -> _Sign | None:
    if not value or depth > 2 or (isinstance(value, str) and value.strip().lower() in _NO_ERROR):
        return None
    if isinstance(value, dict) and all(not inner for inner in value.values()):
        return None
    if isinstance(value, list) and not any(value):
        return None
    failed = (
        len(value) if isinstance(value, list) else value if type(value) is int and "code" not in key.lower() else None
    )
    names = names_of(value) if isinstance(value, list) else ()
    return _Sign("failure", depth, key, value, "json_error", _error_reason(key, value), failed=failed, items=names)


def _error_reason(key: str, value: Any) -> str:
    if isinstance(value, list):
        value = value[0]
    if isinstance(value, dict):
        value = next((value[name] for name in ("message", "code", "type", "detail", "reason") if value.get(name)), "")
    said = " ".join(str(value).split())
    return f"{key}: {said[:79]}…" if len(said) > 80 else f"{key}: {said}" if said else f"{key} is set"


def _number(key: str, name: str, value: int, depth: int, known: StateWords) -> _Sign | None:
    if _is_in(name, known.lists["exit_members"]):
        return _Sign("failure" if value else "success", depth, key, value, "json_exit_code", f"exit code {value}")
    is_http = _is_in(name, known.lists["http_members"])
    if depth > 2 or not (is_http or (name in ("status", "code") and 100 <= value <= 599)):
        return None
    state = http_state(value)
    return _Sign(state, depth, key, value, "http_status", f"HTTP status {value}", state == "success") if state else None


def _state(key: str, value: str, depth: int, call: _Call) -> _Sign | None:
    state = call.state_of(value)
    if state is None:
        return None
    if call.lookup and not (
        depth == 0 and value.lower() in ("error", "failure", "ok", "success") and key.lower() == "status"
    ):
        return None
    # "status": "ok" may be no more than the sign that an answer came.
    weak = state == "success" and value.lower() in ("ok", "success", "succeeded", "true")
    return _Sign(state, depth, key, value, "json_state", f"{key} is {value.lower()}", weak)


def _unnamed_state(key: str, value: str, depth: int, call: _Call) -> _Sign | None:
    """Return what a clear state says under any name: `{"front": "locked", "back": "jammed"}`."""
    word = normal_state(value)
    if value[:1].isdigit() or word in call.known.lists["vague"] or _UNDER_WAY.fullmatch(word):
        return None
    state = call.state_of(value)
    if state is None:
        return None
    items = (key,) if state == "failure" else ()
    weak = state == "success"
    return _Sign(state, depth, key, value, "json_word", f"{key} is {value.lower()}", weak, items=items)


def _nested_counts(value: Any, depth: int, call: _Call) -> Iterator[_Sign]:
    """Yield what the numbers say that are about the result as a whole: `"metadata": {"counters": {…}}`."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        yield from _counts(value, 0, call)
        for member in value.values():
            yield from _nested_counts(member, depth + 1, call)


def _counts(value: dict[str, Any], depth: int, call: _Call) -> Iterator[_Sign]:
    """Yield what the numbers of failed and successful items in an object say."""
    if call.lookup and (depth or call.known.lists["state_members"].isdisjoint(map(name_of, value))):
        return  # it counts what was looked up
    counts = counts_of(value, call.known)
    failed, passed, total = counts.get("failed"), counts.get("passed"), counts.get("total")
    numbers = (failed and failed.number, passed and passed.number, total and total.number)
    if failed and failed.number > 0:
        reason, items = f"{failed.key}: {failed.number}", names_of(value[failed.key])
        yield _Sign("failure", depth, failed.key, value[failed.key], "json_counts", reason, False, *numbers, items)
    elif passed and total and 0 <= passed.number < total.number:
        reason = f"{passed.number} of {total.number}"
        yield _Sign("failure", depth, passed.key, value[passed.key], "json_counts", reason, False, *numbers)
    elif failed and passed and passed.number > 0:
        reason = f"{failed.key}: 0"
        yield _Sign("success", depth, failed.key, value[failed.key], "json_counts", reason, True, *numbers)


def _items(items: list[tuple[str, Any]], depth: int, call: _Call) -> Iterator[_Sign]:
    """Yield what a list says whose items have a state each."""
    states: list[tuple[_Sign, str]] = []
    for name, item in items:
        if isinstance(item, dict):
            found = [sign for sign in _item_signs(item, call) if sign.state != "unknown"]
            if found:
                states.append((max(found, key=lambda sign: SEVERITY[sign.state]), name))
    if not states:
        return
    failed = sum(sign.state == "failure" for sign, _ in states)
    passed = sum(sign.state == "success" for sign, _ in states)
    worst = max((sign for sign, _ in states), key=lambda sign: SEVERITY[sign.state])
    total = len(items)
    reason = f"{failed} of {total} failed" if failed else worst.reason if passed < total else f"{passed} succeeded"
    names = tuple(name for sign, name in states if sign.state == worst.state and name) if passed < total else ()
    yield _Sign(worst.state, depth, worst.key, worst.value, "json_items", reason, False, failed, passed, total, names)


def _item_signs(item: dict[str, Any], call: _Call) -> Iterator[_Sign]:
    """Yield what an item of a list says of itself: an item inside of it is not examined."""
    ignored = call.known.lists["ignored_members"]
    for key, value in item.items():
        name = name_of(key)
        if name not in ignored and (sign := _sign(key, name, value, 1, call)):
            yield sign


def _meaning(sign: _Sign, text: str) -> Meaning:
    found = None
    if sign.value is None or isinstance(sign.value, str | int | float | bool):
        encoded = re.escape(msgspec.json.encode(sign.value).decode()[:60])
        found = re.search(rf'"{re.escape(sign.key)}"\s*:\s*{encoded}', text)
    if found is None:
        found = re.search(rf'"{re.escape(sign.key)}"\s*:\s*[^\n]{{0,120}}', text)
    quote, start = (found[0][:MAX_QUOTE].rstrip(), found.start()) if found else ("", -1)
    return Meaning(sign.state, sign.reason, quote, start, sign.rule, sign.failed, sign.passed, sign.total, sign.items)
