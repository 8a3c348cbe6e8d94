"""The exec tool: runs a shell command, streams its output and reports how it ended.

A command runs in a new session and process group, and ends with its shell: processes that it left in its group are
then terminated, as they are on a timeout or when the run is cancelled. A process that started another session
(`setsid`) is out of reach and keeps running.

In a sandboxed run a command starts in the sandbox workspace, `HOME` and `TMPDIR` point into it, and variables whose
names suggest a secret are not passed on. This is not a security boundary: a command can still use absolute paths and
the network with the rights of the user. Only the read, write and edit tools are confined.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import math
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import psutil

from critiqor.agentloop.sessions.messages import Text
from critiqor.agentloop.tools.file_access import ToolError, format_os_error, resolve_path
from critiqor.agentloop.tools.results import failed, truncation_note
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

DEFAULT_TIMEOUT_S = 1_800.0
MAX_TIMEOUT_S = 7 * 24 * 3_600.0
HEAD_CHARS = 10_000
"""Characters that are kept of the beginning of the output."""
TAIL_CHARS = 20_000
"""Characters that are kept of the end of the output."""
LATEST_CHARS = 2_000
"""Characters of a progress report."""
_GRACE_S = 1.0
"""Time between SIGTERM and SIGKILL."""
_DRAIN_S = 0.2
"""How long to read output after the shell has ended; later output comes from a process that keeps running."""
_UPDATE_INTERVAL_S = 0.1
_READ_BYTES = 64 * 1024
_SECRET = re.compile(r"key|token|secret|passw|credential|auth(?!or)", re.IGNORECASE)
"""Names of variables that are not passed to a sandboxed command."""

# Control characters for terminals are useless to a model; line breaks and tabs are kept.
_CONTROL_CHARACTERS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["command"],
    "properties": {
        "command": {"type": "string", "description": "The command for /bin/sh"},
        "workdir": {"type": "string", "description": "Working directory; default: the workspace"},
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Environment variables to set",
        },
        "timeout": {"type": "number", "description": "Seconds after which the command is terminated; default: 1800"},
        "timeoutSeconds": {"type": "number", "description": "The same as timeout"},
    },
}


class ExecTool:
    """Runs a shell command. A non-zero exit code is a normal result."""

    name = "exec"
    description = (
        "Run a shell command and wait until it ends; returns stdout and stderr combined, and the exit code. "
        "Background processes that it leaves running are terminated."
    )
    parameters = _PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run the command until it ends, times out or is cancelled."""
        try:
            folder, warning = _folder(arguments.get("workdir"), context)
            command = _Command(arguments["command"], folder, _environment(arguments, context), context)
        except ToolError as error:
            return failed(self.name, str(error))
        timeout = arguments.get("timeout") or arguments.get("timeoutSeconds") or DEFAULT_TIMEOUT_S
        try:
            return await command.run(min(max(timeout, 0.001), MAX_TIMEOUT_S), warning)
        except OSError as error:
            return failed(self.name, format_os_error(error, "spawn /bin/sh"))


class _Command:
    def __init__(self, command: str, folder: Path, environment: dict[str, str], context: ToolContext) -> None:
        if "\0" in command:
            raise ToolError("The argument 'command' must be a string without null bytes.")
        self._command = command
        self._folder = folder
        self._environment = environment
        self._update = context.update
        self._output = CommandOutput()
        self._closed = asyncio.Event()
        self._reported = ""
        self._reported_at = -math.inf

    async def run(self, timeout: float, warning: str) -> ToolOutcome:
        started = time.monotonic()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading)
        left_behind = timed_out = False
        try:
            process = await self._start(writing)
            try:
                async with asyncio.timeout(timeout):
                    await process.wait()
                left_behind = _is_alive(process.pid)
            except TimeoutError:
                timed_out = True
            finally:
                await _end(process)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), _DRAIN_S)
        finally:
            loop.remove_reader(reading)
            os.close(reading)
        self._output.add(b"", final=True)
        self._report()
        duration_ms = round((time.monotonic() - started) * 1_000)
        code = None if timed_out else process.returncode
        ending = _Ending(code, timeout if timed_out else None, duration_ms, left_behind)
        return _outcome(self._output.text, ending, str(self._folder), warning)

    async def _start(self, output: int) -> asyncio.subprocess.Process:
        # Not an asyncio pipe: waiting for the shell would then wait for every process that holds the pipe open.
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The shell may be running already, and nothing else would terminate it.
            await _end(await starting)
            raise
        finally:
            os.close(output)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            self._closed.set()
            return
        self._output.add(data)
        if time.monotonic() - self._reported_at >= _UPDATE_INTERVAL_S:
            self._report()

    def _report(self) -> None:
        latest = self._output.latest
        if latest and latest != self._reported:
            self._reported, self._reported_at = latest, time.monotonic()
            self._update(latest)


