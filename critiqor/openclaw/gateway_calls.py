"""Call a running gateway with OpenClaw's own command, and with its own credentials."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from critiqor.model.sanitize import remove_escape_sequences, sanitize_line
from critiqor.openclaw.configuration import locate_configuration
from critiqor.openclaw.installation import Installation

TIMEOUT_SECONDS = 30.0
"""Maximum time of a call."""
CLIENT_SECONDS = 25.0
"""Maximum time of a call by the process that stays, before the command is used instead, which is never faster."""
MAX_REASON = 200
"""Maximum number of characters of the reason for which a call failed."""
_SCRIPT = Path(__file__).with_name("gateway_client.mjs")
_OPTIONS = {"--port": "OPENCLAW_GATEWAY_PORT", "--token": "OPENCLAW_GATEWAY_TOKEN"}
_OPTIONS["--password"] = "OPENCLAW_GATEWAY_PASSWORD"
_MARKS = ("CRITIQOR_RUN_ID", "CRITIQOR_WITNESS")
"""Variables by which the recorder would take the command for a part of the recorded run."""


class _Answer(msgspec.Struct):
    status: str = ""


class _ClientAnswer(msgspec.Struct):
    id: int
    result: _Answer | None = None


def client_environment(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the commands that call a gateway, which was launched with these arguments."""
    found = {name: value for name, value in environment.items() if name not in _MARKS}
    for word, following in pairwise((*arguments, "")):
        option, equals, value = word.partition("=")
        if option in _OPTIONS and (value if equals else following):
            found[_OPTIONS[option]] = value if equals else following
    return found


class GatewayCalls:
    """Calls one gateway with `openclaw gateway call`; `options` are OpenClaw's global ones.

    That command takes seconds to start. `prepare` therefore starts a process that loads OpenClaw's client once and
    stays; the command is for when that does not work.
    """

    def __init__(self, installation: Installation, environment: Mapping[str, str], options: Sequence[str] = ()) -> None:
        self._installation = installation
        self._options = tuple(options)
        self._environment = dict(environment)
        self._client: _GatewayClient | None = None

    def prepare(self) -> None:
        """Start the process that makes calls, so that the first one is quick. A failure is none of the call."""
        found = self._installation
        if self._client is None and found.node is not None and found.package is not None:
            with contextlib.suppress(OSError):
                self._client = _GatewayClient(found.node, found.package, self._client_environment())

    def _client_environment(self) -> dict[str, str]:
        """Return the environment with the variables that OpenClaw sets for its global options."""
        if not self._options:
            return self._environment
        selected = locate_configuration(self._options, self._environment)
        places = {"OPENCLAW_STATE_DIR": str(selected.state_folder), "OPENCLAW_CONFIG_PATH": str(selected.path)}
        return {**self._environment, **places}

    def close(self) -> None:
        """End the process that makes calls."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def abort(self, session_key: str | None, agent_run_id: str | None) -> str | None:
        """Abort an agent run of a session, or all of the session. Return why that failed; None if it did not."""
        if session_key is None:
            return "its session is not known"
        parameters = {"key": session_key, **({} if agent_run_id is None else {"runId": agent_run_id})}
        answer = self._client.call("sessions.abort", parameters) if self._client is not None else None
        if answer is not None and answer.status:
            return _failure(answer.status)
        return self._abort_by_command(msgspec.json.encode(parameters).decode())

    def _abort_by_command(self, parameters: str) -> str | None:
        found = self._installation
        command = [found.command, *found.arguments, *self._options, "gateway", "call", "sessions.abort"]
        try:
            done = subprocess.run(
                [*command, "--params", parameters, "--json"],
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
        return _failure(_status(done.stdout))


class _GatewayClient:
    """The process that makes calls; see `gateway_client.mjs`."""

    def __init__(self, node: str, package: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [node, str(_SCRIPT), str(package)],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        self._lock = threading.Lock()
        self._calls = 0
        self._rest = b""

    def call(self, method: str, parameters: Mapping[str, str]) -> _Answer | None:
        """Make a call and return its answer; None if there is none in time."""
        if not self._lock.acquire(timeout=CLIENT_SECONDS):
            return None
        try:
            self._calls += 1
            request = {"id": self._calls, "method": method, "params": parameters}
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            return self._answer_to(self._calls, time.monotonic() + CLIENT_SECONDS)
        except (OSError, ValueError):
            return None  # it has ended
        finally:
            self._lock.release()

    def _answer_to(self, number: int, until: float) -> _Answer | None:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        while select.select([output], [], [], max(0.0, until - time.monotonic()))[0]:
            data = os.read(output, 1 << 16)
            if not data:
                return None
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(msgspec.DecodeError):
                    answered = msgspec.json.decode(line, type=_ClientAnswer)
                    if answered.id == number:
                        return answered.result
        return None

    def close(self) -> None:
        with self._process:
            self._process.kill()


def _failure(status: str) -> str | None:
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
