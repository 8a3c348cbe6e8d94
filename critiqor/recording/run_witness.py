"""The witness of one run: listens to its recorders while it is recorded, and leaves a statement beside the journal."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import EventType, RunHead, now_ms
from critiqor.openclaw import plugin_digest
from critiqor.recording.witness import Witness
from critiqor.run.active_slot import slot_run_id
from critiqor.run.lifecycle import append_lifecycle_event
from critiqor.run.store import Run
from critiqor.storage.atomic import read_regular_file, write_json
from critiqor.storage.audit.journal_audit import lifecycle_digest
from critiqor.storage.audit.statement import StatementFile
from critiqor.storage.lock import exclusive, is_sealed

NOTICE_MS = 5_000
"""Milliseconds in which recorders notice that a guard has begun; they look once a second."""


class RunWitness:
    """Counts what the recorders of a run produce, from `start` to `write_statement`."""

    def __init__(self, run: Run, since: int | None = None) -> None:
        """`since` is for a guard, which begins while the run is recorded: when it began, in milliseconds since 1970."""
        self._since = since
        self._run = run
        self._paths = run.paths
        self.listener: Witness | None = None
        """What recorders report to; None if it could not be started."""
        self._statement: StatementFile | None = None
        self._digests: dict[str, str | None] = {}
        self._configuration: Path | None = None

    def start(self, is_of_tree: Callable[[int], bool], configuration: Path | None = None) -> OSError | None:
        """Start to listen. Return why that was not possible; a run without a witness is recorded all the same.

        `configuration` is the file by which OpenClaw loads the recorder, if Critiqor made one.
        """
        self._configuration = configuration
        try:
            self._digests = self._files()
            self.listener = Witness(is_of_tree, self._since)
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
            head = self._head()
            status = "MONITORING" if head is None or head.has_forged_status else head.status
            altered = self._find_altered(self.listener, head, is_recorded=status == "MONITORING")
            self.close()
            if status == "MONITORING" or (head is not None and status != "COMPLETED" and head.cut is None):
                statement = self.listener.statement(altered, is_open=is_open)
                until = now_ms() if self._since is not None and status == "MONITORING" else None
                self._statement.write(msgspec.structs.replace(statement, until=until))

    def close(self) -> None:
        """Stop to listen."""
        if self.listener is not None:
            self.listener.close()

    def discard(self) -> None:
        """Stop to listen, without a statement."""
        self.close()
        self.listener = self._statement = None
        self._paths.statement_path(self._run.id).unlink(missing_ok=True)

    def _files(self) -> dict[str, str | None]:
        """Return digests of files that decide what is recorded, by their names in words; None if there is no file."""
        return {
            "the files of the recorder plugin": _digest(plugin_digest),
            "the configuration that loads the recorder": _digest_of_file(self._configuration),
            "redaction.json": _digest_of_file(self._paths.redaction_rules_path(self._run.id)),
        }

    def _head(self) -> RunHead | None:
        """Return the head of the run; None if its record was damaged or removed, by somebody else."""
        try:
            return self._run.head()
        except (CritiqorError, OSError):
            return None

    def _find_altered(self, witness: Witness, head: RunHead | None, *, is_recorded: bool) -> list[str]:
        """Return files beside the journal that nobody but Critiqor may change, and that were changed."""
        altered = []
        if not witness.is_reachable():
            altered.append("the socket on which recorders report")
        altered += [name for name, digest in self._files().items() if digest != self._digests[name]]
        if is_recorded and is_sealed(self._paths.session_lock_path(self._run.id)):
            altered.append("the lock of session.json")
        if head is not None and head.has_forged_status:
            altered.append("the status in the run record")
        slot = None if head is None else head.slot
        if is_recorded and slot_run_id(self._paths, slot) != self._run.id:
            altered.append(self._paths.active_path.name if slot is None else f"{slot}.json")
        return altered


def _digest(read: Callable[[], str]) -> str | None:
    with contextlib.suppress(OSError):
        return read()
    return None


def _digest_of_file(path: Path | None) -> str | None:
    return None if path is None else _digest(lambda: hashlib.sha256(read_regular_file(path)).hexdigest())


class GuardWitness:
    """The witness of a run of an attached OpenClaw, from now on: recorders find its address beside the journal."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._address_path = run.paths.guard_path(run.id)
        self._witness = RunWitness(run, now_ms() + NOTICE_MS)
        # There is no launched process: any program of this user in which the plugin runs can be a recorder.
        self.problem: CritiqorError | OSError | None = self._witness.start(lambda pid: True)
        """Why nothing is counted; None if it is."""
        if self.problem is None:
            try:
                # The event promises a statement, so it is written last.
                write_json(self._address_path, self._witness.facts)
                self.append({"event_type": EventType.GUARD_STARTED, "payload": self._witness.facts})
            except (CritiqorError, OSError) as error:
                self.problem = error
                with contextlib.suppress(OSError):
                    self._witness.discard()
                    self._address_path.unlink(missing_ok=True)

    def append(self, event: Mapping[str, Any]) -> None:
        """Write a lifecycle event into the run record, and remember it."""
        written = append_lifecycle_event(self._run, event)
        if written is not None:
            self._witness.add_lifecycle_event(written)

    def end(self) -> None:
        """Write the statement, unless the run was finalized, which has asked for it."""
        try:
            self._address_path.unlink(missing_ok=True)
            self._witness.write_statement(is_open=True)
        except OSError:
            pass  # the folder was removed, or the disk is full: the statement is missing, which is reported
        finally:
            self._witness.close()
