"""Watch whether the recorder is attached to a launched OpenClaw, and explain why nothing is recorded."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from critiqor.model.event import is_agent_activity
from critiqor.openclaw import Installation, Overlay, command_words, node_satisfies
from critiqor.recording.supervisor import ChildEnd

_POLL_SECONDS = 0.5
_GATEWAY_CLIENT = (
    "this command is a client of a gateway that runs elsewhere. Record the gateway instead: "
    "critiqor monitor openclaw -- gateway run"
)


class RecorderWatch:
    """Checks the journal of one run for records of the recorder."""

    def __init__(self, journal: Path, installation: Installation, overlay: Overlay, arguments: Sequence[str]) -> None:
        self._journal = journal
        self._installation = installation
        self._overlay = overlay
        self._arguments = arguments
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, grace: float, say: Callable[[str], None]) -> None:
        """Warn the user if the recorder is not attached after `grace` seconds."""
        self._thread = threading.Thread(target=self._watch, args=(grace, say), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def is_attached(self) -> bool:
        """Whether the recorder has written anything; its first record announces it."""
        try:
            return self._journal.stat().st_size > 0
        except OSError:
            return False

    def has_seen_agent(self) -> bool:
        """Whether the recorder has written anything about an agent."""
        try:
            with self._journal.open("rb") as journal:
                return any(_is_agent_record(line) for line in journal)
        except OSError:
            return False

    def explain_no_activity(self) -> str:
        """Explain why an attached recorder has seen no agent."""
        return _GATEWAY_CLIENT if self._is_gateway_client() else "the recorder was loaded, but no agent run took place."

    def explain_not_attached(self, end: ChildEnd | None) -> str:
        """Explain why the recorder is not attached, as far as is known, and what to do; `end` is None while it runs."""
        installation = self._installation
        if self._overlay.blocked:
            return self._overlay.blocked
        version, needed = installation.node_version, installation.node_requirement
        if version and needed and node_satisfies(version, needed) is False:
            return f"OpenClaw {installation.version} needs Node {needed} but found {version}: install Node 24."
        if self._is_gateway_client():
            return _GATEWAY_CLIENT
        if end is not None and end.exit_code != 0:
            command = shlex.join((installation.command, *installation.arguments))
            cause = "ended before it loaded plugins. Its last lines of output say why"
            return f"`{command}` {cause}; to see them again: critiqor doctor --probe"
        return "OpenClaw did not load the recorder plugin; to find the cause: critiqor doctor --probe"

    def _is_gateway_client(self) -> bool:
        words = command_words(self._arguments)
        is_exec = words[:2] == ("agent", "exec")
        return words[:1] in (("agent",), ("tui",)) and not is_exec and "--local" not in self._arguments

    def _watch(self, grace: float, say: Callable[[str], None]) -> None:
        waited = 0.0
        while waited < grace:
            if self._stopped.wait(_POLL_SECONDS) or self.is_attached():
                return
            waited += _POLL_SECONDS
        say(f"NOT RECORDING after {grace:g} seconds: {self.explain_not_attached(None)}")


class _Kind(msgspec.Struct):
    event_type: str


def _is_agent_record(line: bytes) -> bool:
    try:
        return is_agent_activity(msgspec.json.decode(line, type=_Kind).event_type)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
