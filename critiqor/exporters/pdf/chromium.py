"""Printing a page on a Chromium of this machine: found, run on one file in a profile of its own, and ended.

Nothing of the user's browser is touched, no script runs, and no name is looked up. All of it lies in a private folder
that goes when the printing ends, whichever way it ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import psutil

from critiqor.errors import CritiqorError
from critiqor.exporters.pdf.devtools import Conversation, SilenceError, pdf_of
from critiqor.processes import marked_processes

VARIABLE = "CRITIQOR_CHROMIUM"
"""Names the program, where it is none of the usual ones."""
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
    "microsoft-edge",
    "microsoft-edge-stable",
)
MAC_APPLICATIONS = ("Chromium", "Google Chrome", "Microsoft Edge")
PRINT_SECONDS = 120.0
"""After which a Chromium that has not finished is ended."""
_MARK = "CRITIQOR_PRINTING"
_TO_BROWSER, _FROM_BROWSER = 3, 4
"""The numbers that the pipes have there."""
_PIECE = 1 << 18
_LONGEST_COMPLAINT = 300
_OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--use-mock-keychain",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


class Chromium(NamedTuple):
    """A browser that prints."""

    program: Path
    instead: str
    """What to type where it does not."""


def find_chromium(instead: str, environment: Mapping[str, str] = os.environ) -> Chromium:
    """The Chromium of this machine; where there is none, the error names what to type instead."""
    named = environment.get(VARIABLE)
    if named:
        if (found := shutil.which(named, path=environment.get("PATH"))) is None:
            raise CritiqorError(
                f"{VARIABLE} is {named}, which is not an executable program", fix=f"unset {VARIABLE}, or {instead}"
            )
        return Chromium(Path(found), instead)
    for name in NAMES:
        if (found := shutil.which(name, path=environment.get("PATH"))) is not None:
            return Chromium(Path(found), instead)
    for name in MAC_APPLICATIONS if sys.platform == "darwin" else ():
        for root in (Path("/Applications"), Path.home() / "Applications"):
            program = root / f"{name}.app" / "Contents" / "MacOS" / name
            if program.is_file():
                return Chromium(program, instead)
    message = f"PDF needs Chromium, and none is on the PATH; set {VARIABLE} to its path"
    raise CritiqorError(message, fix=f"{instead}   which every browser can print")


def printed(page: Iterable[bytes], chromium: Chromium) -> Iterator[bytes]:
    """A page as PDF, piece by piece. Nothing comes before the whole of it is there."""
    with tempfile.TemporaryDirectory(prefix="critiqor-print-", ignore_cleanup_errors=True) as private:
        folder = Path(private).resolve()
        source, target = folder / "report.html", folder / "report.pdf"
        with source.open("wb") as file:
            file.writelines(page)
        try:
            _print(chromium.program, source, target)
        except SilenceError as error:
            message = f"{chromium.program} did not print the report: {error}"
            raise CritiqorError(message, fix=f"{chromium.instead}   which every browser can print") from error
        with target.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece


def _print(program: Path, source: Path, target: Path) -> None:
    options = [
        *_OPTIONS,
        # Chromium refuses to run as root inside of its sandbox. The page is ours, and no script in it runs.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        f"--user-data-dir={source.with_name('profile')}",
    ]
    with _Browser([str(program), *options], source.with_name("said.txt")) as conversation, target.open("wb") as file:
        for piece in pdf_of(source, conversation):
            file.write(piece)
    if not _is_whole(target):
        raise SilenceError("its output is not a PDF")


class _Browser:
    """A browser that is talked to through pipes, and is ended with all that it has started."""

    def __init__(self, command: list[str], said: Path) -> None:
        self._command = command
        self._said = said
        self._mark = {_MARK: secrets.token_hex(8)}
        self._pid: int | None = None
        self._pipes: list[int] = []

    def __enter__(self) -> Conversation:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._pipes = [ours_out, ours_in]
        # Away from the numbers that they are going to have there.
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _TO_BROWSER + 10) for end in (theirs_in, theirs_out)]
        try:
            self._pid = os.posix_spawn(
                self._command[0],
                self._command,
                {**os.environ, **self._mark},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, str(self._said), os.O_WRONLY | os.O_CREAT, 0o600),
                    (os.POSIX_SPAWN_DUP2, moved[0], _TO_BROWSER),
                    (os.POSIX_SPAWN_DUP2, moved[1], _FROM_BROWSER),
                ],
                # Ctrl-C is ours, and the browser is ended by us.
                setpgroup=0,
            )
        except OSError as error:
            self._close()
            raise SilenceError(f"it does not start: {error.strerror}") from error
        finally:
            for end in (theirs_in, theirs_out, *moved):
                os.close(end)
        return Conversation(ours_out, ours_in, time.monotonic() + PRINT_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self._end()
        if isinstance(error, SilenceError):
            error.args = (f"{error}{_complaint(self._said)}",)

    def _close(self) -> None:
        for end in self._pipes:
            os.close(end)

    def _end(self) -> None:
        assert self._pid is not None
        left: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            # Those of its sandbox hide their environment, and are known by descent alone.
            left = psutil.Process(self._pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        for process in {*left, *marked_processes(self._mark)}:
            with suppress(psutil.Error):
                process.kill()
        os.waitpid(self._pid, 0)


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.read(5)
        opened.seek(max(0, file.stat().st_size - 1024))
        return start == b"%PDF-" and b"%%EOF" in opened.read()


def _complaint(said: Path) -> str:
    """The last thing that it said."""
    try:
        with said.open("rb") as file:
            file.seek(max(0, said.stat().st_size - 4096))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f" ({lines[-1][:_LONGEST_COMPLAINT]})" if lines else ""
