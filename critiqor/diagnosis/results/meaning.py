"""The entry point: what the result of any tool call means."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.results.app_answers import meaning_of_answer
from critiqor.diagnosis.results.command_results import meaning_of_command
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.diagnosis.results.lines import plain
from critiqor.diagnosis.results.meaning_struct import Meaning
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.spans.calls import command_line

_WORDS_OF_COMMAND = re.compile(r'"(?:command|cmd)":(\[(?:"(?:[^"\\]|\\.)*",?)+\])')
_CUT_LINE = re.compile(r'"(?:command|cmd|script)":"((?:[^"\\]|\\.)*)')
_SILENT = ("", "reported")
"""Rules that do not look at the text."""
_OUTPUT_MEMBERS = ("output", "stdout", "aggregated", "aggregatedOutput")
_CODE_MEMBERS = ("exit_code", "exitCode", "returncode", "return_code")


def meaning_of(*, tool: str, arguments: str, text: str, exit_code: int | None, reported_failure: bool) -> Meaning:
    """Return what the result of a tool call means.

    `arguments` are the arguments as canonical JSON, `text` is the output, `exit_code` what was recorded, and
    `reported_failure` whether the recorder counted the call as failed. The recorded status is not always what the
    result says: a pipe hides an exit code, and an answer can state an error or that something is only queued.
    """
    shown = plain(text) if "\x1b" in text or "\r" in text else text
    line = _line(arguments)
    if not (runs_commands(tool) or (" " in line and '"path":' not in arguments)):
        meaning = meaning_of_answer(tool, arguments, shown, reported_failure)
    else:
        output, code = _unwrapped(shown, exit_code)
        meaning = meaning_of_command(line, output, code, reported_failure)
        if not line and meaning.rule in _SILENT:
            # `execute_trade` and `process_order` run no program, although they are named like tools that do.
            meaning = meaning_of_answer(tool, arguments, output, reported_failure)
        if output is not shown and meaning.quote:
            meaning = msgspec.structs.replace(meaning, start=shown.find(meaning.quote))
    if shown is not text and meaning.start >= 0 and len(shown) != len(text):
        # Colours shift positions; inside of the quote they make it unfindable.
        meaning = msgspec.structs.replace(meaning, start=text.find(meaning.quote))
    return meaning


def _line(arguments: str) -> str:
    """Return the command line in the arguments; empty if there is none."""
    if '"command"' not in arguments and '"cmd"' not in arguments and '"script"' not in arguments:
        return ""
    line = command_line(arguments)
    if not line:
        if found := _WORDS_OF_COMMAND.search(arguments):
            return " ".join(map(_quoted, msgspec.json.decode(found[1], type=list[str])))
        found = _CUT_LINE.search(arguments)
        line = found[1] if found else ""
    if "\\" not in line:
        return line
    try:
        return msgspec.json.decode(f'"{line}"', type=str)
    except msgspec.DecodeError:
        return line


def _quoted(word: str) -> str:
    """Return a word as a shell would need it."""
    return word if re.fullmatch(r"[\w./=:@%+,-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def _unwrapped(text: str, exit_code: int | None) -> tuple[str, int | None]:
    """Return output and exit code of a result that holds both as JSON."""
    if text[:1] != "{" or not any(f'"{name}"' in text for name in _CODE_MEMBERS):
        return text, exit_code
    value = decoded(text)
    if not isinstance(value, dict):
        return text, exit_code
    code = next((value[name] for name in _CODE_MEMBERS if type(value.get(name)) is int), None)
    outputs = [value[name] for name in (*_OUTPUT_MEMBERS, "stderr") if isinstance(value.get(name), str)]
    if code is None or not outputs:
        return text, exit_code
    return "\n".join(filter(None, outputs)), exit_code if exit_code is not None else code
