"""External agents as processes: a program answers each message over its standard input and output, as JSON Lines.

    → {"type": "turn", "runId": "…", "sessionKey": "…", "sessionId": "…", "message": "…"}
    ← {"type": "text", "text": "…"}                 more text of the answer
    ← {"type": "progress", …}                       anything else; without progress the program is aborted
    ← {"type": "end", "text": "…"}                  the whole answer; without `text`, all text so far
    ← {"type": "error", "message": "…"}             the turn failed

There is one process per turn, in a session of its own. It is killed with everything that it started when the agent run
is aborted, and after its last line. If it ends with exit code 0 and without `end`, all text so far is the answer.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from critiqor.agentloop.hooks.script_process import kill_group
from critiqor.agentloop.loop.external_agent import ExternalAgent, ExternalProgress, ExternalRequest
from critiqor.agentloop.settings import ExternalSettings
from critiqor.errors import CritiqorError

MAX_LINE_BYTES = 8 << 20
_ERROR_CHARS = 300


class ExternalProcessError(CritiqorError):
    """The program of an external agent could not be started, failed, or does not follow the protocol."""


class _Line(msgspec.Struct):
    type: str
    text: str | None = None
    message: str | None = None


def external_process(settings: ExternalSettings, folder: Path, environment: Mapping[str, str]) -> ExternalAgent:
    """Return an external agent that is a program, started in this folder."""

    async def answer(request: ExternalRequest, progress: ExternalProgress) -> str:
        with tempfile.TemporaryFile() as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *settings.command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    cwd=folder,
                    env={**environment, **settings.env},
                    start_new_session=True,
                    limit=MAX_LINE_BYTES,
                )
            except OSError as error:
                raise _failure(settings, f"could not be started: {error}") from error
            try:
                return await _converse(process, request, progress)
            except ValueError as error:
                raise _failure(settings, str(error)) from error
            except _EndedError as end:
                raise _failure(settings, f"ended with exit code {end.code}{_last_line(errors)}") from end
            finally:
                await kill_group(process)

    return answer


class _EndedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


async def _converse(process: asyncio.subprocess.Process, request: ExternalRequest, progress: ExternalProgress) -> str:
    """Send the message and read lines until the turn ends. Raises `ValueError` for a line that is not understood."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(msgspec.json.encode({"type": "turn", **_camel_case(msgspec.to_builtins(request))}) + b"\n")
    while data := await process.stdout.readline():
        if not data.strip():
            continue
        try:
            line = msgspec.json.decode(data, type=_Line)
            facts: dict[str, Any] = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"printed a line that is not understood: {error}") from error
        if line.type == "text" and line.text is not None:
            progress.add_text(line.text)
        elif line.type == "progress":
            progress.report(**{name: value for name, value in facts.items() if name not in ("type", "phase")})
        elif line.type == "end":
            return progress.text if line.text is None else line.text
        elif line.type == "error":
            raise ValueError(f"failed: {(line.message or 'no reason given')[:_ERROR_CHARS]}")
        else:
            raise ValueError(f"printed a line of an unknown type: {line.type[:80]}")
    if (code := await process.wait()) != 0:
        raise _EndedError(code)
    return progress.text


def _failure(settings: ExternalSettings, reason: str) -> ExternalProcessError:
    fix = "correct agents.defaults.external, or the program"
    return ExternalProcessError(f"the external agent {settings.command[0]} {reason}", fix=fix)


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0, 2)
    errors.seek(max(0, errors.tell() - 4 * _ERROR_CHARS))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:_ERROR_CHARS]}" if lines else ""


def _camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub(r"_(\w)", lambda found: found[1].upper(), name): value for name, value in fields.items()}
