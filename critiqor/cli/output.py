"""Results on standard output, messages and errors on standard error; with --json, a versioned shape for both."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from critiqor.cli.hints import add_runs_dir, file_error_hint, remember_runs_dir
from critiqor.cli.terminal.capabilities import can_draw
from critiqor.errors import CritiqorError, ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.store import Run
    from critiqor.run.view import RunView

OUTPUT_SCHEMA = "critiqor.output.v1"
# v1: {"schema_version", "verb", "data"} or {"schema_version", "error": {"type", "message", "fix", "exit_code"}}.


class OutputOptions(NamedTuple):
    """The output options of the root command."""

    quiet: bool = False
    """Print results and errors only."""
    verbose: bool = False
    """Print the traceback of an error."""
    no_color: bool = False


_options = OutputOptions()


def set_output_options(options: OutputOptions) -> None:
    """Apply the options of the root command, and forget the --runs-dir of an earlier command."""
    global _options
    _options = options
    remember_runs_dir(None)


def is_quiet() -> bool:
    """Return whether only results and errors are printed: --quiet is set."""
    return _options.quiet


def wants_color() -> bool:
    """Return whether the output options allow colors: neither --no-color nor NO_COLOR (https://no-color.org) is set."""
    return not (_options.no_color or os.environ.get("NO_COLOR"))


def say(message: str) -> None:
    """Print a message on standard error, unless --quiet is set."""
    if not _options.quiet:
        _print_message(message)


def say_if_unproven(view: RunView) -> None:
    """Print that what follows is not verified, if the evidence of a run does not match its seal."""
    if view.unproven is not None:
        say(f"not verified: {view.unproven.message}\n  → {add_runs_dir(f'critiqor verify {view.run_id}')}")


def warn_if_unsigned(run: Run) -> None:
    """Warn if the diagnosis that was just made could not be signed. Its evidence is sealed all the same."""
    from critiqor.storage.seals.diagnosis_seal import read_diagnosis_seal

    found = read_diagnosis_seal(run.diagnosis_path)
    if found is not None and found.seal.unsigned is not None:
        fix = add_runs_dir(f"critiqor diagnose {run.id}")
        warn(f"{run.id} is sealed but not signed: {found.seal.unsigned}\n  → then sign its diagnosis: {fix}")


def warn(message: str) -> None:
    """Print a message on standard error, in red on a terminal, even with --quiet."""
    line = f"critiqor: {_plain(message)}"
    is_red = can_draw(sys.stderr) and wants_color()
    with contextlib.suppress(OSError):
        click.echo(click.style(line, fg="red", bold=True) if is_red else line, err=True)


def _print_message(message: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may have been closed
        click.echo(f"critiqor: {_plain(message)}", err=True)


def _plain(text: str) -> str:
    from critiqor.model.sanitize import sanitize_for_terminal

    return sanitize_for_terminal(text)


def answer(
    verb: str, data: Any, text: str, *, as_json: bool, drawing: Callable[[], RenderableType] | None = None
) -> None:
    """Print the result of a verb: as JSON, as a drawing if there is one and a terminal, else as text."""
    if as_json:
        import msgspec

        _print_json({"verb": verb, "data": msgspec.to_builtins(data)})
    elif drawing is not None and can_draw(sys.stdout):
        from critiqor.cli.terminal.screen import screen

        # Not cropped: only commands to paste can be wider than the terminal, which wraps them itself.
        screen(sys.stdout).print(drawing(), crop=False)
    else:
        click.echo(_plain(text))


def answer_line(verb: str, data: Any) -> None:
    """Print one of many results of a verb as a line of JSON."""
    import json

    import msgspec

    document = {"schema_version": OUTPUT_SCHEMA, "verb": verb, "data": msgspec.to_builtins(data)}
    click.echo(json.dumps(document))


def _print_json(document: dict[str, Any]) -> None:
    import json

    # ASCII only: a terminal interprets some of the other characters.
    click.echo(json.dumps({"schema_version": OUTPUT_SCHEMA, **document}, indent=2))


class _Explanation(NamedTuple):
    message: str
    fix: str | None
    exit_code: int


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Print an error and the suggested fix; return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return int(ExitCode.USAGE)
    message, fix, code = _explain(error)
    if _options.verbose:
        from traceback import format_exception

        click.echo(_plain("".join(format_exception(error))), err=True, nl=False)
    if as_json:
        _print_json({"error": {"type": type(error).__name__, "message": message, "fix": fix, "exit_code": code}})
    else:
        _print_message(f"{message}\n  → {fix}" if fix else message)
    return code


def _explain(error: BaseException) -> _Explanation:
    if os.environ.get("CRITIQOR_DEBUG"):
        raise error
    if isinstance(error, CritiqorError):
        return _Explanation(error.message, error.fix and add_runs_dir(error.fix), int(error.exit_code))
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "critiqor"
        return _Explanation(error.format_message(), f"{command} --help", int(ExitCode.USAGE))
    if isinstance(error, click.ClickException):
        return _Explanation(error.format_message(), None, error.exit_code)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _Explanation("interrupted", None, int(ExitCode.INTERRUPTED))
    if isinstance(error, BrokenPipeError):
        return _Explanation("the program that reads the output closed the pipe", None, int(ExitCode.ERROR))
    if isinstance(error, OSError):
        message = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        return _Explanation(message, file_error_hint(error), int(ExitCode.ERROR))
    message = f"internal error: {type(error).__name__}: {error}"
    return _Explanation(message, "run it again with `critiqor -v` to see the traceback", int(ExitCode.ERROR))