class CommandOutput:
    """Collects the output of a command: its beginning and its end, and how much is missing between them."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def add(self, data: bytes, *, final: bool = False) -> None:
        """Add output; `final` marks its end."""
        text = self._decoder.decode(data, final).translate(_CONTROL_CHARACTERS)
        room = HEAD_CHARS - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail += text
        # Cut only now and then: every cut copies the tail.
        if len(self._tail) > 2 * TAIL_CHARS:
            self._cut()

    def _cut(self) -> None:
        surplus = max(0, len(self._tail) - TAIL_CHARS)
        self._left_out += surplus
        self._tail = self._tail[surplus:]

    @property
    def text(self) -> str:
        """The kept output of the command without trailing white space."""
        self._cut()
        between = truncation_note(self._left_out) if self._left_out else ""
        return (self._head + between + self._tail).rstrip()

    @property
    def latest(self) -> str:
        """The latest output, for progress reports."""
        return (self._head + self._tail)[-LATEST_CHARS:].rstrip()


class _Ending:
    """How a command ended."""

    def __init__(self, code: int | None, timeout: float | None, duration_ms: int, left_behind: bool) -> None:
        self.exit_code = code if code is not None and code >= 0 else None
        self.signal = _signal_name(-code) if code is not None and code < 0 else None
        self.timeout = timeout
        self.duration_ms = duration_ms
        self.left_behind = left_behind

    @property
    def reason(self) -> str:
        if self.timeout is not None:
            return "overall-timeout"
        return "exit" if self.signal is None else "signal"

    @property
    def is_failure(self) -> bool:
        """Whether the command could not run or was stopped; any other exit code is a normal result."""
        return self.exit_code is None or self.exit_code in (126, 127)

    def summary(self) -> str | None:
        if self.timeout is not None:
            return f"Command timed out after {self.timeout:g} seconds. Give a larger timeout if it needs longer."
        if self.signal is not None:
            return f"Command aborted by signal {self.signal}"
        known = {0: None, 126: "Command not executable (permission denied)", 127: "Command not found"}
        return known.get(self.exit_code or 0, f"(Command exited with code {self.exit_code})")


def _outcome(output: str, ending: _Ending, folder: str, warning: str) -> ToolOutcome:
    summary = ending.summary()
    # The exit code is part of the output, where a model looks for it.
    aggregated = output if summary is None or ending.is_failure else f"{output}\n\n{summary}"
    text = "\n\n".join(part for part in (aggregated, summary if ending.is_failure else "") if part) or "(no output)"
    if ending.left_behind:
        text += "\n\n(Background processes of this command were terminated; use setsid to keep one running.)"
    details: dict[str, Any] = {
        "status": "failed" if ending.is_failure else "completed",
        "exitCode": ending.exit_code,
        "exitSignal": ending.signal,
        "exitReason": ending.reason,
        "durationMs": ending.duration_ms,
        "aggregated": aggregated,
        "cwd": folder,
    }
    if ending.is_failure:
        details["timedOut"] = ending.timeout is not None
    return ToolOutcome(content=[Text(warning + text)], details=details)


def _folder(requested: str | None, context: ToolContext) -> tuple[Path, str]:
    """Return the working directory, and a warning if it is not the requested one."""
    if not requested:
        return context.workspace, ""
    folder = resolve_path(requested, context)
    if folder.is_dir():
        return folder, ""
    return context.workspace, f'Warning: workdir "{requested}" is unavailable; using "{context.workspace}".\n\n'


def _environment(arguments: dict[str, Any], context: ToolContext) -> dict[str, str]:
    environment = dict(context.environment)
    if context.sandboxed:
        environment = {name: value for name, value in environment.items() if not _SECRET.search(name)}
        environment |= {"HOME": str(context.workspace), "TMPDIR": str(context.workspace)}
    environment |= arguments.get("env", {})
    if any("\0" in name + value or "=" in name or not name for name, value in environment.items()):
        raise ToolError("The argument 'env' contains an invalid name or value.")
    return environment


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process group of a command: SIGTERM, then SIGKILL after a grace period or when cancelled."""
    group = process.pid
    try:
        if _send(group, signal.SIGTERM):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    while _is_alive(group) or process.returncode is None:
                        await asyncio.sleep(0.01)
    finally:
        _send(group, signal.SIGKILL)
    await process.wait()


def _is_alive(group: int) -> bool:
    """Whether a process group has a running process; zombies do not count."""
    return _send(group, 0) and any(_in_group(process, group) for process in psutil.process_iter())


def _in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _send(group: int, number: int) -> bool:
    """Send a signal to a process group; returns whether the group exists."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
