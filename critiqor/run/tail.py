"""A run that is being recorded, followed as it happens: what its recorder appends to the journal, and how it stands.

Only for reading: no lock is taken and nothing is written, so that a recorder never waits for whoever looks on. Nothing
is read twice, and no more than a bounded piece at a time. The order is that of writing, which only the seal puts right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from critiqor.diagnosis.cost import Ledger
from critiqor.model import Event, EventType
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR, owner_is_alive
from critiqor.storage import paths_for
from critiqor.storage import run_record as records
from critiqor.storage.event_merge import is_too_deep
from critiqor.storage.journal import MAX_LINE
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

MOST_READ = 1 << 20
"""Bytes that one look reads of the journal."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What has happened so far, as far as it was seen."""

    events: int
    model_calls: int
    """Those that were answered, or failed."""
    tool_calls: int
    errors: int
    """Events that tell of a failure."""
    tokens: int
    """Read and written, as far as providers have told by now."""
    cost_usd: float | None
    """Null where no price is known: unknown, not nothing."""
    unreadable: int
    """Lines of the journal that are no events."""
    last_event_at: str | None
    """UTC, ISO 8601."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since the last look."""

    events: list[Event]
    status: str
    """Of the run record."""
    over: str | None
    """Why nothing more will come; null while something may."""
    more: bool
    """Whether there is more to be read at once."""


class Follower:
    """Follows one run. Every `look` goes on where the one before it stopped."""

    def __init__(self, run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
        self._paths = paths_for(runs_dir)
        self._run_id = run_id
        self.head: dict[str, Any] = records.load_head(self._paths, run_id)
        """Of the run record, as it was at the last look."""
        self._record_as_of: tuple[int, int, int] | None = None
        self._lifecycle_told = 0
        self._process_ended = False
        self._offset = 0
        self._partial = b""
        self._skipping = False
        """Whether a line that is too long to be an event goes on."""
        self._filter = RecordFilter(Redactor(_key(self._paths.redaction_key_path(run_id))))
        self._tally = _Tally()

    def look(self) -> Look:
        """What came since; an error if the record is gone or broken."""
        events = list(self._supervised())
        over = self._why_over()  # before the journal is read: what was written until then is in there
        recorded, more = self._recorded()
        if events:  # what the supervisor saw, among what the recorder did
            recorded = sorted([*events, *recorded], key=lambda event: event.event_id)
        events = recorded
        if over is not None and not more:
            events += self._last_words()
        for event in events:
            self._tally.count(event)
        return Look(events=events, status=self.head["status"], over=None if more else over, more=more)

    def figures(self) -> Figures:
        """Everything that was seen so far, added up."""
        return self._tally.figures()

    def _supervised(self) -> Iterator[Event]:
        """What the supervisor wrote into the record; that is replaced as a whole, and only then read again."""
        found = self._paths.run_path(self._run_id).stat()
        as_of = (found.st_ino, found.st_mtime_ns, found.st_size)
        if as_of == self._record_as_of:
            return
        self._record_as_of = as_of
        self.head = records.load_head(self._paths, self._run_id)
        if self.head["status"] not in records.ACTIVE:
            return  # a completed record holds the whole run
        log = records.load(self._paths, self._run_id).event_log
        for entry in log[self._lifecycle_told :]:
            try:
                event = msgspec.convert(entry, Event)
            except msgspec.ValidationError:
                self._tally.unreadable += 1
                continue
            self._process_ended |= event.event_type == EventType.PROCESS_END
            yield event
        self._lifecycle_told = len(log)

    def _why_over(self) -> str | None:
        if self.head["status"] != "MONITORING":
            return f"it is {self.head['status']}"
        if self._process_ended:
            return "its process has ended"
        if self.head["owner"] is not None and not owner_is_alive(self.head):
            return "the process that recorded it is gone"
        return None

    def _recorded(self) -> tuple[list[Event], bool]:
        """The next events of the journal, up to where its evidence ends, and whether there may be more of them."""
        cut = self.head["cut"]
        size = MOST_READ if cut is None else max(0, min(MOST_READ, cut["journal_bytes"] - self._offset))
        try:
            with self._paths.journal_path(self._run_id).open("rb", buffering=0) as journal:
                journal.seek(self._offset)
                data = journal.read(size) or b""
        except FileNotFoundError:
            return [], False
        self._offset += len(data)
        events = [event for line in self._lines(data) if (event := self._event(line)) is not None]
        return events, len(data) == MOST_READ

    def _lines(self, data: bytes) -> list[bytes]:
        """The lines that are whole by now."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        if len(self._partial) >= MAX_LINE:
            self._tally.unreadable += not self._skipping
            self._skipping = True
        if self._skipping:
            self._partial = b""
        return [line for line in lines if line and not line.isspace()]

    def _last_words(self) -> list[Event]:
        """A record without a line break behind it, which nobody will write any more."""
        line, self._partial = self._partial, b""
        event = self._event(line) if line.strip() else None
        return [] if event is None else [event]

    def _event(self, line: bytes) -> Event | None:
        try:
            if len(line) >= MAX_LINE:
                raise ValueError("too long to be a record")
            event = msgspec.convert(normalize_plugin_event(_decode(line)), Event)
            if is_too_deep(line, event.payload):
                raise RecursionError
            event = self._filter.recorded_event(event, line)
        except (msgspec.DecodeError, RecursionError, ValueError):
            self._tally.unreadable += 1
            return None
        # What the supervisor sees, a journal cannot say.
        by_hooks = event.source_layer == "tool_hooks"
        return msgspec.structs.replace(event, source_layer="tool_hooks" if by_hooks else "extension_api")


class _Tally:
    """Counts what was seen."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._events = 0
        self._tool_calls = 0
        self._errors = 0
        self._last_event_at: str | None = None
        self.unreadable = 0

    def count(self, event: Event) -> None:
        self._events += 1
        self._errors += event.status == "error"
        self._last_event_at = event.timestamp or self._last_event_at
        if event.source_layer != "supervisor":
            self._tool_calls += event.event_type == EventType.TOOL_CALL
            self._ledger.observe(event)

    def figures(self) -> Figures:
        usage = self._ledger.analysis([])
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return Figures(
            events=self._events,
            model_calls=usage.model_calls,
            tool_calls=self._tool_calls,
            errors=self._errors,
            tokens=read + usage.output_tokens,
            cost_usd=usage.cost_usd,
            unreadable=self.unreadable,
            last_event_at=self._last_event_at,
        )


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # a tag that cannot be compared with others is still better than a secret
