"""The outbox of a runs folder: one file per message and channel, written before it is sent.

    runs/.notify/expected/RUN             a run that is being finalized, and whose findings are not in the outbox yet
    runs/.notify/channels/CHANNEL/
        waiting/RUN-KEY.json              messages to send; summary-KEY.json sums up others
        sent/RUN-KEY.json                 messages that were accepted, so that none is sent again
        refused/RUN-KEY.json              messages that the receiver rejects as such; `critiqor notify flush` retries
        state.json                        failures in a row, and when messages were sent
        lock                              held by the process that is sending

A message is moved only after it was accepted, so a sender that is killed sends it again, with the same key. A file that
cannot be read is set aside with the suffix `.damaged`. Neither addresses nor keys are written here.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from critiqor.notifications.alert import ALERT_SCHEMA, Alert, Message, summary_message
from critiqor.storage import SessionPaths, exclusive, open_regular_file, write_bytes
from critiqor.storage.atomic import make_folder

MAX_FILE = 4 << 20
"""Bytes that are read of a file of the outbox."""
MAX_SUMMED = 500
"""Alerts in one summary; further ones are in the next."""
_SUFFIX = ".json"
_DAMAGED = ".damaged"
_SUMMARY = "summary-"
_Document = TypeVar("_Document", bound=msgspec.Struct)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the outbox."""

    message: Message
    covers: tuple[str, ...] = ()
    """Names of the entries that are summed up in this message."""


class Waiting(NamedTuple):
    """An entry that is not sent yet."""

    name: str
    """Name of its file, without the suffix."""
    entry: Entry


class ChannelState(msgspec.Struct, kw_only=True):
    """What is known about a channel. It is not needed for correctness: a damaged file counts as new."""

    failures: int = 0
    """Attempts in a row that failed."""
    failed_ms: int = 0
    """When the last one failed."""
    retry_ms: int = 0
    """When the next one may be made."""
    sent_ms: list[int] = msgspec.field(default_factory=list)
    """When messages were sent in the last hour."""


