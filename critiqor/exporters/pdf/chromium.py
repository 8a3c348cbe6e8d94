"""Find an installed Chromium and print one HTML file with it, in a temporary profile.

The user's browser profile is not used, scripts are disabled, and no host names are resolved. All files are in a private
temporary folder that is always removed at the end.
"""

from __future__ import annotations

import base64
import binascii
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
from typing import Any, NamedTuple

import psutil

from critiqor.errors import CritiqorError
from critiqor.exporters.pdf.devtools import BrowserError, DevToolsClient
from critiqor.processes import marked_processes

VARIABLE = "CRITIQOR_CHROMIUM"
"""Environment variable with the name or path of the browser, if it is not one of the usual programs."""
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
"""Timeout after which Chromium is killed."""
_MARKER = "CRITIQOR_PRINTING"
_TO_BROWSER, _FROM_BROWSER = 3, 4
"""File descriptors of the pipes in the browser process."""
_CHUNK_BYTES = 1 << 18
_FOOTER = (
    '<div style="width:100%;text-align:center;font:8px sans-serif;color:#555">'
    '<span class="pageNumber"></span> of <span class="totalPages"></span></div>'
)
_MAX_ERROR_LENGTH = 300
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
    """An installed Chromium."""

    program: Path
    alternative: str
    """Command to suggest if it cannot print."""


def find_chromium(alternative: str, environment: Mapping[str, str] = os.environ) -> Chromium:
    """Return the installed Chromium. Raise an error that suggests `alternative` if there is none."""
    configured = environment.get(VARIABLE)
    if configured:
        if (found := shutil.which(configured, path=environment.get("PATH"))) is None:
            raise CritiqorError(
                f"{VARIABLE} is {configured}, which is not an executable program",
                fix=f"unset {VARIABLE}, or {alternative}",
            )
        return Chromium(Path(found), alternative)
    for name in NAMES:
        if (found := shutil.which(name, path=environment.get("PATH"))) is not None:
            return Chromium(Path(found), alternative)
    for name in MAC_APPLICATIONS if sys.platform == "darwin" else ():
        for root in (Path("/Applications"), Path.home() / "Applications"):
            program = root / f"{name}.app" / "Contents" / "MacOS" / name
            if program.is_file():
                return Chromium(program, alternative)
    message = f"PDF needs Chromium, and none is on the PATH; set {VARIABLE} to its path"
    raise CritiqorError(message, fix=f"{alternative}   which every browser can print")


def print_pdf(page: Iterable[bytes], chromium: Chromium) -> Iterator[bytes]:
    """Yield a page as PDF in chunks, the first one only after the whole PDF was created."""
    with tempfile.TemporaryDirectory(prefix="critiqor-print-", ignore_cleanup_errors=True) as private:
        folder = Path(private).resolve()
        source, target = folder / "report.html", folder / "report.pdf"
        with source.open("wb") as file:
            file.writelines(page)
        try:
            _print(chromium.program, source, target)
        except BrowserError as error:
            message = f"{chromium.program} did not print the report: {error}"
            raise CritiqorError(message, fix=f"{chromium.alternative}   which every browser can print") from error
        with target.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk


def _print(program: Path, source: Path, target: Path) -> None:
    options = [
        *_OPTIONS,
        # Chromium does not run as root with its sandbox. Critiqor wrote the page, and its scripts are disabled.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        f"--user-data-dir={source.with_name('profile')}",
    ]
    with _Browser([str(program), *options], source.with_name("stderr.txt")) as client, target.open("wb") as file:
        for chunk in _print_page(source, client):
            file.write(chunk)
    if not _is_whole(target):
        raise BrowserError("its output is not a PDF")


class _Browser:
    """A browser process that is controlled through pipes and killed with all its child processes."""

    def __init__(self, command: list[str], errors: Path) -> None:
        self._command = command
        self._errors = errors
        self._marker = {_MARKER: secrets.token_hex(8)}
        self._pid: int | None = None
        self._pipes: list[int] = []

    def __enter__(self) -> DevToolsClient:
        browser_in, client_out = os.pipe()
        client_in, browser_out = os.pipe()
        self._pipes = [client_out, client_in]
        # Move the descriptors away from 3 and 4, which are their numbers in the browser.
        spawned = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _TO_BROWSER + 10) for end in (browser_in, browser_out)]
        try:
            self._pid = os.posix_spawn(
                self._command[0],
                self._command,
                {**os.environ, **self._marker},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, str(self._errors), os.O_WRONLY | os.O_CREAT, 0o600),
                    (os.POSIX_SPAWN_DUP2, spawned[0], _TO_BROWSER),
                    (os.POSIX_SPAWN_DUP2, spawned[1], _FROM_BROWSER),
                ],
                # In its own process group, the browser does not get Ctrl-C; it is killed in `_end`.
                setpgroup=0,
            )
        except OSError as error:
            self._close()
            raise BrowserError(f"it does not start: {error.strerror}") from error
        finally:
            for end in (browser_in, browser_out, *spawned):
                os.close(end)
        return DevToolsClient(client_out, client_in, time.monotonic() + PRINT_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self._end()
        if isinstance(error, BrowserError):
            error.args = (f"{error}{_last_error_line(self._errors)}",)

    def _close(self) -> None:
        for end in self._pipes:
            os.close(end)

    def _end(self) -> None:
        assert self._pid is not None
        left: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            # Sandboxed processes hide their environment and are found only as descendants.
            left = psutil.Process(self._pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        for process in {*left, *marked_processes(self._marker)}:
            with suppress(psutil.Error):
                process.kill()
        os.waitpid(self._pid, 0)


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.read(5)
        opened.seek(max(0, file.stat().st_size - 1024))
        return start == b"%PDF-" and b"%%EOF" in opened.read()


def _last_error_line(errors: Path) -> str:
    """Return the last line of the browser's error output in parentheses; empty if there is none."""
    try:
        with errors.open("rb") as file:
            file.seek(max(0, errors.stat().st_size - 4096))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f" ({lines[-1][:_MAX_ERROR_LENGTH]})" if lines else ""


def _print_page(page: Path, browser: DevToolsClient) -> Iterator[bytes]:
    """Yield a page as PDF while it is received. Scripts of the page are disabled."""
    target = _text(browser.call("Target.createTarget", url="about:blank"), "targetId")
    session = _text(browser.call("Target.attachToTarget", targetId=target, flatten=True), "sessionId")
    browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.call("Page.enable", session)
    opened = browser.call("Page.navigate", session, url=page.as_uri())
    if opened.get("errorText"):
        raise BrowserError(f"it does not open the page: {opened['errorText']}")
    browser.wait_for("Page.loadEventFired")
    printed = browser.call(
        "Page.printToPDF",
        session,
        printBackground=True,
        preferCSSPageSize=True,
        displayHeaderFooter=True,
        headerTemplate="<span></span>",
        footerTemplate=_FOOTER,
        transferMode="ReturnAsStream",
    )
    stream = _text(printed, "stream")
    while True:
        chunk = browser.call("IO.read", session, handle=stream, size=_CHUNK_BYTES)
        data = _text(chunk, "data")
        try:
            yield base64.b64decode(data, validate=True) if chunk.get("base64Encoded") else data.encode()
        except binascii.Error as error:
            raise BrowserError("it does not answer like Chromium (DevTools protocol)") from error
        if chunk.get("eof"):
            return


def _text(response: dict[str, Any], name: str) -> str:
    value = response.get(name)
    if not isinstance(value, str):
        raise BrowserError("it does not answer like Chromium (DevTools protocol)")
    return value
