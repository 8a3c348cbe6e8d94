"""Watch whether the recorder is attached to a launched OpenClaw, and explain why nothing is recorded.

The journal shows what was recorded, and the witness which recorders there are: one that reported to it was loaded, so
if the journal is empty, its records could not be written.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from critiqor.model.event import is_agent_activity
from critiqor.model.formatting import counted
from critiqor.openclaw import Installation, Overlay, command_words, node_satisfies
from critiqor.recording.supervisor import ChildEnd
from critiqor.recording.witness import Witness
from critiqor.storage.atomic import open_regular_file

_POLL_SECONDS = 0.5
_GATEWAY_CLIENT = (
    "this command is a client of a gateway that runs elsewhere. Record the gateway instead: "
    "critiqor monitor openclaw -- gateway run"
)


class RecorderWatch:
    """Checks the journal of one run for records of the recorder, and the witness for its reports."""

    def __init__(
        self,
        journal: Path,
        installation: Installation,
        overlay: Overlay,
        arguments: Sequence[str],
        witness: Witness | None = None,
    ) -> None:
        self._journal = journal
        self._witness = witness
        self._installation = installation
        self._overlay = overlay
        self._arguments = arguments
        self._has_left_segment = False
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
        """Whether the recorder was loaded: it has written a record, or reported to the witness."""
        return self.has_records() or self._reported() > 0

    def leave_segment(self) -> None:
        """Note that the recording goes on in another run, which it does only after an agent did something."""
        self._has_left_segment = True

    def has_records(self) -> bool:
        """Whether anything of the recorder is on the disk; its first record announces it."""
        try:
            return self._has_left_segment or self._journal.stat().st_size > 0
        except OSError:
            return False

    def has_seen_agent(self) -> bool:
        """Whether the recorder has written anything about an agent."""
        if self._has_left_segment:
            return True
        try:
            with open_regular_file(self._journal, buffering=1 << 16) as journal:
                return any(_is_agent_record(line) for line in journal)
        except OSError:
            return False

    def runs_elsewhere(self) -> bool:
        """Whether the agent runs in another process than the launched one, which is a client of a gateway."""
        return self._is_gateway_client()

    def explain_no_activity(self, end: ChildEnd) -> str:
        """Explain why an attached recorder has seen no agent."""
        if self._is_gateway_client():
            return _GATEWAY_CLIENT
        if end.reason == "interrupted":
            return "OpenClaw was interrupted before an agent run began; the recorder worked."
        return "no agent run took place while OpenClaw was running; the recorder worked."

    def explain_not_written(self) -> str:
        """Explain why the records of a recorder that was loaded are not on the disk, and what to do."""
        folder = self._journal.parent
        runs_dir = folder.parent
        if not runs_dir.is_dir():
            cause = f"{runs_dir} was removed while OpenClaw was running"
        elif not folder.is_dir():
            cause = f"{folder} was removed while OpenClaw was running"
        elif (full := _missing_space(folder)) is not None:
            cause = f"the file system of {runs_dir} has no free {full}"
        elif not os.access(folder, os.W_OK | os.X_OK):
            cause = f"{folder} cannot be written: no permission"
        elif not self._journal.exists():
            cause = f"{self._journal} could not be created, or was removed while OpenClaw was running"
        else:
            cause = f"{self._journal} could not be written, or was emptied while OpenClaw was running"
        produced = f"the recorder plugin was loaded and produced {counted(self._reported(), 'record')}"
        return f"{produced}, but none is on the disk: {cause}. Repair that, or use another --runs-dir, and record again"

    def _reported(self) -> int:
        """Return how many records the recorders of the launched process have reported to the witness."""
        return self._witness.reported() if self._witness is not None else 0

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
            if self._stopped.wait(_POLL_SECONDS) or self.has_records():
                return
            waited += _POLL_SECONDS
        why = self.explain_not_written() if self.is_attached() else self.explain_not_attached(None)
        say(f"NOT RECORDING after {grace:g} seconds: {why}")


def _missing_space(folder: Path) -> str | None:
    """Return what a file system has none of any more: space, inodes; None if it has both, or it cannot be asked."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if found.f_bavail == 0:
        return "space"
    return "inodes" if found.f_files and found.f_favail == 0 else None


class _Kind(msgspec.Struct):
    event_type: str


def _is_agent_record(line: bytes) -> bool:
    try:
        return is_agent_activity(msgspec.json.decode(line, type=_Kind).event_type)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
