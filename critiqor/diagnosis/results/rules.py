"""The rules about outputs: data in `rules/*.toml`, read once, compiled for each program when it is first seen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from critiqor.diagnosis.results.meaning_struct import ResultState
from critiqor.diagnosis.signals.fast_patterns import LiteralIndex

FOLDER = Path(__file__).parent / "rules"
ANY_SCRIPT = "any script"
"""Stands for a program whose inner program is unknown, such as `./deploy.sh` or `make target`."""
ANY_COMMAND = "any command"
"""Stands for every program: what the tool that runs it and the shell print."""
ANY_PROGRAM = "any program"
"""Stands for every program that does more than print what exists."""
ANY_LOOKUP = "any lookup"
"""Stands for the programs that only print what exists."""
ANY_ANSWER = "any answer"
"""Stands for the tools that run no command line and answer in words."""
ANY_ACTION = "any action"
"""Stands for those of them that change something."""


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a rule matches, and what it then says."""

    line: str
    state: ResultState
    failed: int | None = None
    passed: int | None = None
    total: int | None = None


class RuleData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it is written in a data file."""

    name: str
    tool: str
    """Whose output it reads. Later lines of the same tool outrank earlier ones."""
    programs: tuple[str, ...]
    """Programs whose output it reads, such as `pytest` or `docker build`."""
    has: tuple[str, ...]
    """A line is only examined if it contains one of these, in any case; written in lower case and with whole words."""
    line: str
    """Pattern that the line begins with, after its spaces. Groups named `failed`, `passed` and `total` hold numbers;
    if a group named `bad` (or `bad2` to `bad4`) matches, the line says that something failed, and with `wait` (or
    `wait2`) that something is not final. A group named `item` (or `item2`) holds the name of what the line is about."""
    matches: tuple[Example, ...]
    misses: tuple[str, ...]
    """Similar lines that it does not match."""
    state: ResultState | Literal["counts"] = "counts"
    """What the line says; `counts`: a failure if something failed or less than the total succeeded."""
    says: str = ""
    """The reason, if it is not made from the numbers or the line."""
    anywhere: bool = False
    """Whether the line is so clear that it also counts in the output of a script."""
    each: bool = False
    """Whether every matching line is one item of the result, so that no line outranks another."""
    at_end: bool = False
    """Whether it only counts in the last lines of the output."""
    short: ResultState = "failure"
    """What it means if less than the total succeeded."""
    failed: str = ""
    """Pattern of the numbers in the line that count failures; they are added."""
    passed: str = ""
    total: str = ""
    needs: str = ""
    """What the output must contain besides the line."""
    weak: bool = False
    """Whether a success that another tool reports further down outranks it."""


class Rule:
    """A rule with its patterns, which are compiled when the first line has what the rule needs."""

    def __init__(self, data: RuleData) -> None:
        self.data = data

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a line begins with."""
        return re.compile(self.data.line)

    @cached_property
    def counts(self) -> tuple[re.Pattern[str] | None, ...]:
        """The numbers in a line that count failures, successes and everything."""
        data = self.data
        return tuple(re.compile(text) if text else None for text in (data.failed, data.passed, data.total))


class Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a program that runs another one is called."""

    values: tuple[str, ...] = ()
    """Options that take the next word as their value."""
    skip: int = 0
    """Number of words between the options and the inner program, such as the host of `ssh`."""
    line: bool = False
    """Whether the other words are a command line and not a program with arguments."""
    option: str = ""
    """The option whose value is the command line, such as `-c`; without it nothing is wrapped."""


class ProgramData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known about programs."""

    lookups: frozenset[str]
    """Programs, also with a subcommand, that only print what exists: words in their output are content."""
    setup: frozenset[str]
    """Programs that prepare or accompany others. What they print or return does not decide anything."""
    filters: frozenset[str]
    """Programs that pass on the output of the program before them in a pipe."""
    scripts: frozenset[str]
    """Programs that run others which the command line does not name."""
    answers: dict[str, tuple[int, ...]]
    """Exit codes that are an answer and no failure."""
    transfers: frozenset[str]
    """Programs whose exit code 0 only says that an answer came, whatever it says."""
    json: frozenset[str]
    """Programs that print the JSON answer of a service."""
    dry_run: dict[str, tuple[str, ...]]
    """Options of a program, or its subcommands, with which it only says what it would do."""
    aliases: dict[str, str]
    values: dict[str, tuple[str, ...]]
    """Options before the subcommand that take a value."""
    wrappers: dict[str, Wrapper]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[RuleData, ...]


@cache
def program_data() -> ProgramData:
    """Return what the rule files say about programs: wrappers, lookups, and exit codes that are answers."""
    document: dict[str, Any] = tomllib.loads((FOLDER / "programs.toml").read_text("utf-8"))
    for name in ("lookups", "setup", "filters", "scripts", "transfers", "json"):
        document[name] = _phrases(document[name])
    for name in ("dry_run", "values"):
        document[name] = {key: value.split() for key, value in document[name].items()}
    for wrapper in document["wrappers"].values():
        wrapper["values"] = wrapper.get("values", "").split()
    return msgspec.convert(document, ProgramData)


