"""OpenClaw's own commands for plugins and settings, each run to its end."""

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
"""How long a command may take: it waits for work that a running gateway has to finish first."""

_CONSENT = "--accept-capabilities"
_PATCH = ("config", "patch", "--stdin")
_LINES_OF_A_REASON = 4


class OpenClawCommands:
    """The commands of one OpenClaw. `options` choose it, as its user would: `--profile NAME` or `--dev`."""

    def __init__(self, command: str, options: Sequence[str], environment: Mapping[str, str]) -> None:
        if words := command_words(options):
            raise UsageError(f"`{' '.join(words)}` chooses no OpenClaw", fix="after `--` goes --profile NAME or --dev")
        if container_of(options, environment) is not None:
            raise UsageError("an OpenClaw in a container has settings of its own", fix="run critiqor in the container")
        self._installation = find_openclaw(command, environment)
        self._options = tuple(options)
        # A recorder in one of these commands must not take them for a monitored run.
        self._environment = {name: value for name, value in environment.items() if name != "CRITIQOR_RUN_ID"}

    def typed(self, *arguments: str) -> str:
        """A command as its user would type it."""
        return shlex.join(("openclaw", *self._options, *arguments))

    def installing(self, folder: Path) -> str:
        """What `install` runs, as its user would type it."""
        return self.typed(*_install(folder))

    def install(self, folder: Path) -> None:
        """Copy a plugin into the state folder. Who asked for it trusts it, and knows what it may do."""
        if (refused := self._refusal(_install(folder))) and _CONSENT in refused:
            # An older OpenClaw, that knows no consent and asks for none.
            refused = self._refusal([argument for argument in _install(folder) if argument != _CONSENT])
        if refused:
            raise CritiqorError(f"`{self.installing(folder)}` did not work: {refused}")

    def uninstalling(self, plugin_id: str) -> str:
        """What `uninstall` runs, as its user would type it."""
        return self.typed(*_uninstall(plugin_id))

    def uninstall(self, plugin_id: str) -> None:
        """Remove a plugin that was installed, with its settings."""
        if refused := self._refusal(_uninstall(plugin_id)):
            raise CritiqorError(f"`{self.uninstalling(plugin_id)}` did not work: {refused}")

    @property
    def patching(self) -> str:
        """What `patch` runs, as its user would type it."""
        return self.typed(*_PATCH)

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Change settings: tables are merged, null takes a setting away."""
        if refused := self._refusal(_PATCH, msgspec.json.encode(patch)):
            raise CritiqorError(f"`{self.patching}` did not work: {refused}")

    def _refusal(self, arguments: Sequence[str], text: bytes = b"") -> str | None:
        """Run a command to its end. Returns what it said where it did not work."""
        command = [self._installation.command, *self._installation.arguments, *self._options, *arguments]
        try:
            done = subprocess.run(
                command, env=self._environment, input=text, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CritiqorError(f"`{self.typed(*arguments)}` did not work: {error}", fix="critiqor doctor") from error
        if done.returncode == 0:
            return None
        return _last_words(done.stderr) or _last_words(done.stdout) or f"exit code {done.returncode}"


def _install(folder: Path) -> list[str]:
    return ["plugins", "install", "--force", _CONSENT, str(folder)]


def _uninstall(plugin_id: str) -> list[str]:
    return ["plugins", "uninstall", plugin_id, "--force"]


def _last_words(output: bytes) -> str:
    lines = [line.strip() for line in remove_escape_sequences(output.decode("utf-8", "replace")).splitlines()]
    return " / ".join([line for line in lines if line][-_LINES_OF_A_REASON:])
