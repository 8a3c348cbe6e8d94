"""The exec tool: a shell command, its output as it comes, and its end.

A command gets a session and process group of its own. It is over when its shell is: what it left in its group is ended
then, as it is when the run is cancelled or the time is up. A process that made itself another session (`setsid`) is out
of reach and lives on.

What a sandboxed run changes for a command: it starts in the sandbox workspace, `HOME` and `TMPDIR` point into it, and
variables whose names say that they hold a secret are not passed on. That keeps tidy programs inside. It is no wall: a
command can still read and write whatever this user may, by absolute paths, and use the network. Only the read, write
and edit tools are truly kept inside.
"""

from __future__ import annotations

import asyncio
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
from critiqor.agentloop.tools.output import Output
from critiqor.agentloop.tools.paths import ToolError, reason, resolve
from critiqor.agentloop.tools.results import failed
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

DEFAULT_TIMEOUT_S = 1_800.0
MAX_TIMEOUT_S = 7 * 24 * 3_600.0
_GRACE_S = 1.0
"""Between asking a group to end and ending it."""
_DRAIN_S = 0.2
"""How long output may still come when the shell has ended; more would be from somebody who does not end."""
_UPDATE_INTERVAL_S = 0.1
_READ_BYTES = 64 * 1024
_SECRET = re.compile(r"key|token|secret|passw|credential|auth(?!or)", re.IGNORECASE)
"""Names of variables that a sandboxed command does without."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["command"],
    "properties": {
        "command": {"type": "string", "description": "The command, for /bin/sh"},
        "workdir": {"type": "string", "description": "Where it runs; the workspace where nothing is said"},
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables to set for it",
        },
        "timeout": {"type": "number", "description": "Seconds after which it is ended; 1800 where nothing is said"},
        "timeoutSeconds": {"type": "number", "description": "The same, under its newer name"},
    },
}


class ExecTool:
    """Runs a shell command. An exit code other than 0 is a result like any other."""

    name = "exec"
    description = (
        "Run a shell command and wait for its end; standard output and error come back together, with the exit code. "
        "Processes that it leaves in the background are ended with it."
    )
    parameters = _PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run it to its end, its timeout, or the moment of cancelling."""
        try:
            folder, warning = _folder(arguments.get("workdir"), context)
            command = _Command(arguments["command"], folder, _environment(arguments, context), context)
        except ToolError as error:
            return failed(self.name, str(error))
        asked = arguments.get("timeout") or arguments.get("timeoutSeconds") or DEFAULT_TIMEOUT_S
        try:
            return await command.run(min(max(asked, 0.001), MAX_TIMEOUT_S), warning)
        except OSError as error:
            return failed(self.name, reason(error, "spawn /bin/sh"))


class _Command:
    def __init__(self, command: str, folder: Path, environment: dict[str, str], context: ToolContext) -> None:
        if "\0" in command:
            raise ToolError("The argument 'command' must be a string without null bytes.")
        self._command = command
        self._folder = folder
        self._environment = environment
        self._update = context.update
        self._output = Output()
        self._closed = asyncio.Event()
        self._told = ""
        self._told_at = -math.inf

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
        self._tell()
        duration_ms = round((time.monotonic() - started) * 1_000)
        code = None if timed_out else process.returncode
        ending = _Ending(code, timeout if timed_out else None, duration_ms, left_behind)
        return _outcome(self._output.text, ending, str(self._folder), warning)

    async def _start(self, output: int) -> asyncio.subprocess.Process:
        # The pipe is our own: with those of asyncio, waiting for a shell is waiting for all who hold its output.
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
            # The shell may run already, and nobody else would know of it.
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
        if time.monotonic() - self._told_at >= _UPDATE_INTERVAL_S:
            self._tell()

    def _tell(self) -> None:
        latest = self._output.latest
        if latest and latest != self._told:
            self._told, self._told_at = latest, time.monotonic()
            self._update(latest)


class _Ending:
    """How a command came to its end."""

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
        """Whether it could not run, or not to its end; an exit code is its answer, and no failure."""
        return self.exit_code is None or self.exit_code in (126, 127)

    def words(self) -> str | None:
        if self.timeout is not None:
            return f"Command timed out after {self.timeout:g} seconds. Give a larger timeout if it needs longer."
        if self.signal is not None:
            return f"Command aborted by signal {self.signal}"
        known = {0: None, 126: "Command not executable (permission denied)", 127: "Command not found"}
        return known.get(self.exit_code or 0, f"(Command exited with code {self.exit_code})")


def _outcome(output: str, ending: _Ending, folder: str, warning: str) -> ToolOutcome:
    words = ending.words()
    # An exit code is told in the output itself, which is where a model looks for it.
    told = output if words is None or ending.is_failure else f"{output}\n\n{words}"
    text = "\n\n".join(part for part in (told, words if ending.is_failure else "") if part) or "(no output)"
    if ending.left_behind:
        text += "\n\n(What this command left running in the background was ended; setsid keeps a process.)"
    details: dict[str, Any] = {
        "status": "failed" if ending.is_failure else "completed",
        "exitCode": ending.exit_code,
        "exitSignal": ending.signal,
        "exitReason": ending.reason,
        "durationMs": ending.duration_ms,
        "aggregated": told,
        "cwd": folder,
    }
    if ending.is_failure:
        details["timedOut"] = ending.timeout is not None
    return ToolOutcome(content=[Text(warning + text)], details=details)


def _folder(named: str | None, context: ToolContext) -> tuple[Path, str]:
    """Where a command runs, and what to say about it."""
    if not named:
        return context.workspace, ""
    folder = resolve(named, context)
    if folder.is_dir():
        return folder, ""
    return context.workspace, f'Warning: workdir "{named}" is unavailable; using "{context.workspace}".\n\n'


def _environment(arguments: dict[str, Any], context: ToolContext) -> dict[str, str]:
    environment = dict(context.environment)
    if context.sandboxed:
        environment = {name: value for name, value in environment.items() if not _SECRET.search(name)}
        environment |= {"HOME": str(context.workspace), "TMPDIR": str(context.workspace)}
    environment |= arguments.get("env", {})
    if any("\0" in name + value or "=" in name or not name for name, value in environment.items()):
        raise ToolError("The argument 'env' holds a name or value that no environment can have.")
    return environment


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the group of a command: asked first, made to after a moment, and at once if this is cancelled again."""
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
    """Whether anybody in a group still does something; the dead that nobody has buried yet do not."""
    return _send(group, 0) and any(_in_group(process, group) for process in psutil.process_iter())


def _in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _send(group: int, number: int) -> bool:
    """Whether anybody was there to get the signal."""
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