def _phrases(text: str) -> list[str]:
    """Return the entries of a list that is separated by commas and line breaks."""
    return [" ".join(entry.split()) for entry in re.split(r"[,\n]", text) if entry.strip()]


def all_rules() -> Iterator[RuleData]:
    """Return all rules, in the order of the files."""
    yield from map(_rule, _tables())


_HEADER = "[[rule]]\n"
_QUOTED = re.compile(r'"([^"]*)"')
_PROGRAMS = re.compile(r"^programs = \[([^\]]*)\]", re.MULTILINE)


@cache
def _tables() -> tuple[str, ...]:
    """Return the text of each rule. To parse all of them would take longer than to diagnose a short run."""
    paths = sorted(path for path in FOLDER.glob("*.toml") if path.stem not in ("programs", "states"))
    return tuple(table for path in paths for table in f"\n{path.read_text('utf-8')}".split(f"\n{_HEADER}")[1:])


@cache
def _rule(table: str) -> RuleData:
    [data] = msgspec.convert(tomllib.loads(_HEADER + table), _File).rule
    return data


@cache
def _by_program() -> dict[str, list[str]]:
    """Return the texts of the rules of each program."""
    found: dict[str, list[str]] = {}
    for table in _tables():
        listed = _PROGRAMS.search(table)
        assert listed is not None, f"a rule names no programs:\n{table}"
        for program in (*_QUOTED.findall(listed[1]), *((ANY_SCRIPT,) if "\nanywhere = true" in table else ())):
            found.setdefault(program, []).append(table)
    return found


class RuleSet(msgspec.Struct, frozen=True):
    """Rules that apply to the same output."""

    rules: tuple[Rule, ...]
    by_word: dict[bytes, tuple[int, ...]] = {}
    """Positions of the rules that need a line with a word; empty if searching for what they need is faster."""
    always: tuple[int, ...] = ()
    """Positions of the other rules."""
    literals: LiteralIndex | None = None
    """What many rules need without being words, marked with the bits of their positions."""


def short_set(rules: Iterable[Rule]) -> RuleSet:
    """Return a set of rules for short texts, or of a few: what they need may also be a part of a word."""
    listed = tuple(rules)
    needed = [(literal, 1 << position) for position, rule in enumerate(listed) for literal in rule.data.has]
    return RuleSet(listed, literals=LiteralIndex(needed) if len(listed) > _FEW else None)


_WORD = re.compile(r"[a-z]+")
_LETTERS = bytes(code if chr(code) in "abcdefghijklmnopqrstuvwxyz" else 32 for code in range(256))
_FEW = 4
"""Up to this number of rules, searching for what each one needs is faster than collecting the words of a text."""


@lru_cache(maxsize=512)
def rules_for(*programs: str) -> RuleSet:
    """Return the rules for the output of programs, such as `pytest`; without rules if there are none."""
    by_program = _by_program()
    tables = [_rule(table) for program in programs for table in by_program.get(program, ())]
    found = {data.name: data for data in tables}
    rules = tuple(_compiled(data) for data in found.values())
    if len(rules) <= _FEW:
        return short_set(rules)
    by_word: dict[bytes, list[int]] = {}
    always: list[int] = []
    for position, rule in enumerate(rules):
        words = [_WORD.findall(literal) for literal in rule.data.has]
        if rule.data.needs or not all(words):
            always.append(position)
            continue
        for word in {max(parts, key=len).encode() for parts in words}:
            by_word.setdefault(word, []).append(position)
            by_word.setdefault(word + b"s", []).append(position)
    return RuleSet(rules, {word: tuple(positions) for word, positions in by_word.items()}, tuple(always))


def has_rules(program: str) -> bool:
    """Return whether there are rules for the output of a program."""
    return program in _by_program()


def candidates(rules: RuleSet, text: str) -> tuple[Rule, ...]:
    """Return the rules that may match a line of a text in lower case."""
    if not rules.by_word:
        marks = -1 if rules.literals is None else rules.literals.marks(text)
        found = [rule for position, rule in enumerate(rules.rules) if marks >> position & 1] if marks else ()
        return tuple(rule for rule in found if any(map(text.__contains__, rule.data.has)))
    # The same as all matches of a pattern for words, in a fifth of the time.
    known = rules.by_word.keys() & text.encode("ascii", "replace").translate(_LETTERS).split()
    positions = {position for word in known for position in rules.by_word[word]}
    positions.update(rules.always)
    return tuple(rules.rules[position] for position in sorted(positions))


_rules: dict[str, Rule] = {}


def _compiled(data: RuleData) -> Rule:
    rule = _rules.get(data.name)
    if rule is None:
        rule = _rules[data.name] = Rule(data)
    return rule
