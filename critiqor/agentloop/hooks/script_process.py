"""Runs a hook script as a process: an event as JSON on standard input, an optional JSON object on standard output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

MAX_OUTPUT_BYTES = 1 << 20
_KILL_WAIT_SECONDS = 1.0
ExitListener = Callable[[str, float, int | None, str | None], None]
"""Called after every script with program, duration in milliseconds, exit code and signal name."""


class ScriptError(Exception):
    """A script could not be started, failed, timed out, or printed something else than a JSON object."""


class ScriptCommand(NamedTuple):
    """How a script is started."""

    program: str
    """What the script is called in the timeline."""
    words: Sequence[str]
    """Program and arguments."""
    cwd: Path
    environment: Mapping[str, str]
    timeout: float
    """Seconds after which it is killed."""


async def run_script(command: ScriptCommand, event: object, on_exit: ExitListener | None = None) -> dict[str, Any]:
    """Run a hook script with an event. Return the object that it printed, `{}` for none. Raises `ScriptError`."""
    # Output goes to a file: a process that the script leaves running could keep a pipe open.
    with tempfile.TemporaryFile() as printed:
        try:
            process = await asyncio.create_subprocess_exec(
                *command.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=printed,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=command.cwd,
                env=dict(command.environment),
                start_new_session=True,
            )
        except OSError as error:
            raise ScriptError(str(error)) from error
        began = time.perf_counter()
        try:
            async with asyncio.timeout(command.timeout):
                code = await _send_event(process, msgspec.json.encode(event, enc_hook=str))
        except TimeoutError as error:
            raise ScriptError(f"timed out after {command.timeout:g} seconds") from error
        finally:
            await kill_group(process)
            _report_exit(on_exit, command.program, (time.perf_counter() - began) * 1000, process.returncode)
        printed.seek(0)
        output = printed.read(MAX_OUTPUT_BYTES + 1)
    if code != 0:
        raise ScriptError(f"ended with exit code {code}")
    return _parse(output)


def _report_exit(on_exit: ExitListener | None, program: str, duration_ms: float, code: int | None) -> None:
    if on_exit is not None and code is not None:
        name = signal.Signals(-code).name if code < 0 else None
        on_exit(program, duration_ms, code if code >= 0 else None, name)


def _parse(output: bytes) -> dict[str, Any]:
    if not output.strip():
        return {}
    if len(output) > MAX_OUTPUT_BYTES:
        raise ScriptError(f"printed more than {MAX_OUTPUT_BYTES} bytes")
    try:
        result = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ScriptError("its output is not JSON") from error
    if not isinstance(result, dict):
        raise ScriptError("its output is not a JSON object")
    return result


async def _send_event(process: asyncio.subprocess.Process, event: bytes) -> int:
    """Write the event to a script, and return its exit code."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(event)
        await process.stdin.drain()
    process.stdin.close()
    return await process.wait()


async def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a hook script, or another process with a session of its own, and its child processes in that session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILL_WAIT_SECONDS):
            await process.wait()
