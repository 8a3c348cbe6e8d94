"""Options of `report` and `export`: the format of --format, and the file or stream of --output."""

from __future__ import annotations

import os
import sys
from errno import EROFS
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import click
from click.shell_completion import CompletionItem

from critiqor.cli.output import warn
from critiqor.errors import UsageError
from critiqor.exporters.formats import FORMATS, extension_formats
from critiqor.extensions.entry_points import installed

STDOUT = "-"
"""The value of --output that means standard output."""
FILE_FORMATS = [name for name, format_ in FORMATS.items() if format_.takes in ("pages", "bundle")]
"""Formats that are not printed on a terminal: HTML, PDF and archives."""


class FormatChoice(click.Choice[str]):
    """The --format option: a built-in format, or one of an extension, which is loaded only if it is named."""

    def __init__(self, *, reports: bool = False) -> None:
        super().__init__([name for name, format_ in FORMATS.items() if format_.is_report or not reports])
        self._reports = reports

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of the option --format. Print a warning for each extension that cannot be used."""
        if value in self.choices:
            return value
        extensions = extension_formats()
        for problem in extensions.problems:
            warn(problem)
        names = [name for name, format_ in extensions.parts.items() if format_.is_report or not self._reports]
        if value in names:
            return value
        return self.fail(f"{value!r} is not one of {', '.join([*self.choices, *names])}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the value of the option --format; formats of extensions are completed without loading them."""
        names = [*self.choices, *(each.name for each in installed("critiqor.exporters"))]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def output_target(format_name: str, output: str | None) -> Path | BinaryIO | None:
    """Return the file or stream that --output names; None if the exporter chooses the file name."""
    if output is None:
        return None
    if output != STDOUT:
        return _check_folder(Path(output))
    if format_name in FILE_FORMATS and sys.stdout.isatty():
        raise UsageError(f"{format_name} cannot be printed on a terminal", fix="--output FILE")
    return sys.stdout.buffer


def _check_folder(file: Path) -> Path:
    """Return the file if its folder exists. A missing folder may be a typo, so it is not created."""
    folder = file.parent
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}", fix=f"mkdir -p {quote(str(folder))}")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        # The error of the write itself would name our temporary file.
        raise OSError(EROFS, os.strerror(EROFS), str(file))
    return file
