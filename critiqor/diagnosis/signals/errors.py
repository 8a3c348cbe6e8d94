"""Heuristics on error messages: the line that matters, the kind of an error, and errors that are an answer."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.signals.noise import without_clock
from critiqor.diagnosis.signals.outputs import printed_lines

_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”")
MAX_LINE = 2000
"""Maximum number of characters of a line that are examined: the patterns below would take minutes for a giant word."""
_PLACE = re.compile(r"(?:[a-zA-Z]+://|~?/|\.\.?/|[A-Za-z]:\\)\S+")
_NUMBER = re.compile(
    # An HTTP status is the only number that identifies a kind of error.
    r"((?:http\S*|status|code|error|failed)\W{1,3}[45]\d\d\b)|0x[0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|\d+(?:[.,]\d+)*",
    re.IGNORECASE,
)
_ERROR_WORDS = re.compile(
    r"error|exception|fail|not found|no such|denied|refused|cannot|can't|unable|invalid|unexpected|timed? ?out|missing",
    re.IGNORECASE,
)


def error_line(text: str) -> str:
    """Return the line of an output that describes a failure best; empty if the output is empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A stack trace has its cause at the end, a message at the beginning.
    is_trace = any(line.startswith(("Traceback", "at ")) for line in lines[:8])
    chosen = next((line for line in (reversed(lines) if is_trace else lines) if _ERROR_WORDS.search(line)), None)
    return chosen or (lines[-1] if lines else "")


def error_kind(text: str) -> str:
    """Return the kind of an error: its text without names, paths and numbers."""
    line = error_line(text)
    _, marker, reason = line.rpartition("due to: ")
    return _kind_of_line((reason if marker else line)[:MAX_LINE])


@lru_cache(maxsize=1024)
def _kind_of_line(line: str) -> str:
    line = _NUMBER.sub(lambda found: found[1] or "#", _PLACE.sub("…", _QUOTED.sub("…", line)))
    return " ".join(line.lower().split())[:160]


_DOES_NOT_EXIST = re.compile(
    r"not found|\bno (?:such|results?|match|module)|n[o']t exist|(?:can(?:not|'t)|could not) find"
    r"|\b(?:404|410|enoent)\b|missing script|unknown (?:command|host)",
    re.IGNORECASE,
)
_ALREADY_DONE = re.compile(
    r"\balready (?:exists?|up|installed|in place)|file exists|nothing to (?:commit|do|push)|no changes made",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def reports_absence(error: str) -> bool:
    """Return whether an error says that something does not exist, which can be an answer and not a failure."""
    return _DOES_NOT_EXIST.search(error) is not None


@lru_cache(maxsize=4096)
def reports_already_done(error: str) -> bool:
    """Return whether an error says that the requested state already exists."""
    return _ALREADY_DONE.search(error) is not None


_EXIT_STATUS = ("exit code", "ended by")


def failure_reason(error: str, output: str) -> str:
    """Return the reason for a failed tool call: for an exit code, also the most informative line of the output."""
    if not error:
        return output
    printed = error_line("\n".join(printed_lines(output))) if error.startswith(_EXIT_STATUS) else ""
    return f"{error}: {printed}" if printed else error


def failure_kind(error: str, output: str) -> str:
    """Return the kind of a failed tool call; for an exit code with the kind of its output: code 1 has many reasons."""
    if not error.startswith(_EXIT_STATUS):
        return error_kind(error)
    printed = "\n".join(printed_lines(output))
    return f"{error}: {error_kind(without_clock(printed))}" if printed else error


_SHELL_ERROR = re.compile(
    # A script is named by its file: `./deploy.sh: line 4: syntax error` is about the script, not about the call.
    r"(?:^|: )(?:\S*/)?(?:(?:ba|da|k|z)?sh: ?|eval: )(?:(?:-c|eval|line \d+|\d+): )*"
    r"(?:syntax error|unexpected EOF|parse error|unmatched |unterminated|-\S+: invalid option\s+eval:)",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_FOUND = re.compile(r"(?:^|: )[^\s\w./~$]\S*: (?:command )?not found|command not found: [^\s\w./~$]", re.MULTILINE)
"""A word that was taken for a program, and whose first character cannot begin the name of one: `,`, `:q`, `]:`."""
_NO_NAME = re.compile(r"(?:\s|\\[nrt])*(?![\w\s./~$\"'`\\(\[{!<>#%]|$)")
"""The same for the first word of a command line, in which quotes, brackets and redirections can come first."""


def is_refused_by_shell(output: str) -> bool:
    """Return whether an error comes from the shell, which did not accept a command line, and from no program."""
    return _SHELL_ERROR.search(output) is not None or _NOT_FOUND.search(output) is not None


def names_no_program(line: str, output: str) -> bool:
    """Return whether the error is that a command line names no program, so that its purpose is not known."""
    return _NO_NAME.match(line) is not None and is_refused_by_shell(output)