class ChannelOutbox:
    """The messages for one channel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting, self._sent, self._refused = (folder / name for name in ("waiting", "sent", "refused"))

    def add(self, message: Message) -> bool:
        """Write the message of an alert durably, unless it is waiting or was sent or refused before."""
        name = f"{message.alerts[0].run_id}-{message.idempotency_key}"
        if self._has(name):
            return False
        self._write(name, Entry(message=message))
        return True

    def was_announced(self, alert: Alert) -> bool:
        """Return whether the finding of an alert was announced on this channel, sent or not."""
        return self._has(f"{alert.run_id}-{alert.finding_key}")

    def _has(self, name: str) -> bool:
        # In the order in which a message is moved, so that one that is being moved is seen.
        return any((folder / (name + _SUFFIX)).exists() for folder in (self._waiting, self._refused, self._sent))

    def _write(self, name: str, entry: Entry) -> None:
        make_folder(self._waiting)
        write_bytes(self._waiting / (name + _SUFFIX), msgspec.json.encode(entry))

    @contextlib.contextmanager
    def sending(self, seconds: float) -> Iterator[None]:
        """Let one process send at a time. Raise `TimeoutError` if another one does for that many seconds."""
        make_folder(self._folder)
        with exclusive(self._folder / "lock", timeout=max(0.0, seconds)):
            yield

    def waiting(self) -> list[Waiting]:
        """Return the entries to send, oldest first. The caller holds the lock of `sending`."""
        found: dict[str, Entry] = {}
        for name in _names(self._waiting):
            if (self._sent / (name + _SUFFIX)).exists():
                self._delete(name)  # sent by another process between the check and the write of `add`
            elif (entry := _read(self._waiting / (name + _SUFFIX), Entry)) is not None:
                found[name] = entry
            else:
                self._set_aside(name)
        covered = {name for entry in found.values() for name in entry.covers}
        ordered = sorted(found.items(), key=lambda item: (item[1].message.created_at, _step(item[1]), item[0]))
        return [Waiting(name, entry) for name, entry in ordered if name not in covered]

    def sum_up(self, entries: list[Waiting], now_ms: int) -> Waiting:
        """Write an entry that sums up the alerts of others, and return it.

        The others wait until it is accepted, so that they are not lost if its file is damaged.
        """
        message = summary_message([alert for each in entries for alert in each.entry.message.alerts], now_ms)
        name = f"{_SUMMARY}{message.idempotency_key}"
        summary = Waiting(name, Entry(message=message, covers=tuple(each.name for each in entries)))
        self._write(*summary)
        return summary

    def mark_sent(self, waiting: Waiting) -> None:
        """Remember that an entry was accepted, or those that it sums up."""
        for name in waiting.entry.covers or (waiting.name,):
            self._move(name, self._sent)
        if waiting.entry.covers:
            self._delete(waiting.name)

    def mark_refused(self, waiting: Waiting) -> None:
        """Set an entry aside that the receiver rejects as such, so that it does not hold up the others."""
        for name in (*waiting.entry.covers, waiting.name):
            self._move(name, self._refused)

    def retry_refused(self) -> None:
        """Let refused entries wait again."""
        for name in _names(self._refused):
            with contextlib.suppress(FileNotFoundError):
                (self._refused / (name + _SUFFIX)).replace(self._waiting / (name + _SUFFIX))

    def counts(self) -> Counts:
        """Return how many alerts wait or are refused, and how many files are damaged."""
        waiting, refused = (
            sum(not name.startswith(_SUMMARY) for name in _names(folder)) for folder in (self._waiting, self._refused)
        )
        return Counts(waiting, refused, sum(path.name.endswith(_DAMAGED) for path in _paths(self._waiting)))

    def forget_sent(self, is_gone: Callable[[str], bool]) -> None:
        """Delete what was remembered of runs that are gone: their alerts cannot be made again."""
        names = _names(self._sent)
        gone = {run_id for run_id in {_run_of(name) for name in names} if is_gone(run_id)}
        for name in names:
            if _run_of(name) in gone:
                (self._sent / (name + _SUFFIX)).unlink(missing_ok=True)

    def state(self) -> ChannelState:
        """Return what is known about the channel."""
        return _read(self._folder / "state.json", ChannelState) or ChannelState()

    def save_state(self, state: ChannelState) -> None:
        """Remember what is known about the channel."""
        make_folder(self._folder)
        write_bytes(self._folder / "state.json", msgspec.json.encode(state))

    def _move(self, name: str, folder: Path) -> None:
        make_folder(folder)
        with contextlib.suppress(FileNotFoundError):
            (self._waiting / (name + _SUFFIX)).replace(folder / (name + _SUFFIX))

    def _delete(self, name: str) -> None:
        (self._waiting / (name + _SUFFIX)).unlink(missing_ok=True)

    def _set_aside(self, name: str) -> None:
        path = self._waiting / (name + _SUFFIX)
        with contextlib.suppress(OSError):
            path.replace(path.with_name(name + _DAMAGED))


class Counts(NamedTuple):
    """Numbers of alerts and of damaged files of a channel."""

    waiting: int
    refused: int
    damaged: int


class Outbox:
    """The outbox of one runs folder."""

    def __init__(self, paths: SessionPaths) -> None:
        self._folder = paths.notify_folder / "channels"
        self._expected = paths.notify_folder / "expected"

    def channel(self, name: str) -> ChannelOutbox:
        """Return the messages for one channel."""
        return ChannelOutbox(self._folder / name)

    def channels(self) -> list[str]:
        """Return the names of the channels that have entries, whether they are configured or not."""
        return sorted(path.parent.name for path in self._folder.glob("*/waiting"))

    def has_work(self) -> bool:
        """Return whether a message waits, or a run whose findings are not in the outbox yet. Cheap."""
        folders = [self._expected, *self._folder.glob("*/waiting")]
        return any(not path.name.endswith((".tmp", _DAMAGED)) for folder in folders for path in _paths(folder))

    def expect(self, run_id: str) -> None:
        """Remember that the findings of a run will be announced, in case this process is killed before that."""
        make_folder(self._expected)
        write_bytes(self._expected / run_id, b"")

    def expected(self) -> list[str]:
        """Return the runs whose findings are still to be announced."""
        return sorted(path.name for path in _paths(self._expected) if not path.name.endswith(".tmp"))

    def forget_expected(self, run_id: str) -> None:
        """Forget a run whose findings are in the outbox."""
        (self._expected / run_id).unlink(missing_ok=True)


def _step(entry: Entry) -> int:
    """Return the place of a message among those of the same moment: a finding is new before it is withdrawn."""
    kinds = ("new", "updated", "withdrawn")
    kind = entry.message.alerts[0].kind if entry.message.alerts else ""
    return kinds.index(kind) if kind in kinds else len(kinds)


def _run_of(name: str) -> str:
    return name.rpartition("-")[0]


def _paths(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _names(folder: Path) -> list[str]:
    return [path.stem for path in _paths(folder) if path.suffix == _SUFFIX]


def _read(path: Path, kind: type[_Document]) -> _Document | None:
    """Return a file of the outbox; None if it cannot be used."""
    try:
        with open_regular_file(path, follow_links=False) as file:
            document = msgspec.json.decode(file.read(MAX_FILE), type=kind)
    except (OSError, ValueError, RecursionError):
        return None
    return document if not isinstance(document, Entry) or _is_whole(document, path.stem) else None


def _is_whole(entry: Entry, name: str) -> bool:
    message = entry.message
    is_known = message.schema_version == ALERT_SCHEMA and name.endswith(f"-{message.idempotency_key}")
    is_complete = len(message.alerts) == 1 if message.kind == "alert" else bool(entry.covers)
    return is_known and is_complete and all(_is_ours(alert.command) for alert in message.alerts)


def _is_ours(command: str) -> bool:
    """Return whether a command calls only `critiqor`: a runs folder that came from others may contain an outbox."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return words[:1] == ["critiqor"] and shlex.join(words) == command
