"""Data goes to standard output, messages to standard error; with --json answers and errors have a versioned shape."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click

from critiqor.cli.completion_values import folder_names
from critiqor.cli.hints import named_folder, pasted
from critiqor.errors import CritiqorError, ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

OUTPUT_SCHEMA = "critiqor.output.v1"
# v1: {"schema_version", "verb", "data"} or {"schema_version", "error": {"type", "message", "fix", "exit_code"}}.

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Manner(NamedTuple):
    """How the user wants to be talked to: the options of the root command."""

    quiet: bool = False
    """Answers and errors only."""
    verbose: bool = False
    """With an error, where in the code it comes from."""
    no_color: bool = False


_manner = Manner()


def behave(manner: Manner) -> None:
    """Talk like that from now on."""
    global _manner
    _manner = manner
    named_folder(None)


def wants_color() -> bool:
    """Whether the user has not asked for none, by an option or as https://no-color.org has it."""
    return not (_manner.no_color or os.environ.get("NO_COLOR"))


def is_drawn(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that one can draw on; everything else gets plain text. A closed one is None."""
    if stream is None or not stream.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def shows_progress() -> bool:
    """Whether somebody looks on while long work is done, and wants to be told."""
    return is_drawn(sys.stderr) and not _manner.quiet


def runs_dir_option(function: _Function) -> _Function:
    """--runs-dir, the same on every verb."""
    return click.option(
        "--runs-dir",
        envvar="CRITIQOR_RUNS_DIR",
        default="runs",
        show_default=True,
        shell_complete=folder_names,
        callback=_remembered,
        help="Folder that holds the runs.",
    )(function)


def _remembered(ctx: click.Context, parameter: click.Parameter, folder: str) -> str:
    if ctx.get_parameter_source("runs_dir") is click.core.ParameterSource.COMMANDLINE:
        named_folder(folder)
    return folder


def openclaw_command_option(function: _Function) -> _Function:
    """--openclaw-command, the same on every verb that needs one."""
    return click.option(
        "--openclaw-command",
        envvar="CRITIQOR_OPENCLAW_COMMAND",
        default="openclaw",
        show_default=True,
        help="The OpenClaw to launch: a name, a path, or either with arguments.",
    )(function)


def refuse_unused_command(ctx: click.Context, option: str) -> None:
    """An --openclaw-command that nothing will launch was meant for something; settings and variables are for all."""
    if ctx.get_parameter_source("openclaw_command") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("--openclaw-command is for a real OpenClaw", fix=f"add {option}, or leave it out")


def json_option(function: _Function) -> _Function:
    """--json, the same on every verb that answers something."""
    return click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")(function)


def say(message: str) -> None:
    """A message for the user, beside whatever OpenClaw writes, unless he wants to hear nothing but answers."""
    if not _manner.quiet:
        _tell(message)


def warn(message: str) -> None:
    """A message that must not be missed, whatever else he wants to hear."""
    line = f"critiqor: {plain(message)}"
    loud = is_drawn(sys.stderr) and wants_color()
    with contextlib.suppress(OSError):
        click.echo(click.style(line, fg="red", bold=True) if loud else line, err=True)


def _tell(message: str) -> None:
    with contextlib.suppress(OSError):  # the terminal can be gone by now
        click.echo(f"critiqor: {plain(message)}", err=True)


def plain(text: str) -> str:
    """Text that came from an agent or a file, without what a terminal would obey."""
    from critiqor.model.sanitize import Replacement, sanitize

    return sanitize(text, multiline=True, replacement=Replacement.MARK)


def answer(
    verb: str, data: Any, text: str, *, as_json: bool, drawing: Callable[[], RenderableType] | None = None
) -> None:
    """The answer of a verb: as JSON, as text for people, or drawn where it has a drawing and there is a terminal."""
    if as_json:
        import msgspec

        _print_json({"verb": verb, "data": msgspec.to_builtins(data)})
    elif drawing is not None and is_drawn(sys.stdout):
        from critiqor.cli.terminal.screen import screen

        # What is not to be cut fits already, and a command to be pasted is the terminal's to wrap.
        screen(sys.stdout).print(drawing(), crop=False)
    else:
        click.echo(plain(text))


def answer_line(verb: str, data: Any) -> None:
    """One answer of a verb that gives many: a line of JSON."""
    import json

    import msgspec

    told = {"schema_version": OUTPUT_SCHEMA, "verb": verb, "data": msgspec.to_builtins(data)}
    click.echo(json.dumps(told))


def _print_json(document: dict[str, Any]) -> None:
    import json

    # In ASCII, because a terminal can obey some of the characters beyond it.
    click.echo(json.dumps({"schema_version": OUTPUT_SCHEMA, **document}, indent=2))


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Tell the user what went wrong and what to type next; returns the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return int(ExitCode.USAGE)
    message, fix, code = _explain(error)
    if _manner.verbose:
        from traceback import format_exception

        click.echo(plain("".join(format_exception(error))), err=True, nl=False)
    if as_json:
        told = {"type": type(error).__name__, "message": message, "fix": fix, "exit_code": code}
        _print_json({"error": told})
    else:
        _tell(f"{message}\n  → {fix}" if fix else message)
    return code


def _explain(error: BaseException) -> tuple[str, str | None, int]:
    if os.environ.get("CRITIQOR_DEBUG"):
        raise error
    if isinstance(error, CritiqorError):
        return error.message, error.fix and pasted(error.fix), int(error.exit_code)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "critiqor"
        return error.format_message(), f"{command} --help", int(ExitCode.USAGE)
    if isinstance(error, click.ClickException):
        return error.format_message(), None, error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted", None, int(ExitCode.INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        return "the reader of the output went away", None, int(ExitCode.ERROR)
    if isinstance(error, OSError):
        from critiqor.cli.file_errors import fix_for

        message = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        return message, fix_for(error), int(ExitCode.ERROR)
    return f"internal error: {type(error).__name__}: {error}", "CRITIQOR_DEBUG=1 shows where", int(ExitCode.ERROR)
