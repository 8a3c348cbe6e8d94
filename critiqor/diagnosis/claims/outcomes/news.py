"""What later looks show about earlier calls: a bounced mail, a jammed door, a command that has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.language import Language
from critiqor.diagnosis.claims.outcomes.parts import says_bad_news
from critiqor.diagnosis.claims.outcomes.troubled_rows import ERROR_VALUE, row_of, state_of_rest
from critiqor.diagnosis.results import Meaning
from critiqor.diagnosis.results.app_answers import app_tool_changes
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.results.json_answers import decoded, meaning_of_json, states_of
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE
from critiqor.diagnosis.results.state_words import state_words
from critiqor.diagnosis.signals.tool_calls import words_of_tool
from critiqor.spans.calls import Kind

_BOUNCE = re.compile(
    r"mailer-daemon|delivery status notification|undeliverable|undelivered|address not found|could ?n[o']t be delivered"
    r"|\b55\d[ -]5\.\d|nxdomain|mail delivery|was ?n[o']t delivered|mailbox (?:full|unavailable)"
    r"|user unknown|no such user|delivery (?:has )?failed|bounced",
    re.IGNORECASE,
)
_BOUNCE_SIGNS = ("deliver", "mailer-daemon", "address not", "nxdomain", "mailbox", "unknown", "no such", "bounced")
"""One of them is in each such text, unless it only gives the code of an error."""
_BOUNCE_CODE = re.compile(r"\b55\d[ -]5\.\d")
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ID = re.compile(r"[A-Za-z0-9][\w-]{3,}")
_NAME = re.compile(r"(?=.*[^\W\d_])(?=.*[\d._@:#-])[^\s\"']{4,80}", re.DOTALL)
"""What identifies a thing: `lock.back_door`, `VB-2206`, `ana@x.org`; a plain word or number does not."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d")
_MAX_OBJECTS = 200
_MAX_DEPTH = 4


def with_later_news(calls: list[EpisodeCall], language: Language | None) -> list[EpisodeCall]:
    """Return the calls, each with what later looks at it show."""
    shown = _shown(calls, language)
    for number, (look, said) in (_looked_at(calls) | _other_values(calls)).items():
        if number not in shown:
            shown[number] = msgspec.structs.replace(calls[number], known_meaning=said, result_id=look.result_id)
    return [
        shown[number] if number in shown else _with_returned_mail(call, calls, number)
        for number, call in enumerate(calls)
    ]


def _with_returned_mail(call: EpisodeCall, calls: list[EpisodeCall], number: int) -> EpisodeCall:
    if call.meaning.state == "not_final":
        call = _with_end(call, calls[number + 1 :])
    if call.kind is not Kind.ACTION or call.meaning.state == "failure":
        return call
    names: set[str] = set()
    for look in calls[number + 1 :]:
        if look.has_effect:
            continue
        bounce = _bounce(look)
        if bounce or look.meaning.state == "failure":
            names = names or _names(call)
            if not names & {*_ID.findall(look.text), *_ADDRESS.findall(look.text)}:
                continue
            quote = bounce or look.meaning.quote
            news = msgspec.structs.replace(look.meaning, state="failure", quote=quote, reason="it was returned")
            return msgspec.structs.replace(call, known_meaning=news, result_id=look.result_id)
    return call


def _bounce(look: EpisodeCall) -> str:
    """Return the words with which an output says that a message was returned, with what is around; empty if none."""
    if look.known_bounce is None:
        pattern = _BOUNCE if any(map(look.lowered.__contains__, _BOUNCE_SIGNS)) else _BOUNCE_CODE
        found = pattern.search(look.text)
        look.known_bounce = look.text[max(0, found.start() - 20) : found.end() + 60] if found else ""
    return look.known_bounce


def _names(call: EpisodeCall) -> set[str]:
    """Return what identifies an action and what it is about: numbers, keys, addresses."""
    names = {word for word in _ID.findall(f"{call.text} {call.arguments}") if any(map(str.isdigit, word))}
    return names | set(_ADDRESS.findall(call.arguments))


def _with_end(call: EpisodeCall, later: list[EpisodeCall]) -> EpisodeCall:
    """Return a call that went on in the background with how it ended, if a later look at it shows a failure."""
    # A later command with an effect names the same files, and fails for its own reasons.
    looks = [look for look in later if not look.has_effect and (look.kind is Kind.WAIT or look.line)]
    looks = [look for look in looks if name_same(look, call)]
    ended = next((look for look in reversed(looks) if look.meaning.state in ("failure", "success")), None)
    if ended is None or ended.meaning.state == "success":
        return call
    return msgspec.structs.replace(call, known_meaning=ended.meaning, result_id=ended.result_id)


