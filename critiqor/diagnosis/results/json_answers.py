"""What a JSON answer says about the call: `ok: false`, an error member, a state, or items with a state each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import msgspec

from critiqor.diagnosis.results.meaning import MAX_QUOTE, SEVERITY, UNKNOWN, Meaning, ResultState
from critiqor.diagnosis.results.rules import FOLDER

MAX_JSON = 65536
"""Maximum number of characters of a JSON answer that is decoded."""
_MAX_DEPTH = 4
_MAX_ITEMS = 200
_NO_ERROR = frozenset(("", "none", "null", "ok", "no error", "noerror", "0", "false", "success", "n/a", "-"))
_STATUS = re.compile(r"([1-5]\d\d)(?:_|$)", re.ASCII)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Words(msgspec.Struct, frozen=True):
    """The words and members in `rules/states.toml`."""

    states: dict[str, ResultState]
    telling: frozenset[str]
    """All members that say something; most members of an answer do not."""
    members: dict[str, frozenset[str]]
    intended: dict[str, frozenset[str]]


@cache
def words() -> Words:
    """Return the known words."""
    document = tomllib.loads((FOLDER / "states.toml").read_text("utf-8"))
    states: dict[str, ResultState] = {}
    names: tuple[ResultState, ...] = ("success", "failure", "not_final")
    for name in names:
        states.update(dict.fromkeys(_entries(document.pop(name)), name))
    intended = {verb: frozenset(_entries(text)) for verb, text in document.pop("intended").items()}
    members = {name: frozenset(_entries(text)) for name, text in document.items()}
    telling = frozenset().union(*(names for kind, names in members.items() if kind != "ignored_members"))
    return Words(states, telling | {"code"}, members, intended)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.replace("\n", ",").split(",") if entry.strip()]


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


def decoded(text: str) -> Any:
    """Return the JSON value that a text consists of; None if it is none."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "[") or len(stripped) > MAX_JSON:
        return None
    try:
        return msgspec.json.decode(stripped)
    except msgspec.DecodeError:
        return None


def meaning_of_json(value: Any, text: str, verbs: frozenset[str] = frozenset(), *, lookup: bool = False) -> Meaning:
    """Return what a JSON answer means.

    `verbs` are the words in the name of the tool. For a `lookup`, states describe what was looked up, and
    only errors count.
    """
    known = words()
    intended = frozenset().union(*(known.intended[verb] for verb in verbs if verb in known.intended))
    signs = list(_signs(value, 0, known, intended, lookup))
    if not signs:
        return UNKNOWN
    strong = [sign for sign in signs if not sign.weak]
    if strong:
        # The outermost state describes the call, those inside describe parts of it.
        failures = [sign for sign in signs if sign.state == "failure" and sign.rule != "json_state"]
        states = [sign for sign in strong if sign.rule in ("json_state", "json_items", "json_counts")]
        outermost = min((sign.depth for sign in states), default=0)
        candidates = failures + [sign for sign in states if sign.depth == outermost]
        candidates += [sign for sign in strong if sign not in states]
    else:
        candidates = signs
    worst = max(SEVERITY[sign.state] for sign in candidates)
    chosen = min((sign for sign in candidates if SEVERITY[sign.state] == worst), key=_rank)
    return _meaning(chosen, text)


def _rank(sign: _Sign) -> tuple[bool, int, bool]:
    """Return the order of equal statements: those with numbers first, then the outer ones, then those that say why."""
    return (sign.failed is None, sign.depth, sign.rule == "json_verdict")


def _signs(value: Any, depth: int, known: Words, intended: frozenset[str], lookup: bool) -> Iterator[_Sign]:
    if isinstance(value, list):
        if not lookup:
            yield from _items(value, depth, known, intended)
        return
    if not isinstance(value, dict):
        return
    yield from _counts(value, depth, known)
    members, telling = known.members, known.telling
    for key, member in value.items():
        name = _name(key)
        if name in members["ignored_members"]:
            continue
        is_telling = name in telling or name.replace("_", "") in telling or name.endswith(("_status", "_state"))
        if is_telling and (sign := _sign(key, name, member, depth, known, intended, lookup)):
            yield sign
        elif isinstance(member, dict | list) and depth < _MAX_DEPTH and name not in members["error_members"]:
            yield from _signs(member, depth + 1, known, intended, lookup)


@lru_cache(maxsize=2048)
def _name(key: str) -> str:
    return _CAMEL.sub("_", key).lower().replace("-", "_") if not key.islower() else key.replace("-", "_")


def _sign(
    key: str, name: str, value: Any, depth: int, known: Words, intended: frozenset[str], lookup: bool
) -> _Sign | None:
    members, flat = known.members, name.replace("_", "")
    if isinstance(value, bool):
        return _verdict(key, name, flat, value, depth, members, lookup)
    if name in members["error_members"] or flat in members["error_members"]:
        return _error(key, value, depth)
    if isinstance(value, int):
        return _number(key, name, flat, value, depth, members)
    if isinstance(value, str):
        is_state = name in members["state_members"] or flat in members["state_members"]
        if is_state or name.endswith(("_status", "_state")):
            return None if len(value) > 60 else _state(key, value, depth, known, intended, lookup)
        if depth == 0 and name == "dry_run" and value.lower() == "true":
            return _Sign("not_final", depth, key, value, "json_state", "dry run")
    return None


def _verdict(
    key: str, name: str, flat: str, value: bool, depth: int, members: dict[str, frozenset[str]], lookup: bool
) -> _Sign | None:
    names = (name, flat)
    if depth > 2 or (lookup and depth > 0):
        return None
    said = f"{key} is {str(value).lower()}"
    if any(found in members["good_members"] for found in names):
        if lookup and name not in ("ok", "success", "is_success"):
            return None
        return _Sign("success" if value else "failure", depth, key, value, "json_verdict", said, weak=value)
    if not value or (lookup and flat != "iserror"):
        return None
    if any(found in members["bad_members"] for found in names):
        return _Sign("failure", depth, key, value, "json_verdict", said)
    if any(found in members["pending_members"] for found in names):
        return _Sign("not_final", depth, key, value, "json_state", said)
    return None


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
    return _Sign("failure", depth, key, value, "json_error", _error_reason(key, value), failed=failed)


def _error_reason(key: str, value: Any) -> str:
    if isinstance(value, list):
        value = value[0]
    if isinstance(value, dict):
        value = next((value[name] for name in ("message", "code", "type", "detail", "reason") if value.get(name)), "")
    said = " ".join(str(value).split())
    return f"{key}: {said[:79]}…" if len(said) > 80 else f"{key}: {said}" if said else f"{key} is set"


def _number(key: str, name: str, flat: str, value: int, depth: int, members: dict[str, frozenset[str]]) -> _Sign | None:
    if name in members["exit_members"] or flat in members["exit_members"]:
        return _Sign("failure" if value else "success", depth, key, value, "json_exit_code", f"exit code {value}")
    is_http = name in members["http_members"] or flat in members["http_members"]
    if depth > 2 or not (is_http or (name in ("status", "code") and 100 <= value <= 599)):
        return None
    state = http_state(value)
    return _Sign(state, depth, key, value, "http_status", f"HTTP status {value}", state == "success") if state else None


def http_state(status: int) -> ResultState | None:
    """Return what an HTTP status says; None for a number that is no status, or for a redirection."""
    if status == 202:
        return "not_final"
    if 200 <= status < 300:
        return "success"
    return "failure" if 400 <= status <= 599 else None


def state_of_word(value: str, intended: frozenset[str] = frozenset()) -> ResultState | None:
    """Return what a state such as `In Progress` says; None if the word is unknown."""
    word = value.strip().rstrip(".!")
    word = (word if word.isupper() else _CAMEL.sub("_", word)).lower().replace(" ", "_").replace("-", "_")
    if word in intended:
        return "success"
    found = words().states.get(word)
    if found is None and (status := _STATUS.match(word)):
        return http_state(int(status[1]))
    return found


def _state(key: str, value: str, depth: int, known: Words, intended: frozenset[str], lookup: bool) -> _Sign | None:
    state = state_of_word(value, intended)
    if state is None:
        return None
    if lookup and not (
        depth == 0 and value.lower() in ("error", "failure", "ok", "success") and key.lower() == "status"
    ):
        return None
    # "status": "ok" may be no more than the sign that an answer came.
    weak = state == "success" and value.lower() in ("ok", "success", "succeeded", "true")
    return _Sign(state, depth, key, value, "json_state", f"{key} is {value.lower()}", weak)


def _counts(value: dict[str, Any], depth: int, known: Words) -> Iterator[_Sign]:
    """Yield what the numbers of failed and successful items in an object say."""
    numbers: dict[str, tuple[str, int]] = {}
    for key, member in value.items():
        if type(member) is int:
            count = member
        elif type(member) is list:
            count = len(member)
        else:
            continue
        name = _name(key)
        for kind in ("failed_members", "passed_members", "total_members"):
            if name in known.members[kind] or name.replace("_", "") in known.members[kind]:
                numbers.setdefault(kind, (key, count))
    failed, passed = numbers.get("failed_members"), numbers.get("passed_members")
    total = numbers.get("total_members")
    counts = {
        "failed": failed[1] if failed else None,
        "passed": passed[1] if passed else None,
        "total": total[1] if total else None,
    }
    if failed and failed[1] > 0:
        yield _Sign(
            "failure", depth, failed[0], value[failed[0]], "json_counts", f"{failed[0]}: {failed[1]}", False, **counts
        )
    elif passed and total and 0 <= passed[1] < total[1]:
        reason = f"{passed[1]} of {total[1]}"
        yield _Sign("failure", depth, passed[0], value[passed[0]], "json_counts", reason, False, **counts)
    elif failed and passed and passed[1] > 0:
        reason = f"{failed[0]}: 0"
        yield _Sign("success", depth, failed[0], value[failed[0]], "json_counts", reason, True, **counts)


def _items(items: list[Any], depth: int, known: Words, intended: frozenset[str]) -> Iterator[_Sign]:
    """Yield what a list says whose items have a state each."""
    states: list[tuple[_Sign, int]] = []
    for index, item in enumerate(items[:_MAX_ITEMS]):
        if isinstance(item, dict):
            found = [sign for sign in _signs(item, _MAX_DEPTH, known, intended, False) if sign.state != "unknown"]
            found = found or list(_item_errors(item, known))
            if found:
                states.append((max(found, key=lambda sign: SEVERITY[sign.state]), index))
    if not states:
        return
    failed = sum(sign.state == "failure" for sign, _ in states)
    passed = sum(sign.state == "success" for sign, _ in states)
    worst = max((sign for sign, _ in states), key=lambda sign: SEVERITY[sign.state])
    total = len(items)
    reason = f"{failed} of {total} failed" if failed else f"{worst.reason}" if passed < total else f"{passed} succeeded"
    yield _Sign(worst.state, depth, worst.key, worst.value, "json_items", reason, False, failed, passed, total)


def _item_errors(item: dict[str, Any], known: Words) -> Iterator[_Sign]:
    for key, value in item.items():
        name = _name(key)
        if isinstance(value, bool):
            if sign := _verdict(key, name, name.replace("_", ""), value, 1, known.members, False):
                yield sign
        elif name in known.members["error_members"] and (error := _error(key, value, 1)):
            yield error


def _meaning(sign: _Sign, text: str) -> Meaning:
    found = None
    if isinstance(sign.value, str | int | float | bool):
        encoded = re.escape(msgspec.json.encode(sign.value).decode()[:60])
        found = re.search(rf'"{re.escape(sign.key)}"\s*:\s*{encoded}', text)
    if found is None:
        found = re.search(rf'"{re.escape(sign.key)}"\s*:\s*[^\n]{{0,120}}', text)
    quote, start = (found[0][:MAX_QUOTE].rstrip(), found.start()) if found else ("", -1)
    return Meaning(sign.state, sign.reason, quote, start, sign.rule, sign.failed, sign.passed, sign.total)
