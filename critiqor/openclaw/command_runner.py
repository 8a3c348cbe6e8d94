"""Run OpenClaw's own commands for plugins and settings."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import CritiqorError, UsageError
from critiqor.model.sanitize import remove_escape_sequences
from critiqor.openclaw.command_line import command_words, container_of
from critiqor.openclaw.installation import find_openclaw

TIMEOUT_SECONDS = 300.0
"""Maximum time of a command, which waits for a running gateway to finish its work."""

_CONSENT = "--accept-capabilities"
_PATCH = ("config", "patch", "--stdin")
_MAX_REASON_LINES = 4


class OpenClawCommands:
    """The commands of one OpenClaw, selected by its global options: `--profile NAME` or `--dev`."""

    def __init__(self, command: str, options: Sequence[str], environment: Mapping[str, str]) -> None:
        if words := command_words(options):
            raise UsageError(
                f"`{' '.join(words)}` is not accepted here", fix="only --profile NAME and --dev are allowed after `--`"
            )
        if container_of(options, environment) is not None:
            raise UsageError(
                "the settings of an OpenClaw in a container cannot be changed from outside",
                fix="run critiqor in the container",
            )
        self._installation = find_openclaw(command, environment)
        self._options = tuple(options)
        # The recorder must not record these commands as part of a monitored run.
        self._environment = {name: value for name, value in environment.items() if name != "CRITIQOR_RUN_ID"}

    def typed(self, *arguments: str) -> str:
        """Return a command as the user would type it."""
        return shlex.join(("openclaw", *self._options, *arguments))

    def install_command(self, folder: Path) -> str:
        """Return the command that `install` runs, as the user would type it."""
        return self.typed(*_install(folder))

    def install(self, folder: Path) -> None:
        """Install a plugin into the state folder. The user has requested it, so its capabilities are accepted."""
        if (error := self._run(_install(folder))) and _CONSENT in error:
            # An older OpenClaw does not know the option and asks for no consent.
            error = self._run([argument for argument in _install(folder) if argument != _CONSENT])
        if error:
            raise CritiqorError(f"`{self.install_command(folder)}` failed: {error}")

    def uninstall_command(self, plugin_id: str) -> str:
        """Return the command that `uninstall` runs, as the user would type it."""
        return self.typed(*_uninstall(plugin_id))

    def uninstall(self, plugin_id: str) -> None:
        """Remove an installed plugin and its settings."""
        if error := self._run(_uninstall(plugin_id)):
            raise CritiqorError(f"`{self.uninstall_command(plugin_id)}` failed: {error}")

    @property
    def patch_command(self) -> str:
        """The command that `patch` runs, as the user would type it."""
        return self.typed(*_PATCH)

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Change settings: tables are merged, null removes a setting."""
        if error := self._run(_PATCH, msgspec.json.encode(patch)):
            raise CritiqorError(f"`{self.patch_command}` failed: {error}")

    def _run(self, arguments: Sequence[str], text: bytes = b"") -> str | None:
        """Run a command and wait for it. Return its last lines of output if it failed, else None."""
        command = [self._installation.command, *self._installation.arguments, *self._options, *arguments]
        try:
            done = subprocess.run(
                command, env=self._environment, input=text, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CritiqorError(f"`{self.typed(*arguments)}` failed: {error}", fix="critiqor doctor") from error
        if done.returncode == 0:
            return None
        return _last_lines(done.stderr) or _last_lines(done.stdout) or f"exit code {done.returncode}"


def _install(folder: Path) -> list[str]:
    return ["plugins", "install", "--force", _CONSENT, str(folder)]


def _uninstall(plugin_id: str) -> list[str]:
    return ["plugins", "uninstall", plugin_id, "--force"]


def _last_lines(output: bytes) -> str:
    lines = [line.strip() for line in remove_escape_sequences(output.decode("utf-8", "replace")).splitlines()]
    return " / ".join([line for line in lines if line][-_MAX_REASON_LINES:])