def name_same(look: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later look can have news of a call: it names what that printed or was given, such as an id."""
    shared = set(_ID.findall(look.arguments)) & {*_ID.findall(call.text), *_ID.findall(call.arguments)}
    return any(not word.isalpha() for word in shared)


class _Owners:
    """The last call that changed something, by what it names: by ids, by other values, and by the nouns of its tool."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._values: dict[str, int] = {}
        self._nouns: dict[str, int] = {}

    def add(self, call: EpisodeCall, number: int) -> None:
        """Take note of a call that changes something."""
        self.ids |= dict.fromkeys(_identities(call), number)
        self._values |= dict.fromkeys(_values(call.arguments), number)
        self._values |= dict.fromkeys(_values(call.text) if call.text[:1] == "{" else (), number)
        self._nouns |= dict.fromkeys(words_of_tool(call.tool), number)

    def of_look(self, look: EpisodeCall) -> int | None:
        """Return the call that a look is about: because of what the look was given, else because of its name."""
        given = set(_values(look.arguments))
        if given:
            found = {self._values[name] for name in given & self._values.keys()}
            return found.pop() if len(found) == 1 else None  # a look at several things is about none of them
        nouns = words_of_tool(look.tool) & self._nouns.keys() - state_words().lists["acting_verbs"]
        return max((self._nouns[noun] for noun in nouns), default=None)

    def names_for(self, look: EpisodeCall) -> dict[str, int]:
        """Return what the calls name that a look may show: ids, and all names of a call with which it shares one."""
        shared = {self._values[name] for name in _values(look.arguments) if name in self._values}
        plain = {name: number for name, number in self._values.items() if number in shared and name.isalpha()}
        return plain | self.ids if shared else self.ids

    def shares_number(self, look: EpisodeCall, number: int) -> bool:
        """Return whether a look was given a number or an id that a call has, too: `J-4`."""
        return any(
            self._values.get(name) == number and any(map(str.isdigit, name)) for name in set(_values(look.arguments))
        )


def _values(text: str) -> Iterator[str]:
    """Yield the short values of arguments or of an answer, in lower case."""
    value = decoded(text)
    for member in value.values() if isinstance(value, dict) else ():
        for one in member if isinstance(member, list) else (member,):
            if isinstance(one, str | int) and not isinstance(one, bool) and MIN_VALUE <= len(str(one)) <= MAX_VALUE:
                yield str(one).lower()


MIN_VALUE, MAX_VALUE = 2, 80
"""Minimum and maximum number of characters of a value that names a thing."""


def _shown(calls: list[EpisodeCall], language: Language | None) -> dict[int, EpisodeCall]:
    """Return the calls of app tools whose things a later look shows in a state, with that state."""
    owners = _Owners()
    news: dict[int, dict[str, tuple[EpisodeCall, Meaning]]] = {}
    has_effects = False
    for number, call in enumerate(calls):
        if call.line:
            continue
        is_unclear = call.kind is Kind.OTHER and not app_tool_changes(call.tool, call.arguments)
        if call.has_effect and not (is_unclear and owners.of_look(call) is not None):
            has_effects = True
            owners.add(call, number)
            continue
        if not has_effects:
            continue
        if call.text[:1] not in ("{", "["):
            _add_rows(news, calls, owners, call, language)
            continue
        things = list(_objects(decoded(call.text), 0))
        known = owners.names_for(call)
        named = [(name, thing) for thing in things for name in known.keys() & set(_strings(thing))]
        for name, thing in named:
            _add_news(news, calls[known[name]], known[name], name, call, thing)
        owner = owners.of_look(call) if not named and len(things) == 1 else None
        is_open = owner is not None and calls[owner].meaning.state == "not_final"
        if owner is not None and (is_open or owners.shares_number(call, owner)):
            _add_news(news, calls[owner], owner, "", call, things[0])
    return {number: found for number, seen in news.items() if (found := _with_news(calls[number], seen)) is not None}


def _add_news(
    news: dict[int, dict[str, tuple[EpisodeCall, Meaning]]],
    acted: EpisodeCall,
    number: int,
    name: str,
    look: EpisodeCall,
    thing: dict[str, Any],
) -> None:
    """Take note of what a look shows of a thing that a call has changed."""
    said = meaning_of_json(thing, look.text, words_of_tool(acted.tool), arguments=acted.arguments)
    if said.state != "unknown":
        news.setdefault(number, {})[name] = (look, said)


def _add_rows(
    news: dict[int, dict[str, tuple[EpisodeCall, Meaning]]],
    calls: list[EpisodeCall],
    owners: _Owners,
    look: EpisodeCall,
    language: Language | None,
) -> None:
    """Take note of the rows of a table about things that calls have changed, and that are in trouble."""
    if "#" in look.text and (shown := ERROR_VALUE.search(look.text)) and (owner := owners.of_look(look)) is not None:
        said = Meaning("failure", f"it shows {shown[0]}", shown[0], shown.start(), "row")
        news.setdefault(owner, {})[""] = (look, said)
    if len(look.text) > MAX_TABLE or not any(name in look.lowered for name in owners.ids):
        return
    for row in filter(None, map(row_of, look.text.splitlines())):
        number = owners.ids.get(row.name.lower())
        if number is None:
            continue
        seen = news.setdefault(number, {})
        state = state_of_rest(row.rest, states_of(words_of_tool(calls[number].tool), calls[number].arguments))
        if state == "failure" or (state is None and says_bad_news(language, row.rest)):
            quote = row.line.strip()[:MAX_QUOTE]
            seen[row.name.lower()] = (look, Meaning("failure", quote[:80], quote, look.text.find(row.line), "row"))
        else:
            seen.pop(row.name.lower(), None)


MAX_TABLE = 4_000
"""Maximum number of characters of a table that is searched for things."""


def _looked_at(calls: list[EpisodeCall]) -> dict[int, tuple[EpisodeCall, Meaning]]:
    """Return the commands that the last look at what they name shows as failed or not ended: `Active: failed`."""
    found: dict[int, tuple[EpisodeCall, Meaning]] = {}
    acts: list[tuple[int, set[str]]] = []
    for number, call in enumerate(calls):
        if not call.line or call.is_check:
            continue
        if call.has_effect:
            acts.append((number, _operands(call.line)))
        elif acts and call.text:
            named = _operands(call.line)
            act = next((act for act, words in reversed(acts) if words & named), None)
            if act is None or calls[act].meaning.state not in ("success", "unknown"):
                continue
            if call.meaning.state in ("failure", "not_final") and call.meaning.quote:
                found[act] = (call, call.meaning)
            elif act in found and (call.meaning.quote or _program(call.line) == _program(found[act][0].line)):
                # That another command could print something, such as a log, does not show that all is well.
                del found[act]
    return found


def _operands(line: str) -> set[str]:
    """Return the words of a command line that name what it is about, without programs and verbs."""
    programs = {name for program in plan_of(line).programs for name in program.names}
    words = set(_OPERAND.findall(line.lower()))
    return words - programs - state_words().lists["acting_verbs"] - _COMMON


def _program(line: str) -> tuple[str, ...]:
    """Return the last program of a command line with its subcommand, without options and their values."""
    programs = plan_of(line).programs
    return programs[-1].names if programs else ()


_OPERAND = re.compile(r"(?<![\w-])[^\W\d_][\w.-]{3,}")


class _Setting(NamedTuple):
    """A call that sets values."""

    number: int
    names: set[str]
    versions: set[str]
    """The versions and addresses that it was given."""
    given: dict[str, Any]


def _other_values(calls: list[EpisodeCall]) -> dict[int, tuple[EpisodeCall, Meaning]]:
    """Return the calls that set a value, and of which the last look shows another one: `18.0`, `2.3.9`."""
    found: dict[int, tuple[EpisodeCall, Meaning]] = {}
    settings: list[_Setting] = []
    for number, call in enumerate(calls):
        if call.has_effect:
            if (setting := _setting(call, number)) is not None:
                settings.append(setting)
        elif settings and 0 < len(call.text) <= MAX_SHOWN:
            shown = set(_VERSION.findall(call.text))
            things = list(_objects(decoded(call.text), 0)) if call.text[:1] in ("{", "[") else []
            names = set(_WORD.findall((call.line or call.arguments).lower())) if shown or things else set()
            for one in settings:
                if not names & one.names or calls[one.number].meaning.state not in ("success", "unknown"):
                    continue
                if quote := _other_version(one, shown) or _other_number(one, things):
                    said = Meaning("failure", f"it shows {quote}", quote, call.text.find(quote), "value")
                    found[one.number] = (call, said)
                else:
                    found.pop(one.number, None)
    return found


MAX_SHOWN = 600
"""Maximum number of characters of a look that shows one thing."""
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+){2,3})(?![\w.]*\w)")
_WORD = re.compile(r"[^\W\d_]{4,}")
_COMMON = frozenset(("http", "https", "curl", "sudo", "echo", "head", "tail", "grep", "true", "false", "name", "type"))
"""Words that do not say what a call is about."""


