"""The witness of one run: listens to its recorders while it is recorded, and leaves a statement beside the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from critiqor.errors import CritiqorError
from critiqor.openclaw import plugin_digest
from critiqor.recording.witness import Witness
from critiqor.run.store import Run
from critiqor.storage.audit.journal_audit import lifecycle_digest
from critiqor.storage.audit.statement import StatementFile
from critiqor.storage.lock import exclusive, is_sealed


class RunWitness:
    """Counts what the recorders of a run produce, from `start` to `write_statement`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._paths = run.paths
        self.listener: Witness | None = None
        """What recorders report to; None if it could not be started."""
        self._statement: StatementFile | None = None
        self._plugin_digest = ""

    def start(self, is_of_tree: Callable[[int], bool]) -> OSError | None:
        """Start to listen. Return why that was not possible; a run without a witness is recorded all the same."""
        try:
            self._plugin_digest = plugin_digest()
            self.listener = Witness(is_of_tree)
            self._statement = StatementFile(self._paths.statement_path(self._run.id))
        except OSError as error:
            self.close()
            self.listener = None
            return error
        return None

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable that names the socket for recorders."""
        return {} if self.listener is None else {"CRITIQOR_WITNESS": str(self.listener.address)}

    @property
    def facts(self) -> dict[str, str]:
        """What the event of the launch says about it, so that `critiqor finalize` can ask it."""
        return {} if self.listener is None else {"witness": str(self.listener.address)}

    def add_lifecycle_event(self, event: Mapping[str, Any]) -> None:
        """Note a lifecycle event that was written into the run record."""
        if self.listener is not None:
            self.listener.add_lifecycle_event(event["event_id"], lifecycle_digest(event))

    def write_statement(self, *, is_open: bool) -> None:
        """Write what is known, unless the run was finalized in the meantime, which has asked for it.

        `is_open` is whether recorders go on without the witness.
        """
        if self.listener is None or self._statement is None:
            return
        # A finalize that begins now waits until the statement is there, and one that has begun is left alone.
        with exclusive(self._paths.lock_path):
            status, has_cut = self._state()
            altered = self._find_altered(self.listener, is_recorded=status == "MONITORING")
            self.close()
            if status == "MONITORING" or (status == "ABORTED" and not has_cut):
                self._statement.write(self.listener.statement(altered, is_open=is_open))

    def close(self) -> None:
        """Stop to listen."""
        if self.listener is not None:
            self.listener.close()

    def discard(self) -> None:
        """Stop to listen, without a statement."""
        self.close()
        self._paths.statement_path(self._run.id).unlink(missing_ok=True)

    def _state(self) -> tuple[str, bool]:
        """Return the status of the run, and whether the end of its evidence is fixed."""
        try:
            head = self._run.head()
        except (CritiqorError, OSError):
            return "MONITORING", False  # its record was damaged or removed, by somebody else
        return head.status, head.cut is not None

    def _find_altered(self, witness: Witness, *, is_recorded: bool) -> list[str]:
        """Return files beside the journal that nobody but Critiqor may change, and that were changed."""
        altered = []
        if not witness.is_reachable():
            altered.append("the socket on which recorders report")
        try:
            is_same = plugin_digest() == self._plugin_digest
        except OSError:
            is_same = False
        if not is_same:
            altered.append("the files of the recorder plugin")
        if is_recorded and is_sealed(self._paths.session_lock_path(self._run.id)):
            altered.append("the lock of session.json")
        if is_recorded and not self._paths.active_path.exists():
            altered.append("active_session.json")
        return altered
