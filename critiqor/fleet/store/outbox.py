"""The outbox of a runs folder: which of its runs are to be stored and indexed, on disk before anything is sent.

    runs/.fleet/waiting/RUN         a run that is being sealed, or is sealed and not stored yet
    runs/.fleet/indexing/RUN        a run that is stored, and not in the index yet
    runs/.fleet/refused/RUN         a run that cannot be stored as it is, and why; `critiqor push` tries again
    runs/.fleet/stored/RUN.json     where a run was stored, with which seal and rule set
    runs/.fleet/state.json          failures in a row, why, and when the next attempt is made
    runs/.fleet/lock                held by the process that is sending

A file is removed only after its step is done, and every step can be repeated, so a process may be killed at any time.
A runs folder may come from others: no address is read from it, only names of its own runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec

from critiqor.errors import UsageError
from critiqor.fleet.manifest import Content, Manifest
from critiqor.model import now_ms
from critiqor.storage import SessionPaths, exclusive, open_regular_file, write_bytes
from critiqor.storage.atomic import make_folder
from critiqor.storage.lock import is_held
from critiqor.storage.paths import run_order

Step = Literal["waiting", "indexing", "refused"]
MAX_FILE = 1 << 16
"""Bytes that are read of a file of the outbox."""
_Document = TypeVar("_Document", bound=msgspec.Struct)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was stored."""

    store: str
    """Address of the store. It is compared with that of the settings, and never opened."""
    name: str
    """Name of the run in the store."""
    seal: str
    rule_set: str
    """The newest rule set whose diagnosis is stored."""
    content: Content


class SenderState(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempts to send. It is not needed for correctness: a damaged file counts as new."""

    failures: int = 0
    """Attempts in a row that failed."""
    failed_ms: int = 0
    """When the last one failed."""
    retry_ms: int = 0
    """When the next one may be made."""
    reason: str | None = None
    """Why the last one failed."""


class Counts(NamedTuple):
    """Numbers of runs in an outbox."""

    waiting: int
    indexing: int
    refused: int
    stored: int


class PushOutbox:
    """The outbox of one runs folder."""

    def __init__(self, paths: SessionPaths) -> None:
        self._paths = paths
        self._folder = paths.fleet_folder

    @property
    def runs_dir(self) -> Path:
        """The runs folder."""
        return self._paths.runs_dir

    def expect(self, run_id: str) -> None:
        """Remember durably that a run is to be stored, once it is sealed."""
        self._add("waiting", run_id)

    def names(self, step: Step) -> list[str]:
        """Return the runs of one step, oldest first."""
        folder = self._folder / step
        found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if step == "waiting":
            found = [name for name in found if self._is_run(name)]
        return sorted((name for name in found if not name.endswith(".tmp")), key=run_order)

    def has_work(self) -> bool:
        """Return whether a run waits to be stored or indexed. Cheap."""
        return bool(self.names("waiting") or self.names("indexing"))

    def is_due(self) -> bool:
        """Return whether something waits, and the time of the next attempt has come."""
        state, now = self.state(), now_ms()
        # Before the last failure: the clock was set back, so the time of the next attempt means nothing.
        is_time = state.failures == 0 or not state.failed_ms <= now < state.retry_ms
        return is_time and self.has_work()

    def is_being_sent(self) -> bool:
        """Return whether a process is sending at this moment."""
        return is_held(self._folder / "lock")

    def counts(self) -> Counts:
        """Return how many runs wait, are refused, and were stored."""
        stored = self._folder / "stored"
        number = sum(path.suffix == ".json" for path in stored.iterdir()) if stored.is_dir() else 0
        waiting, indexing, refused = (len(self.names(step)) for step in ("waiting", "indexing", "refused"))
        return Counts(waiting, indexing, refused, number)

    def mark_stored(self, run_id: str, store: str, manifest: Manifest, rule_set: str) -> None:
        """Remember that a run is in the store, and is to be indexed."""
        self._add("indexing", run_id)
        stored = Stored(
            store=store, name=manifest.name, seal=manifest.seal, rule_set=rule_set, content=manifest.content
        )
        make_folder(self._folder / "stored")
        write_bytes(self._stored_path(run_id), msgspec.json.encode(stored))
        self.forget("waiting", run_id)
        self.forget("refused", run_id)

    def stored(self, run_id: str) -> Stored | None:
        """Return where a run was stored; None if it was not, or if that cannot be read."""
        return _read(self._stored_path(run_id), Stored)

    def refuse(self, run_id: str, reason: str) -> None:
        """Set a run aside that cannot be stored as it is, so that it does not hold up the others."""
        self._add("refused", run_id, reason.encode("utf-8", "replace"))
        self.forget("waiting", run_id)

    def refusal(self, run_id: str) -> str | None:
        """Return why a run is set aside; None if it is not."""
        try:
            with open_regular_file(self._folder / "refused" / run_id, follow_links=False) as file:
                return file.read(MAX_FILE).decode("utf-8", "replace")
        except OSError:
            return None

    def forget(self, step: Step, run_id: str) -> None:
        """Remove a run from a step."""
        (self._folder / step / run_id).unlink(missing_ok=True)

    def state(self) -> SenderState:
        """Return how the last attempts ended."""
        return _read(self._folder / "state.json", SenderState) or SenderState()

    def save_state(self, state: SenderState) -> None:
        """Remember how the last attempt ended."""
        make_folder(self._folder)
        write_bytes(self._folder / "state.json", msgspec.json.encode(state))

    @contextlib.contextmanager
    def sending(self, seconds: float | None = None) -> Iterator[None]:
        """Let one process send at a time. Raise `TimeoutError` if another one does for that many seconds."""
        make_folder(self._folder)
        with exclusive(self._folder / "lock", timeout=seconds):
            yield

    def _add(self, step: Step, run_id: str, content: bytes = b"") -> None:
        make_folder(self._folder / step)
        write_bytes(self._folder / step / run_id, content)

    def _is_run(self, name: str) -> bool:
        """Return whether there is a run of that name, also one whose record is lost."""
        try:
            return self._paths.run_folder(name).is_dir()
        except UsageError:
            return False

    def _stored_path(self, run_id: str) -> Path:
        return self._folder / "stored" / f"{run_id}.json"


def _read(path: Path, kind: type[_Document]) -> _Document | None:
    try:
        with open_regular_file(path, follow_links=False) as file:
            return msgspec.json.decode(file.read(MAX_FILE), type=kind)
    except (OSError, ValueError, RecursionError):
        return None