def _setting(call: EpisodeCall, number: int) -> _Setting | None:
    """Return the values that a call sets; None if there are none, or several versions that could be meant."""
    line = call.line or call.arguments
    versions = set(_VERSION.findall(line)) if "." in line else set()
    value = decoded(call.arguments) if not call.line and any(map(str.isdigit, line)) else None
    given = value if isinstance(value, dict) else {}
    if len(versions) != 1 and not any(isinstance(one, int | float) for one in given.values()):
        return None
    return _Setting(number, set(_WORD.findall(line.lower())) - _COMMON, versions, given)


def _other_version(setting: _Setting, shown: set[str]) -> str:
    """Return the version or address that a look shows instead of the only one that a call was given."""
    if len(setting.versions) != 1 or setting.versions & shown:
        return ""
    parts = {value.count(".") for value in setting.versions}
    return next((value for value in sorted(shown) if value.count(".") in parts), "")


def _other_number(setting: _Setting, things: list[dict[str, Any]]) -> str:
    """Return the number that a thing has instead of the one which a call was to give it."""
    given = setting.given
    for thing in things:
        is_same = any(isinstance(one, str) and one == thing.get(name) for name, one in given.items())
        for key, value in given.items() if is_same else ():
            other = thing.get(key)
            if isinstance(value, int | float) and isinstance(other, int | float) and value != other:
                return f'"{key}": {str(other).lower()}'
    return ""


