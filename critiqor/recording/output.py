"""What a supervised process prints: forwarded to where it would have gone, and its end kept.

The process gets a pipe, or a pseudo-terminal where it would have had a terminal, so that colours and widths stay the
same. Its input and its controlling terminal stay the real ones. A small process forwards the bytes as they are: it goes
on if the monitor is killed, and as long as anything that OpenClaw has started prints. This file is also the script of
that process, which starts quickly because it needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from critiqor.openclaw import command_words

MAX_KEPT = 1 << 16
"""Bytes of the output that are kept: the last ones."""
MARGIN = 1 << 14
"""Bytes before them that are looked at, so that a secret of which only the end is kept is recognized."""
FINISH_SECONDS = 5.0
"""How long the monitor waits for the last bytes: they cannot be forwarded to a terminal whose output is stopped."""
END_SECONDS = 0.2
DRAIN_SECONDS = 2.0
"""How long what is printed after the end of the process still counts."""
RESIZE_SECONDS = 0.5
_READ_BYTES = 1 << 16
_SIZE = b"\0" * 8
_IGNORED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTOU),
)
"""Signals that are for the agent, or that would keep its last words from being printed."""


class PrintedOutput(NamedTuple):
    """What a process printed."""

    total: int
    """Bytes altogether."""
    end: bytes
    """The last `MAX_KEPT` of them, and a margin."""


def kept_text(printed: PrintedOutput, redact: Callable[[str], str]) -> str:
    """Return the end of what was printed as text: without secrets and escape sequences, from the start of a line on."""
    safe = _safe(printed.end, redact)
    # The margin can hold the end of a secret that is not recognized because its start is missing.
    margin = len(_safe(printed.end[:MARGIN], redact)) if printed.total > len(printed.end) else 0
    start = max(margin, len(safe) - MAX_KEPT)
    if start == 0:
        return safe.decode()
    last = safe[start:].decode("utf-8", "ignore")
    return last.partition("\n")[2] or last


def _safe(data: bytes, redact: Callable[[str], str]) -> bytes:
    """Return what was printed without secrets and escape sequences."""
    from critiqor.model.sanitize import remove_escape_sequences

    # Colours within a secret would hide it.
    plain = remove_escape_sequences(data.decode("utf-8", "replace")).replace("\r\n", "\n")
    return redact(plain).encode("utf-8", "replace")


class OutputCapture:
    """Captures standard output and standard error of one process."""

    def __init__(self, output: IO[bytes] | None = None) -> None:
        """With `output`, both go there, else to those of this process."""
        self._output = output
        self._given: list[int] = []
        """Descriptors for the process."""
        self._forwarder: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[int, int] | None:
        """Start to forward. Return the descriptors for standard output and standard error of the process.

        None if that is not possible: nothing is kept then, and the process prints as it would without us.
        """
        try:
            self._start()
        except OSError:
            self.release()
            return None
        return self._given[0], self._given[-1]

    def _start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "CRITIQOR_RUN_ID"}
        with contextlib.ExitStack() as opened:
            pairs = []
            for target in self._targets():
                source, given = _terminal_like(target) if os.isatty(target) else os.pipe()
                copy = os.dup(target)
                for descriptor in (source, copy):
                    opened.callback(os.close, descriptor)
                self._given.append(given)
                pairs.append((source, copy))
            self._forwarder = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *(f"{source}:{copy}" for source, copy in pairs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[descriptor for pair in pairs for descriptor in pair],
                env=environment,
                cwd="/",
            )

    def _targets(self) -> list[int]:
        """Return where the process would print to."""
        if self._output is not None:
            return [self._output.fileno()]
        # Where a standard stream is closed, its number belongs to the next file that is opened, which is not inherited.
        if not (os.get_inheritable(1) and os.get_inheritable(2)):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        # Through one pipe, what goes to the same place stays in order.
        return [1] if os.path.sameopenfile(1, 2) else [1, 2]

    def release(self) -> None:
        """Close the descriptors for the process, once it has them."""
        while self._given:
            os.close(self._given.pop())

    def finish(self) -> PrintedOutput | None:
        """Return what was printed so far, when it has been forwarded. What follows is forwarded, and not kept."""
        self.release()
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is None or forwarder.stdin is None or forwarder.stdout is None:
            return None
        forwarder.stdin.close()
        data = bytearray()
        until = time.monotonic() + FINISH_SECONDS
        with forwarder.stdout as answer:
            while select.select([answer], [], [], max(0.0, until - time.monotonic()))[0]:
                if not (part := os.read(answer.fileno(), _READ_BYTES)):
                    break
                data += part
        # One that goes on for processes that are left running is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            forwarder.wait(END_SECONDS)
        total, line_break, end = data.partition(b"\n")
        return PrintedOutput(int(total), bytes(end)) if line_break and total.isdigit() else None


def _terminal_like(target: int) -> tuple[int, int]:
    """Return both ends of a pseudo-terminal with the size of a terminal, which passes bytes on as they are."""
    source, given = os.openpty()
    modes = termios.tcgetattr(given)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(given, termios.TCSANOW, modes)
    _copy_size(target, source)
    return source, given


def _copy_size(target: int, source: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(source, termios.TIOCSWINSZ, fcntl.ioctl(target, termios.TIOCGWINSZ, _SIZE))


class _Forwarder:
    """Copies each source to its target until the sources end, and keeps the last bytes until they are asked for."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._targets = dict(pairs)
        self._has_terminal = any(map(os.isatty, self._targets))
        self._kept: deque[bytes] | None = deque()
        self._kept_bytes = 0
        self._total = 0

    def run(self, control: int, answer: int) -> None:
        """Forward until all sources have ended; the end of `control` asks for what is kept."""
        waiting = [control]
        while self._targets or waiting:
            ready = select.select([*self._targets, *waiting], [], [], RESIZE_SECONDS if self._has_terminal else None)[0]
            if self._has_terminal:
                for source, target in self._targets.items():
                    _copy_size(target, source)
            for source in ready:
                if source != control:
                    self._forward(source)
                elif not os.read(control, _READ_BYTES):
                    waiting = []
                    self._hand_over(answer)

    def _hand_over(self, answer: int) -> None:
        """Forward what is there, and answer with the bytes that are kept."""
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until and (ready := select.select([*self._targets], [], [], 0)[0]):
            for source in ready:
                self._forward(source)
        end = b"".join(self._kept or ())[-MAX_KEPT - MARGIN :]
        self._kept = None
        with contextlib.suppress(OSError), open(answer, "wb") as file:
            file.write(b"%d\n" % self._total + end)

    def _forward(self, source: int) -> None:
        try:
            data = os.read(source, _READ_BYTES)
            self._keep(data)
            _write(self._targets[source], data)
        except OSError:
            data = b""  # the other end of a pseudo-terminal is closed, or nobody reads what is forwarded
        if not data:
            # The process then gets the error that it would have got from where it printed to.
            os.close(source)
            os.close(self._targets.pop(source))

    def _keep(self, data: bytes) -> None:
        self._total += len(data)
        if self._kept is None:
            return
        self._kept.append(data)
        self._kept_bytes += len(data)
        while self._kept_bytes - len(self._kept[0]) >= MAX_KEPT + MARGIN:
            self._kept_bytes -= len(self._kept.popleft())


def _write(target: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:
            select.select([], [target], [])


def _run(arguments: Sequence[str]) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    pairs = (pair.partition(":") for pair in arguments)
    _Forwarder([(int(source), int(target)) for source, _, target in pairs]).run(0, 1)


if __name__ == "__main__":
    _run(sys.argv[1:])

PLAIN_COMMANDS = frozenset({"agent", "gateway"})
"""Commands of OpenClaw that run agents without a full-screen UI."""


def prints_plainly(arguments: tuple[str, ...], output: IO[bytes] | None) -> bool:
    """Return whether the output of OpenClaw with these arguments can be kept, because it draws no full-screen UI.

    A command that is not known may ask questions on a terminal, which is then left alone.
    """
    if output is not None or not (os.isatty(1) or os.isatty(2)):
        return True
    return bool(PLAIN_COMMANDS.intersection(command_words(arguments)[:1]))
