"""Where what a verb writes goes to."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from errno import EROFS
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from critiqor.errors import UsageError
from critiqor.exporters.formats import FORMATS

STREAM = "-"
"""What `--output` calls standard output."""
FILES = [name for name, format_ in FORMATS.items() if format_.takes in ("pages", "bundle")]
"""Formats that are nothing for a terminal."""


def target_of(format_name: str, output: str | None) -> Path | BinaryIO | None:
    """The file or the stream that `--output` names; None for a file that is named by the run."""
    if output is None:
        return None
    if output != STREAM:
        return _writable(Path(output))
    if format_name in FILES and sys.stdout.isatty():
        raise UsageError(f"{format_name} is nothing that a terminal can show", fix="--output FILE")
    return sys.stdout.buffer


def _writable(file: Path) -> Path:
    """A file whose folder is there: one that was made for a slip of the pen would hide what was written."""
    folder = file.parent
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}", fix=f"mkdir -p {quote(str(folder))}")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise OSError(EROFS, os.strerror(EROFS), str(file))  # rather than the name of a temporary file of ours
    return file


def patience(doing: str, run: str, runs_dir: str, output: str | None = None) -> AbstractContextManager[object]:
    """Around the writing: shows that it goes on. Not beside a stream, which may come out on the same terminal."""
    from critiqor.cli.progress import writing

    return nullcontext() if output == STREAM else writing(doing, run, runs_dir)
