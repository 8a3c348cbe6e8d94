"""Output of `report` and `export`: the file or stream of --output, and the HTML pages of a run."""

from __future__ import annotations

import os
import sys
from errno import EROFS
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from critiqor.errors import UsageError
from critiqor.exporters.formats import FORMATS

STDOUT = "-"
"""The value of --output that means standard output."""
FILE_FORMATS = [name for name, format_ in FORMATS.items() if format_.takes in ("pages", "bundle")]
"""Formats that are not printed on a terminal: HTML, PDF and archives."""


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
