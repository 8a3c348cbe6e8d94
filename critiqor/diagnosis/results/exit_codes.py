"""Exit codes: those that a text states, and those that are an answer and no failure."""

from __future__ import annotations

import re

from critiqor.diagnosis.results.programs import Program
from critiqor.diagnosis.results.rules import program_data

_SIZE = 300
_AT_END = re.compile(
    r"""[\[(<]?(?:(?:command|process|script|program|shell)\ )?(?:exited|finished|failed|terminated|completed|ended)
    \ with\ (?:exit\ )?(?:code|status):?\ (-?\d{1,10})[\])>]?\.?$
    |[\[(]?(?:process\ )?exit[ _](?:code|status)[:=]?\ ?(-?\d{1,10})[\])]?\.?$
    |<(?:returncode|exit_code)>(-?\d{1,10})</(?:returncode|exit_code)>$""",
    re.IGNORECASE | re.VERBOSE,
)
_may_state = re.compile(r"exit|code>|with (?:code|status)", re.IGNORECASE).search
_AT_START = re.compile(
    r"(?:Error: )?(?:Exit code:? (-?\d{1,10})|<returncode>(-?\d{1,10})</returncode>)\s*(?:\n|$)", re.IGNORECASE
)


def stated_code(text: str) -> tuple[int, int] | None:
    """Return the exit code that the tool added to the output, and where; None if there is none."""
    end = text[-_SIZE:].rstrip()
    if _may_state(end):
        last = end.rpartition("\n")[2].strip()
        if found := _AT_END.match(last):
            return int(found[1] or found[2] or found[3]), text.rfind(last)
    if text[:1] in "Ee<" and (found := _AT_START.match(text)):
        return int(found[1] or found[2]), 0
    return None


def is_answer(program: Program, code: int) -> bool:
    """Return whether a non-zero exit code is an answer of a program: nothing found, files differ."""
    if program.negated:
        return True
    answers = program_data().answers
    return any(code in answers[name] for name in program.names if name in answers)
