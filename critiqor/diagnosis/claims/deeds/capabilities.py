"""What a call can have done, judged by the words of its tool, by its arguments and by the programs that it runs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.call_arguments import decoded_arguments
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.results.programs import Program
from critiqor.diagnosis.signals.tool_calls import is_verb_of_tool, kind_of_verb, words_of_tool
from critiqor.spans.calls import Kind

FILE = Path(__file__).with_name("capabilities.toml")
_CLEAR = "other"
"""The entry of words that say what a tool does, without being one of the classes."""
MIN_STEM = 4
"""Minimum number of letters of a word of which another one may be an inflection."""
MAX_RESULT = 4_000
"""Maximum number of characters of an output in which words that confirm a deed are looked for."""
_OPAQUE = frozenset(("sessions_spawn", "subagent", "task", "agent", "delegate", "spawn_agent", "dispatch_agent"))
_WORD = re.compile(r"[^\W_][\w-]*")
_FILE = re.compile(r"\.(?:sh|bash|py|js|mjs|ts|rb|pl|ps1)\b")
"""A file with commands, which can do more than its name says."""
_NO = frozenset((None, False, "", "none", "false", "no", "never", "0", 0))
_ACTIONS = ("action", "operation", "method", "command", "verb", "type")
_DATABASE = re.compile(r"psql|mysql|mariadb|sqlite3|duckdb|bq|clickhouse-client|mongosh?|redis-cli")
_CHANGES = re.compile(
    r"\b(?:insert|update|delete|drop|alter|create|truncate|copy|merge|replace|grant|restore|call|flush\w*|set|del|rename)\b"
    r"|\\[io]\b|\.(?:read|restore|import|backup|dump)\b|<|-f\b",
    re.IGNORECASE,
)
_READS = re.compile(
    r"\b(?:select|show|explain|count|find|get|info|describe|keys|dbsize|scan|ttl|exists|type|memory|ping)\b|\\[dl]",
    re.IGNORECASE,
)


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    tools: str
    commands: str
    arguments: str = ""
    results: str = ""
    not_tools: str = ""
    not_commands: str = ""
    needs_effect: bool = True


class Capability(msgspec.Struct, frozen=True):
    """What calls look like that can have done an action of a class."""

    tools: frozenset[str]
    commands: frozenset[str]
    arguments: frozenset[str]
    results: re.Pattern[str] | None
    not_tools: frozenset[str]
    not_commands: frozenset[str]
    needs_effect: bool


@cache
def capabilities() -> dict[str, Capability]:
    """Return the classes of actions whose calls can be recognized."""
    return {
        name: Capability(
            tools=frozenset(data.tools.split()),
            commands=frozenset(data.commands.split()),
            arguments=frozenset(word.replace("_", "") for word in data.arguments.split()),
            results=_any_of(data.results.split()),
            not_tools=frozenset(data.not_tools.split()),
            not_commands=frozenset(data.not_commands.split()),
            needs_effect=data.needs_effect,
        )
        for name, data in _read().items()
        if name != _CLEAR
    }


@cache
def _read() -> dict[str, _Data]:
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), dict[str, _Data])


def _any_of(entries: list[str]) -> re.Pattern[str] | None:
    # The names of members join words by underscores: `email_sent`.
    words = "|".join(entry.replace("*", "[a-z]*") for entry in entries)
    return re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE) if entries else None


@cache
def _known_words() -> frozenset[str]:
    return frozenset(word for data in _read().values() for word in data.tools.split())


@cache
def _known_commands() -> frozenset[str]:
    return frozenset(word for data in _read().values() for word in data.commands.split())


def can_have_done(call: EpisodeCall, name: str) -> bool:
    """Return whether a call can have done an action of a class; one whose purpose is not clear can do anything."""
    capability = capabilities()[name]
    if capability.needs_effect and not call.has_effect:
        # An agent that waits for something reports how it ended.
        return call.kind is Kind.WAIT and _meets(words_of_tool(call.tool), capability.tools)
    if call.line:
        return any(_runs(program, call, capability) for program in plan_of(call.line).programs)
    return _is_done_by_tool(call, capability)


def _is_opaque(call: EpisodeCall) -> bool:
    """Return whether a call has another agent work: what that one does is not recorded here."""
    return call.tool.lower() in _OPAQUE


def _is_done_by_tool(call: EpisodeCall, capability: Capability) -> bool:
    words = words_of_tool(call.tool)
    arguments = decoded_arguments(call.arguments)
    for name in _ACTIONS if arguments else ():
        value = arguments[name] if arguments and name in arguments else None
        if isinstance(value, str) and len(value) <= MAX_ACTION:
            words |= words_of_tool(value)
    if _is_opaque(call) or not any(_is_clear(word) for word in words):
        return True
    if not _meets(words, capability.not_tools) and _meets(words, capability.tools):
        return True
    if arguments is None or _names_argument(arguments, capability):
        return True
    results = capability.results
    return results is not None and call.has_effect and results.search(call.text, 0, MAX_RESULT) is not None


MAX_ACTION = 40
"""Maximum number of characters of an argument that says what a tool is to do."""


def _names_argument(arguments: dict[str, object], capability: Capability) -> bool:
    for name, value in arguments.items() if capability.arguments else ():
        plain = name.lower().replace("_", "")
        if plain.startswith(("send", "notify")) and "send" in capability.tools:
            says_so = not (isinstance(value, str | bool | int | None) and _is_no(value))
        else:
            says_so = plain in capability.arguments and _names_somebody(value)
        if says_so:
            return True
    return False


def _is_no(value: object) -> bool:
    return (value.lower() if isinstance(value, str) else value) in _NO


def _names_somebody(value: object) -> bool:
    """Return whether an argument holds a word that is not only a no: two guests and a day are nobody's names."""
    if isinstance(value, dict | list):
        return any(map(_names_somebody, value.values() if isinstance(value, dict) else value))
    if isinstance(value, str):
        return _LETTERS.search(value) is not None and not _is_no(value)
    return value is True


