"""What the result of a command line means: its exit code, if it belongs to what matters, and its output."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from critiqor.diagnosis.results.command_lines import CommandLine, parse_command_line
from critiqor.diagnosis.results.exit_codes import is_answer, stated_code
from critiqor.diagnosis.results.http_answers import meaning_of_transfer, sends
from critiqor.diagnosis.results.json_answers import decoded, meaning_of_json
from critiqor.diagnosis.results.lines import read_lines
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE, UNKNOWN, Meaning
from critiqor.diagnosis.results.programs import Program, programs_in, programs_of
from critiqor.diagnosis.results.rules import (
    ANY_COMMAND,
    ANY_LOOKUP,
    ANY_PROGRAM,
    ANY_SCRIPT,
    RuleSet,
    has_rules,
    program_data,
    rules_for,
)
from critiqor.diagnosis.results.state_words import state_of_word

_STATE = re.compile(r"[.\[{_ ](?:\w{0,30}[Ss]tat(?:e|us)|phase|conclusion|[Hh]ealth)\b(?!/)|[a-z]Stat(?:e|us)\b")
_MAX_STATE = 60
_TIME_LIMIT = 124
_BROKEN_PIPE = 141
_MAX_LOOKUP_ERROR = 500
"""Maximum number of characters of an output that can be nothing but the error message of a lookup."""


class Plan(msgspec.Struct, frozen=True):
    """What is known about a command line before its result: what matters in it, and which rules apply."""

    line: CommandLine
    programs: tuple[Program, ...]
    doers: tuple[Program, ...]
    """The programs that matter. Preparations and filters do not; lookups do if there is nothing else."""
    own: RuleSet
    """The rules of its programs."""
    common: RuleSet
    """The rules for any output."""
    reads_only: bool
    json: bool
    dry_run: bool
    transfer: Program | None
    """The program that sends an HTTP request."""
    asks_state: bool = False
    """Whether it asks a service for a state only, as `gh run view --json conclusion -q .conclusion` does."""


@lru_cache(maxsize=1024)
def plan_of(line: str) -> Plan:
    """Return what decides about the result of a command line: its programs, and which of them do something."""
    parsed = parse_command_line(line)
    return _plan(parsed, programs_in(parsed))


@lru_cache(maxsize=1)
def _unknown_plan() -> Plan:
    """Return the plan for the output of an unknown program."""
    common = rules_for(ANY_SCRIPT, ANY_PROGRAM, ANY_COMMAND)
    return Plan(CommandLine(()), (), (), rules_for(), common, False, False, False, None)


def _plan(line: CommandLine, programs: tuple[Program, ...]) -> Plan:
    data = program_data()
    kept = [program for program in programs if not program.filters]
    doers = (
        [program for program in kept if program.kind in ("script", "program")]
        or [program for program in kept if program.kind == "lookup"]
        or kept
    )
    reads_only = bool(doers) and all(program.kind == "lookup" for program in doers)
    names = [] if reads_only else [name for program in doers for name in program.names if has_rules(name)]
    if reads_only:
        common = rules_for(ANY_LOOKUP, ANY_COMMAND)
    elif any(program.kind == "script" for program in doers):
        common = rules_for(ANY_SCRIPT, ANY_PROGRAM, ANY_COMMAND)
    else:
        common = rules_for(ANY_PROGRAM, ANY_COMMAND)
    transfer = next((program for program in doers if program.name in ("curl", "http", "wget")), None)
    return Plan(
        line,
        programs,
        tuple(doers),
        rules_for(*dict.fromkeys(names)),
        common,
        reads_only,
        # A script that prints one JSON object answers with it, whatever the script is.
        any(name in data.json for program in doers for name in program.names) or (not reads_only and not names),
        bool(doers) and not reads_only and _is_dry_run(doers[-1]),
        transfer,
        any(name in data.json for program in programs for name in (*program.names, program.name))
        and any(_STATE.search(word) for program in programs for word in program.words[1:]),
    )


def _is_dry_run(program: Program) -> bool:
    options = program_data().dry_run
    for name in program.names:
        found = options.get(name)
        if found and ("*" in found or any(option in program.words for option in found)):
            return True
    return any(
        word.partition("=")[0] in options["*"] and not word.endswith(("=none", "=false", "=0"))
        for word in program.words[1:]
        if word[:1] == "-"
    )


def meaning_of_command(line: str, text: str, exit_code: int | None, reported_failure: bool) -> Meaning:
    """Return what the result of a command line means. `text` has no terminal colours."""
    plan = plan_of(line) if line else _unknown_plan()
    stated = stated_code(text) if text else None
    code = exit_code if exit_code is not None else stated[0] if stated else None
    limit = stated[1] if stated and stated[1] > 0 else len(text)
    if plan.line.printed is not None and (printed := _printed_code(plan.line, text)):
        return _with_printed_code(plan, text, *printed)
    if code:
        return _after_failure(plan, text, limit, code)
    if reported_failure:
        said = read_lines(text, plan.own, plan.common, limit)
        return said if said and said.state == "failure" else Meaning("failure", "reported as failed", rule="reported")
    if plan.asks_state and (said := _state_word(text, limit)):
        return said
    if code == 0 and plan.reads_only and _decisive(plan).covered:
        return _by_exit_code(plan, code)
    said = _said(plan, text, limit)
    if said.state != "unknown":
        return said
    return _by_exit_code(plan, code)


def _said(plan: Plan, text: str, limit: int) -> Meaning:
    """Return what the output says."""
    if plan.line.echoed is not None and (echoed := _echoed(plan.line, text, limit)):
        return echoed
    if plan.reads_only and limit > _MAX_LOOKUP_ERROR:
        return UNKNOWN
    if plan.dry_run:
        said = read_lines(text, plan.own, plan.common, limit)
        return said if said and said.state == "failure" else Meaning("not_final", "dry run", rule="dry_run")
    if plan.transfer is not None:
        said = meaning_of_transfer(plan.transfer, text[:limit])
        if said.state != "unknown":
            return said
    elif plan.json and (value := decoded(text[:limit])) is not None:
        return meaning_of_json(value, text, _verbs(plan), lookup=_looks_up(plan))
    return read_lines(text, plan.own, plan.common, limit) or UNKNOWN


def _state_word(text: str, limit: int) -> Meaning | None:
    """Return what an output means that is nothing but a state, such as `"creating"`."""
    if limit > _MAX_STATE:
        return None
    stripped = text[:limit].strip()
    word = re.split(r"[\s,]", stripped.strip("\"'"), maxsplit=1)[0].strip("\"',")
    state = state_of_word(word) if word and "\n" not in stripped and not word.isdigit() else None
    if state is None:
        return None
    return Meaning(state, f"the state is {word.lower()}", word, text.find(word), "state_word")


def _verbs(plan: Plan) -> frozenset[str]:
    return frozenset(word for program in plan.doers for word in program.words[:4])


_READING = frozenset(("get", "list", "describe", "show", "view", "ls", "search", "status", "inspect", "api"))


def _looks_up(plan: Plan) -> bool:
    return all(not _READING.isdisjoint(program.words[1:4]) for program in plan.doers)


def is_result_an_answer(line: str, code: int) -> bool:
    """Return whether the result of a command line with this exit code is an answer and no failure: nothing found."""
    last = next((program for program in reversed(plan_of(line).programs) if program.ends_line), None)
    return last is not None and (is_answer(last, code) or (code == _TIME_LIMIT and last.timed))


def _after_failure(plan: Plan, text: str, limit: int, code: int) -> Meaning:
    """Return what a non-zero exit code means."""
    last = next((program for program in reversed(plan.programs) if program.ends_line), None)
    if last is not None and is_answer(last, code):
        return _after_answer(plan, text, limit, last, code)
    if last is not None and code == _TIME_LIMIT and last.timed:
        said = read_lines(text, plan.own, plan.common, limit)
        return said or Meaning("not_final", "stopped by its time limit", rule="time_limit")
    if code == _BROKEN_PIPE and any(program.filters for program in plan.programs):
        return _said(plan, text, limit)
    said = read_lines(text, plan.own, plan.common, limit) if not plan.reads_only or limit <= _MAX_LOOKUP_ERROR else None
    if said and said.state == "failure":
        return said
    return Meaning("failure", f"exit code {code}", rule="exit_code")


def _after_answer(plan: Plan, text: str, limit: int, last: Program, code: int) -> Meaning:
    if last not in plan.doers and not plan.reads_only:
        return _said(plan, text, limit)  # the answer of a filter says nothing about the program before it
    if plan.reads_only or len(plan.doers) == 1:
        return Meaning("success", f"exit code {code} is an answer of {last.name}", rule="answer_code")
    return _said(plan, text, limit)


def _by_exit_code(plan: Plan, code: int | None) -> Meaning:
    """Return what exit code 0 means: success if it is that of the last program that matters."""
    if code is None or not plan.doers:
        return UNKNOWN if code is None or plan.programs else Meaning("success", "exit code 0", rule="exit_code")
    last = _decisive(plan)
    if not last.covered:
        return UNKNOWN
    if last.negated:
        return Meaning("failure", f"{last.name} succeeded, which `!` reverses", rule="exit_code")
    if any(name in program_data().transfers for name in last.names) and sends(last):
        return UNKNOWN
    return Meaning("success", "exit code 0", rule="exit_code")


def _decisive(plan: Plan) -> Program:
    """Return the last program that matters; a filter after a lookup belongs to the lookup."""
    last = plan.programs[-1]
    return last if plan.reads_only and last.filters else plan.doers[-1]


def _printed_code(line: CommandLine, text: str) -> tuple[int, str, int] | None:
    """Return the exit code that the command line printed itself, with its line and where that is."""
    found = None
    assert line.printed is not None
    for match in line.printed.pattern.finditer(text, max(0, len(text) - 2000)):
        found = match
    if found is None:
        return None
    quote = text[found.start() :].lstrip().partition("\n")[0]
    return int(found[1]), quote[:MAX_QUOTE], text.find(quote, found.start())


def _with_printed_code(plan: Plan, text: str, code: int, quote: str, start: int) -> Meaning:
    assert plan.line.printed is not None
    inner = _plan(CommandLine(()), programs_of(plan.line.printed.commands))
    said = _after_failure(inner, text, start, code) if code else _said(inner, text, start)
    if said.state == "unknown":
        said = _by_exit_code(inner, code)
    if said.rule == "exit_code":
        return msgspec.structs.replace(said, reason=f"exit code {code}", quote=quote, start=start, rule="printed_code")
    return said


def _echoed(line: CommandLine, text: str, limit: int) -> Meaning | None:
    """Return what the last line says after `command && echo GOOD || echo BAD`."""
    assert line.echoed is not None
    stripped = text[:limit].rstrip()
    last = stripped.rpartition("\n")[2].strip()
    if last not in (line.echoed.good, line.echoed.bad):
        return None
    good = last == line.echoed.good
    return Meaning(
        "success" if good else "failure",
        f"printed {last[:60]}",
        last[:MAX_QUOTE],
        stripped.rfind(last),
        "echoed_verdict",
    )
