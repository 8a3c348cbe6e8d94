"""Results on standard output, messages and errors on standard error; with --json, a versioned shape for both."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from critiqor.cli.hints import add_runs_dir, remember_runs_dir
from critiqor.errors import CritiqorError, ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

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


def wants_color() -> bool:
    """Return whether colors are allowed: neither --no-color nor NO_COLOR (https://no-color.org) is set."""
    return not (_options.no_color or os.environ.get("NO_COLOR"))


def can_draw(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that shows drawings; others get plain text. A closed stream is None."""
    if stream is None or not stream.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def shows_progress() -> bool:
    """Return whether progress is shown: standard error is a terminal, and --quiet is not set."""
    return can_draw(sys.stderr) and not _options.quiet


def say(message: str) -> None:
    """Print a message on standard error, unless --quiet is set."""
    if not _options.quiet:
        _print_message(message)


def warn(message: str) -> None:
    """Print a message on standard error, in red on a terminal, even with --quiet."""
    line = f"critiqor: {plain(message)}"
    is_red = can_draw(sys.stderr) and wants_color()
    with contextlib.suppress(OSError):
        click.echo(click.style(line, fg="red", bold=True) if is_red else line, err=True)


def _print_message(message: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may have been closed
        click.echo(f"critiqor: {plain(message)}", err=True)


def plain(text: str) -> str:
    """Replace the control characters of untrusted text, which a terminal would interpret."""
    from critiqor.model.sanitize import Replacement, sanitize

    return sanitize(text, multiline=True, replacement=Replacement.MARK)


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
        click.echo(plain(text))


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

        click.echo(plain("".join(format_exception(error))), err=True, nl=False)
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
        return _Explanation(message, file_error_fix(error), int(ExitCode.ERROR))
    message = f"internal error: {type(error).__name__}: {error}"
    return _Explanation(message, "run it again with `critiqor -v` to see the traceback", int(ExitCode.ERROR))


def file_error_fix(error: OSError) -> str | None:
    """Return a suggested fix for a file error; None if it depends on what the user wanted."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space on that disk, then run the command again"
    if error.errno == errno.EROFS:
        return "choose a folder that is writable"
    if not isinstance(error.filename, str):
        return None
    path = Path(error.filename).absolute()
    # lexists: a folder without search permission exists too.
    existing = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"ls -ld {quote(str(existing))}   shows who may use it"
    if error.errno == errno.ENOENT and existing not in (path, path.parent):
        return f"mkdir -p {quote(str(path.parent))}"
    return None