_LETTERS = re.compile(r"[^\W\d_]{2}|\+\d{6}")


@lru_cache(maxsize=2048)
def _is_clear(word: str) -> bool:
    """Return whether a word of the name of a tool says what it does."""
    return is_verb_of_tool(word) or word in _known_words()


def _meets(words: Iterable[str], known: frozenset[str]) -> bool:
    return any(word in known or _stem(word) in known for word in words)


@lru_cache(maxsize=2048)
def _stem(word: str) -> str:
    """Return a word without the ending of a participle or a plural, as far as that is one of the known words."""
    for ending, instead in _ENDINGS:
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and len(stem) >= MIN_STEM and stem in _known_words():
            return stem
    return word


_ENDINGS = (
    *(("ication", "y"), ("ications", "y"), ("ation", "e"), ("ation", ""), ("ment", ""), ("er", ""), ("er", "e")),
    *(("ied", "y"), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"), ("es", ""), ("s", "")),
)


def _runs(program: Program, call: EpisodeCall, capability: Capability) -> bool:
    # A quoted text, such as the message of a commit, says nothing about what is done.
    parts = [part.lower() for part in program.words if " " not in part]
    words = {*parts, *(word for part in parts for word in _WORD.findall(part))}
    if not words.isdisjoint(capability.not_commands):
        return False
    is_named = not words.isdisjoint(capability.commands)
    is_unknown = program.kind == "program" and program.name.lower() not in _known_commands()
    if program.kind == "script" or is_unknown:
        if (purpose := _purpose(parts)) and not is_named:
            return _meets(purpose, capability.tools | capability.commands)
        return is_named or not call.is_check or _FILE.search(call.line) is not None
    if capability.needs_effect and (program.kind == "lookup" or _reads_rows(program, call.line)):
        return is_named and ">" in call.line
    return is_named


def _purpose(parts: list[str]) -> frozenset[str]:
    """Return the words in the name of a script if one of them says what it does: `purge_sessions.py` is no backup."""
    name = next((part for part in parts if _FILE.search(part)), "")
    words = words_of_tool(name.rpartition("/")[2].partition(".")[0])
    return words if any(kind_of_verb(word) in (Kind.ACTION, Kind.CHANGE) for word in words) else frozenset()


def _reads_rows(program: Program, line: str) -> bool:
    """Return whether a database is only asked for rows."""
    if not _DATABASE.search(program.name):
        return False
    said = line.partition(program.words[0])[2]
    return _READS.search(said) is not None and not _CHANGES.search(said)
