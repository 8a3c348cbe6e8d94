"""Following a run while it is recorded: new events of its journal, its status and its totals.

It takes no lock and writes nothing, so a recorder never waits for it. Nothing is read twice, and each read is bounded.
Events are in the order of writing; they are sorted only when the run is sealed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.cost import Ledger
from critiqor.model import Event, EventType
from critiqor.model.usage import Cost
from critiqor.run.owner import is_abandoned
from critiqor.run.segments.handover import have_recorders_left
from critiqor.run.store import Run
from critiqor.storage import run_record as records
from critiqor.storage.atomic import read_regular_file
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.event_merge import merged_events, read_lifecycle
from critiqor.storage.journal_tail import JournalTail
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

LOOK_SECONDS = 1.0
"""Time between two looks for recorders in a segment that the recording has left."""


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

    def __init__(self, run: Run, counter: CoverageCounter | None = None) -> None:
        self.run = run
        self.head = run.head()
        """The head of the run record at the latest update."""
        self.counter = counter or CoverageCounter()
        """Counts the records of the journal, those that cannot be read included."""
        self._record_as_of: tuple[int, int, int] | None = None
        self.lifecycle: list[Any] = []
        """The lifecycle events of the run record that were read, as they are there."""
        self._process_ended = False
        self._look_at: float | None = None
        """When to look again for recorders in a segment that the recording has left."""
        self._is_left_alone = False
        key = _key(run.paths.redaction_key_path(run.id))
        self.redactor = Redactor.of_run(key, run.paths.redaction_rules_path(run.id))
        self._filter = RecordFilter(self.redactor)
        self.journal = JournalTail(run.paths.journal_path(run.id), self._filter, self.counter)
        self._tally = _Tally()

    def update(self) -> Update:
        """Read what is new. Raise an error if the record is missing or broken."""
        events = list(self._supervised())
        over = self._why_over()  # before the journal is read, so that everything written until then is in it
        recorded, more = self.journal.read(None if self.head.cut is None else self.head.cut.journal_bytes)
        if events:  # merge the events of the supervisor into those of the recorder
            recorded = sorted([*events, *recorded], key=lambda event: event.event_id)
        events = recorded
        if over is not None and not more:
            events += self.journal.rest()
        for event in events:
            self._tally.count(event)
        return Update(events=events, status=self.head.status, over=None if more else over, more=more)

    def read_again(self, counter: CoverageCounter | None = None) -> Iterator[Event]:
        """Yield the events that were read so far once more, in the order in which they would be sealed."""
        journal = self.run.paths.journal_path(self.run.id)
        limit = self.journal.consumed
        return merged_events(journal, self.lifecycle, self.redactor, limit=limit, counter=counter)

    def recount(self, counter: CoverageCounter) -> None:
        """Count what follows with another counter, which has counted the records that were read so far."""
        self.counter = counter
        self.journal.restart(counter)

    def totals(self) -> Totals:
        """Return the totals so far."""
        return self._tally.totals(self.counter.coverage.damaged_records)

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
        if self.head.cut is not None:
            log = log[: self.head.cut.lifecycle_events]
        new = log[len(self.lifecycle) :]
        self.lifecycle += new
        for event in read_lifecycle(new, self._filter, self.counter):
            self._process_ended |= event.event_type == EventType.PROCESS_END
            yield event

    def _why_over(self) -> str | None:
        # Agent runs that have begun in a segment end in it, although the next one has begun.
        is_left = self.head.status == "FINALIZING" and self.head.cut is None
        if self.head.status != "MONITORING" and not is_left:
            return f"it is {self.head.status}"
        if self._process_ended:
            return "its process has ended"
        if is_abandoned(self.head):
            return "the process that recorded it is gone"
        if is_left and self._have_recorders_left():
            return "it waits to be sealed"  # the process that cut the recording may be gone
        return None

    def _have_recorders_left(self) -> bool:
        """Return whether all recorders have left a segment; the first look gives them time to notice the cut."""
        now = time.monotonic()
        if self._look_at is None:
            self._look_at = now + LOOK_SECONDS
        if not self._is_left_alone and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._is_left_alone = have_recorders_left(self.run)
        return self._is_left_alone


class _Tally:
    """Adds up events."""

    def __init__(self) -> None:
        self._ledger = Ledger(lists_turns=False)
        self._events = 0
        self._tool_calls = 0
        self._errors = 0
        self._last_event_at: str | None = None

    def count(self, event: Event) -> None:
        self._events += 1
        self._errors += event.status == "error"
        self._last_event_at = event.timestamp or self._last_event_at
        if event.source_layer != "supervisor":
            self._tool_calls += event.event_type == EventType.TOOL_CALL
            self._ledger.observe(event)

    def totals(self, unreadable: int) -> Totals:
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
            unreadable=unreadable,
            last_event_at=self._last_event_at,
        )
        return Totals(figures, usage.cost)


def _key(path: Path) -> bytes:
    try:
        return read_regular_file(path)
    except OSError:
        return b""  # tags that cannot be compared with others are still better than secrets
