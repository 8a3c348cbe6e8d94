"""Following a run while it is recorded: new events of its journal, its status and its totals.

It takes no lock and writes nothing, so a recorder never waits for it. Nothing is read twice, and each read is bounded.
Events are in the order of writing; they are sorted only when the run is sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.cost import Ledger
from critiqor.model import Event, EventType
from critiqor.model.event import place_of
from critiqor.model.usage import Cost
from critiqor.run.owner import is_abandoned
from critiqor.run.store import Run
from critiqor.storage import run_record as records
from critiqor.storage.bounds import is_too_deep
from critiqor.storage.journal import MAX_LINE
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

MAX_READ_BYTES = 1 << 20
"""Maximum number of journal bytes that one update reads."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of everything that was read so far."""

    events: int
    model_calls: int
    """Model calls that were answered or failed."""
    tool_calls: int
    errors: int
    """Events with an error status."""
    tokens: int
    """Tokens read and written, as far as providers have reported them."""
    cost_usd: float | None
    """Null if no price is known."""
    cost_is_estimated: bool = False
    """Whether a part of `cost_usd` was computed from list prices."""
    unreadable: int
    """Lines of the journal that are not events."""
    last_event_at: str | None
    """UTC, ISO 8601."""


class Totals(NamedTuple):
    """Everything that was read so far, added up."""

    figures: Figures
    cost: Cost


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since the previous update."""

    events: list[Event]
    status: str
    """Status in the run record."""
    over: str | None
    """Why no more events will come; null while more may come."""
    more: bool
    """Whether more can be read immediately."""


class Follower:
    """Follows one run. Every `update` continues where the previous one stopped."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.head = run.head()
        """The head of the run record at the latest update."""
        self._record_as_of: tuple[int, int, int] | None = None
        self._lifecycle_events = 0
        self._process_ended = False
        self._offset = 0
        self._partial = b""
        self._skipping = False
        """Whether the rest of a line that is too long to be an event is skipped."""
        key = _key(run.paths.redaction_key_path(run.id))
        self._filter = RecordFilter(Redactor.of_run(key, run.paths.redaction_rules_path(run.id)))
        self._tally = _Tally()

    def update(self) -> Update:
        """Read what is new. Raise an error if the record is missing or broken."""
        events = list(self._supervised())
        over = self._why_over()  # before the journal is read, so that everything written until then is in it
        recorded, more = self._recorded()
        if events:  # merge the events of the supervisor into those of the recorder
            recorded = sorted([*events, *recorded], key=lambda event: event.event_id)
        events = recorded
        if over is not None and not more:
            events += self._last_event()
        for event in events:
            self._tally.count(event)
        return Update(events=events, status=self.head.status, over=None if more else over, more=more)

    def totals(self) -> Totals:
        """Return the totals so far."""
        return self._tally.totals()

    def _supervised(self) -> Iterator[Event]:
        """Read new events of the supervisor from the record, which is read again only after it was replaced."""
        found = self.run.record_path.stat()
        as_of = (found.st_ino, found.st_mtime_ns, found.st_size)
        if as_of == self._record_as_of:
            return
        self._record_as_of = as_of
        self.head = self.run.head()
        if self.head.status not in records.ACTIVE:
            return  # a completed record contains the whole run
        log = self.run.record().event_log
        for entry in log[self._lifecycle_events :]:
            try:
                event = msgspec.convert(entry, Event)
            except msgspec.ValidationError:
                self._tally.unreadable += 1
                continue
            self._process_ended |= event.event_type == EventType.PROCESS_END
            yield event
        self._lifecycle_events = len(log)

    def _why_over(self) -> str | None:
        if self.head.status != "MONITORING":
            return f"it is {self.head.status}"
        if self._process_ended:
            return "its process has ended"
        if is_abandoned(self.head):
            return "the process that recorded it is gone"
        return None

    def _recorded(self) -> tuple[list[Event], bool]:
        """Read the next events of the journal, up to the end of the evidence; also return whether there may be more."""
        cut = self.head.cut
        size = MAX_READ_BYTES if cut is None else max(0, min(MAX_READ_BYTES, cut.journal_bytes - self._offset))
        try:
            with self.run.paths.journal_path(self.run.id).open("rb", buffering=0) as journal:
                journal.seek(self._offset)
                data = journal.read(size) or b""
        except FileNotFoundError:
            return [], False
        self._offset += len(data)
        events = [event for line in self._lines(data) if (event := self._event(line)) is not None]
        return events, len(data) == MAX_READ_BYTES

    def _lines(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete."""
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

    def _last_event(self) -> list[Event]:
        """Return the last record of a journal that ends without a line break."""
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
            place = place_of(event.event_id)
            event = self._filter.recorded_event(event, line, place.writer if place is not None else None)
        except (msgspec.DecodeError, RecursionError, ValueError):
            self._tally.unreadable += 1
            return None
        # A journal cannot contain events of the supervisor.
        by_hooks = event.source_layer == "tool_hooks"
        return msgspec.structs.replace(event, source_layer="tool_hooks" if by_hooks else "extension_api")


class _Tally:
    """Adds up events."""

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

    def totals(self) -> Totals:
        usage = self._ledger.analysis([])
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        figures = Figures(
            events=self._events,
            model_calls=usage.model_calls,
            tool_calls=self._tool_calls,
            errors=self._errors,
            tokens=read + usage.output_tokens,
            cost_usd=usage.cost_usd,
            cost_is_estimated=usage.cost_is_estimated,
            unreadable=self.unreadable,
            last_event_at=self._last_event_at,
        )
        return Totals(figures, usage.cost)


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # tags that cannot be compared with others are still better than secrets