def _with_news(call: EpisodeCall, seen: dict[str, tuple[EpisodeCall, Meaning]]) -> EpisodeCall | None:
    """Return a call with the worst state that was seen; None if that is no news."""
    failed = {name: found for name, found in seen.items() if found[1].state == "failure"}
    if failed:
        look, said = next(iter(failed.values()))
        if call.meaning.state == "failure":
            # It is still so: the look that shows it is no second attempt.
            return msgspec.structs.replace(call, result_id=look.result_id)
        items = tuple(filter(None, failed)) if len(_identities(call)) > 1 else ()
        said = msgspec.structs.replace(said, items=items)
        return msgspec.structs.replace(call, known_meaning=said, result_id=look.result_id)
    opened = [found for found in seen.values() if found[1].state == "not_final"]
    if opened and call.meaning.state in ("success", "unknown"):
        look, said = opened[-1]
        return msgspec.structs.replace(call, known_meaning=said, result_id=look.result_id)
    has_failed = call.meaning.state in ("failure", "not_final")
    if seen and has_failed and all(said.state == "success" for _, said in seen.values()):
        look, said = next(iter(seen.values()))
        return msgspec.structs.replace(call, known_meaning=said, result_id=look.result_id)
    return None


def _identities(call: EpisodeCall) -> frozenset[str]:
    """Return what a call of an app tool names, in its arguments and its answer, in lower case."""
    if call.known_identities is None:
        given = set(_strings(decoded(call.arguments)))
        made = set(_strings(decoded(call.text))) if call.text[:1] == "{" else set()
        call.known_identities = frozenset(
            name for name in given | made if _NAME.fullmatch(name) and not _TIME.match(name)
        )
    return call.known_identities


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the short texts in a value, in lower case."""
    if isinstance(value, str):
        if len(value) <= 80:
            yield value.lower()
    elif isinstance(value, dict | list) and depth < 3:
        for member in value.values() if isinstance(value, dict) else value[:_MAX_OBJECTS]:
            yield from _strings(member, depth + 1)


def _objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the innermost objects of an answer that describe one thing each: the items of lists, else the whole."""
    if isinstance(value, list):
        for item in value[:_MAX_OBJECTS]:
            yield from _objects(item, depth + 1)
    elif isinstance(value, dict):
        inner = [
            member
            for member in value.values()
            if isinstance(member, list) and any(isinstance(one, dict) for one in member)
        ]
        if inner and depth < _MAX_DEPTH:
            for member in inner:
                yield from _objects(member, depth + 1)
        else:
            yield value
