"""The programs that a command line really runs, found behind wrappers such as `sudo`, `npx` and `bash -c`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from critiqor.diagnosis.results.command_lines import Command, CommandLine, parse_command_line
from critiqor.diagnosis.results.rules import ProgramData, Wrapper, has_rules, program_data

ProgramKind = Literal["lookup", "setup", "script", "program"]
_MAX_DEPTH = 4
_VERSION = re.compile(r"(python|pip|node|ruby|php|gcc|clang|perl)-?[\d.]+$")
_ASSIGNMENT = re.compile(r"\w+=")


class Program(msgspec.Struct, frozen=True, gc=False):
    """A program that a command line runs."""

    names: tuple[str, ...]
    """Its names, the most precise first: `docker compose up`, `docker compose`, `docker`."""
    kind: ProgramKind
    words: tuple[str, ...]
    """The program and its arguments."""
    covered: bool
    """Whether exit code 0 of the command line means that it succeeded."""
    ends_line: bool
    """Whether a non-zero exit code of the command line can be its own."""
    negated: bool = False
    timed: bool = False
    """Whether `timeout` limits its time."""
    filters: bool = False
    """Whether it only passes on the output of the program before it."""

    @property
    def name(self) -> str:
        """The name of the program alone."""
        return self.names[-1]


def programs_in(line: CommandLine) -> tuple[Program, ...]:
    """Return the programs that a command line runs, in order."""
    return tuple(program for command in line.commands for program in _programs(command, command, 0))


def programs_of(commands: tuple[Command, ...]) -> tuple[Program, ...]:
    """Return the programs that some commands run, in order."""
    return programs_in(CommandLine(commands))


def _programs(command: Command, outer: Command, depth: int) -> Iterator[Program]:
    data = program_data()
    words, timed = command.words, False
    names = _names(words, data)
    for _ in range(8):
        words = _expanded(words, data)
        names = _names(words, data)
        wrapper_name = next((name for name in names if name in data.wrappers), None)
        if wrapper_name is None:
            module = _module(words, names)
            if module is None:
                break
            words = module
            continue
        wrapper = data.wrappers[wrapper_name]
        inner = _inner_line(words, wrapper_name, wrapper) if wrapper.option or wrapper.line else None
        if inner is not None and depth < _MAX_DEPTH:
            yield from _nested(inner, command, outer, depth)
            return
        rest = () if wrapper.option else _wrapped(words, wrapper_name, wrapper)
        if not rest or wrapper.line:
            break
        timed = timed or "timeout" in wrapper_name
        words = rest
    yield Program(
        names,
        _kind(names, words, data),
        words,
        command.covered and outer.covered,
        command.ends_line and outer.ends_line,
        command.negated != (outer is not command and outer.negated),
        timed,
        command.before == "|" and any(name in data.filters for name in names),
    )


def _nested(inner: str, command: Command, outer: Command, depth: int) -> Iterator[Program]:
    covered, ends = command.covered and outer.covered, command.ends_line and outer.ends_line
    around = msgspec.structs.replace(outer, covered=covered, ends_line=ends)
    for nested in parse_command_line(inner).commands:
        yield from _programs(nested, around, depth + 1)


def _expanded(words: tuple[str, ...], data: ProgramData) -> tuple[str, ...]:
    """Return the words with the usual name of the program, without its folder and version."""
    first = words[0].rpartition("/")[2] if "/" in words[0] else words[0]
    if first[-1:].isdigit() and (found := _VERSION.match(first)):
        first = found[1]
    alias = data.aliases.get(first)
    if alias is not None:
        return (*alias.split(), *words[1:])
    return words if first == words[0] else (first or words[0], *words[1:])


def _names(words: tuple[str, ...], data: ProgramData) -> tuple[str, ...]:
    """Return the names of a program with its subcommands, the most precise first."""
    name = words[0]
    values = data.values.get(name, ())
    subcommands: list[str] = []
    skips = False
    for word in words[1:10]:
        if skips:
            skips = False
        elif word[:1] == "-":
            skips = word in values
        else:
            subcommands.append(word)
            if len(subcommands) == 2:
                break
    if not subcommands:
        return (f"{name} {words[1]}", name) if len(words) > 1 else (name,)
    if len(subcommands) == 1:
        return (f"{name} {subcommands[0]}", name)
    return (f"{name} {subcommands[0]} {subcommands[1]}", f"{name} {subcommands[0]}", name)


def _module(words: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return what `python -m module arguments` runs; None for any other command."""
    if words[0] != "python":
        return None
    for index, word in enumerate(words[1:5], 1):
        if word == "-m" and index + 1 < len(words):
            return words[index + 1 :]
        if word == "-c" or word[:1] != "-":
            return None
    return None


def _inner_line(words: tuple[str, ...], name: str, wrapper: Wrapper) -> str | None:
    """Return the command line that a shell or `ssh` runs; None if there is none."""
    if wrapper.line:
        return " ".join(_wrapped(words, name, wrapper)) or None
    for index, word in enumerate(words[:-1]):
        is_option = word == wrapper.option or (wrapper.option == "-c" and re.fullmatch(r"-\w*c", word))
        if index and is_option:
            return words[index + 1]
        if index and word[:1] != "-" and len(name.split()) == 1 and name != "su" and name != "script":
            return None  # a script with its own arguments
    return None


def _wrapped(words: tuple[str, ...], name: str, wrapper: Wrapper) -> tuple[str, ...]:
    """Return the words of the inner program."""
    remaining = name.split()[1:]
    index = 1
    while remaining and index < len(words):
        if words[index] == remaining[0]:
            remaining.pop(0)
        index += 1
    if name == "coverage run" and "-m" in words[index:]:
        return words[words.index("-m") + 1 :]
    to_skip = wrapper.skip
    while index < len(words):
        word = words[index]
        if word == "--":
            return words[index + 1 + to_skip :] if name != "kubectl exec" else words[index + 1 :]
        if word[:1] == "-":
            index += 2 if word in wrapper.values else 1
        elif _ASSIGNMENT.match(word):
            index += 1
        elif to_skip:
            to_skip -= 1
            index += 1
        else:
            rest = words[index:]
            return rest[1:] if rest[0] == "--" else rest
    return ()


def _kind(names: tuple[str, ...], words: tuple[str, ...], data: ProgramData) -> ProgramKind:
    for name in names:
        if name in data.setup:
            return "setup"
        if name in data.lookups:
            return "program" if _changes(words) else "lookup"
        if name in data.scripts:
            return "script"
        if has_rules(name):
            return "program"
    if words[-1:] in (("--version",), ("--help",), ("-V",), ("-h",)):
        return "lookup"
    return "script"


def _changes(words: tuple[str, ...]) -> bool:
    """Return whether a program that usually only reads is used to change something."""
    if words[0] == "sed":
        return any(word.startswith(("-i", "--in-place")) or re.fullmatch(r"-[nErsz]*i\S*", word) for word in words[1:])
    if words[0] == "find":
        return any(word in ("-delete", "-exec", "-execdir", "-ok") for word in words)
    return words[:2] in (("git", "branch"), ("git", "tag"), ("git", "remote"), ("git", "config")) and len(words) > 3
