"""Call a running gateway with OpenClaw's own command, and with its own credentials."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from critiqor.model.sanitize import remove_escape_sequences, sanitize_line
from critiqor.openclaw.command_line import command_words

TIMEOUT_SECONDS = 30.0
"""Maximum time of a call."""
MAX_REASON = 200
"""Maximum number of characters of the reason for which a call failed."""
_OPTIONS = {"--port": "OPENCLAW_GATEWAY_PORT", "--token": "OPENCLAW_GATEWAY_TOKEN"}
_OPTIONS["--password"] = "OPENCLAW_GATEWAY_PASSWORD"
_MARKS = ("CRITIQOR_RUN_ID", "CRITIQOR_WITNESS")
"""Variables by which the recorder would take the command for a part of the recorded run."""


class _Answer(msgspec.Struct):
    status: str = ""


def runs_gateway(arguments: Sequence[str]) -> bool:
    """Return whether OpenClaw with these arguments is a gateway, which serves several sessions."""
    return command_words(arguments)[:1] == ("gateway",)


def client_environment(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for clients of a gateway that was launched with these arguments."""
    found = {name: value for name, value in environment.items() if name not in _MARKS}
    for word, following in pairwise((*arguments, "")):
        option, equals, value = word.partition("=")
        if option in _OPTIONS and (value if equals else following):
            found[_OPTIONS[option]] = value if equals else following
    return found


class GatewayCalls:
    """Calls one gateway; `command` is that of OpenClaw with its global options."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environment = dict(environment)

    def abort(self, session_key: str | None, agent_run_id: str | None) -> str | None:
        """Abort an agent run of a session, or all of the session. Return why that failed; None if it did not."""
        if session_key is None:
            return "its session is not known"
        parameters = {"key": session_key, **({} if agent_run_id is None else {"runId": agent_run_id})}
        text = msgspec.json.encode(parameters).decode()
        try:
            done = subprocess.run(
                [*self._command, "gateway", "call", "sessions.abort", "--params", text, "--json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"OpenClaw could not be asked to abort it: {sanitize_line(str(error))[:MAX_REASON]}"
        if done.returncode != 0:
            return f"OpenClaw did not abort it: {_last_line(done.stderr) or _last_line(done.stdout)}"
        status = _status(done.stdout)
        return None if status == "aborted" else f"OpenClaw says {status or 'nothing about it'}"


def _status(output: bytes) -> str:
    start = output.find(b"{")
    try:
        return sanitize_line(msgspec.json.decode(output[start:], type=_Answer).status)[:MAX_REASON]
    except msgspec.DecodeError:
        return ""


def _last_line(output: bytes) -> str:
    lines = remove_escape_sequences(output.decode("utf-8", "replace")).split("\n")
    return next((sanitize_line(line)[:MAX_REASON] for line in reversed(lines) if line.strip()), "no reason given")
