"""Data of the pages of one run for one request: its view, its index and its addresses.

Pages read everything about a run from here; what the viewer may not see is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from critiqor.conversation.entries import message_text
from critiqor.dashboard.data.conversation_source import (
    ConversationSource,
    IndexedConversations,
    ScannedConversations,
)
from critiqor.dashboard.data.event_index import EventFilter, EventIndex, Found, Numbered, SessionName
from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.dashboard.data.time_chart import KINDS, Bar, ChartWindow
from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.dashboard.render.formatting import moment, offset
from critiqor.errors import BrokenRecordError
from critiqor.model import Coverage, Diagnosis, Event, Finding, RunHead, iso_from_ms, ms_from_iso
from critiqor.model.sanitize import excerpt
from critiqor.model.timeline import line_of_id
from critiqor.model.timestamps import is_real_time
from critiqor.model.verdict import Verdict
from critiqor.privacy.events import anonymous_coverage, anonymous_event
from critiqor.privacy.replacements import anonymous_name
from critiqor.run.view import RunView
from critiqor.storage.annotations import Annotations, read_annotations
from critiqor.timeline.reader.citations import FieldValue, read_cited_lines

PAGE = 50
"""Number of events on one page."""
SMALL_RUN = 5000
"""Maximum number of events for which a page waits until the index is built."""
INDEX_TIMEOUT_SECONDS = 5.0
MAX_MESSAGE = 120
"""Maximum length in characters of a message that an agent run is named by."""


class Undiagnosed(NamedTuple):
    """Why there is no diagnosis, and the command that makes one."""

    reason: str
    fix: str | None


class EventNeighbours(NamedTuple):
    """The ids of events that belong to another one; None where there is none."""

    previous: str | None = None
    next: str | None = None
    counterpart: str | None = None
    """The result of a call, or the call of a result."""


class ShownRun(NamedTuple):
    """An agent run, as pages name it."""

    place: int
    """Number of its first event."""
    started_at: str
    message: str
    """The first words of the message that it answers; empty if it is not known."""


class StoredPlace(NamedTuple):
    """Where a run of another machine comes from. Its pages change nothing."""

    name: str
    """`HOST/RUN@DIGITS`."""
    address: str
    """Address of its overview."""


class RunPageData:
    """The data of the pages of one run, as one viewer may see it."""

    def __init__(self, view: RunView, indexes: IndexCache, stored: StoredPlace | None = None) -> None:
        self.view = view
        self.stored = stored
        """None for a run of the runs folder."""
        self._indexes = indexes
        self._index: EventIndex | None = None
        self.run_id = view.run_id
        self.is_sealed = view.is_sealed
        self.is_anonymous = view.is_anonymous
        self.head: RunHead = view.head
        self.undiagnosed: Undiagnosed | None = None
        self.diagnosis: Diagnosis | None = None
        self.verdict: Verdict | None = None
        if view.problem is not None:
            message = "There is no diagnosis of this run." if self.is_anonymous else view.problem.message
            self.undiagnosed = Undiagnosed(message, view.problem.fix)
        else:
            self.diagnosis, self.verdict = view.diagnosis, view.verdict
        self.addresses = RunAddresses(
            self.run_id,
            self.findings,
            has_lines=not self.is_anonymous,
            overview=stored.address if stored is not None else None,
        )

    @property
    def name(self) -> str:
        """The name of the run, with its host if it is one of another machine."""
        return self.run_id if self.stored is None else self.stored.name.partition("@")[0]

    @property
    def is_live(self) -> bool:
        """Whether it is still being recorded, or was when its recorder died."""
        return self.head.is_being_recorded

    @property
    def total_events(self) -> int | None:
        """The number of sealed events; None before the run is sealed."""
        return self.head.seal.events if self.head.seal is not None else None

    @property
    def findings(self) -> list[Finding]:
        """The findings, the worst first; empty if there is no diagnosis."""
        return self.diagnosis.failure_analysis.findings if self.diagnosis is not None else []

    @cached_property
    def _start_ms(self) -> int | None:
        """Start of the run in milliseconds: that of the chart, or the time in the record if there is no index yet."""
        index = self.index()
        extent = index.extent() if index is not None else None
        if extent is not None:
            return extent[0] // 1000
        times = self.head.timestamps
        return ms_from_iso(times.started_at or times.created_at)

    @property
    def has_times(self) -> bool:
        """Whether its events have recorded times; those of an import without times only give them an order."""
        return self._start_ms is None or is_real_time(self._start_ms)

    def since(self, timestamp: str) -> str:
        """Return the time since the start of the run; empty if it is unknown."""
        at = ms_from_iso(timestamp)
        return "" if at is None or self._start_ms is None or not self.has_times else offset(at - self._start_ms)

    def when(self, timestamp: str) -> str:
        """Return the time since the start of the run, else the time of day; empty if no time was recorded."""
        at = ms_from_iso(timestamp)
        return "" if at is not None and not is_real_time(at) else self.since(timestamp) or moment(timestamp)

    def why_unreadable(self, error: BrokenRecordError) -> str:
        """Return why the evidence cannot be read, as far as the viewer may know it."""
        return "The evidence cannot be read." if self.is_anonymous else f"{error.message}: {error.fix}"

    def coverage(self) -> Coverage | None:
        """Return the coverage of the evidence; None before the run is sealed. Raise an error if it cannot be read."""
        if not self.is_sealed:
            return None
        try:
            coverage = self.view.run.coverage()
        except OSError as error:
            raise self._broken(error) from error
        return anonymous_coverage(coverage) if self.is_anonymous else coverage

    @cached_property
    def annotations(self) -> Annotations | None:
        """What the user says about the run; None if it cannot be read. Only the user sees it."""
        try:
            return read_annotations(self.view.run.paths, self.run_id)
        except BrokenRecordError:
            return None

    def index(self, *, wait: bool = False) -> EventIndex | None:
        """Return the index if it is built. Wait for it if `wait` is set or the run is small."""
        if self._index is not None:
            return self._index
        is_small = self.view.seal is not None and self.view.seal.events <= SMALL_RUN
        self._index = self._indexes.index_of(self.view, INDEX_TIMEOUT_SECONDS if is_small or wait else 0.0)
        return self._index

    @property
    def index_problem(self) -> str | None:
        """Why the index cannot be built; events are then read without it."""
        return self._indexes.problem(self.view)

    def events(self, wanted: EventFilter, page: int) -> Found:
        """Return one page of events; the first page is 1."""
        if self.is_anonymous:
            # A match would reveal that a text occurs in the run.
            names = {field: name for field, name in wanted.names.items() if anonymous_name(field, name) == name}
            wanted = EventFilter(**names, session=wanted.session, min_ms=wanted.min_ms, folds=wanted.folds)
        offset = (page - 1) * PAGE
        # Reading all of a large run takes about as long as building its index.
        index = self.index(wait=wanted != EventFilter())
        found = index.find(wanted, offset, PAGE) if index is not None else self._scanned(wanted, offset)
        return Found([self._shown(each) for each in found.events], found.total)

    def _scanned(self, wanted: EventFilter, offset: int) -> Found:
        events = self._numbered_events()
        total = self.total_events
        if total is not None and wanted == EventFilter():
            return Found(list(islice(events, offset, offset + PAGE)), total)
        found: list[Numbered] = []
        count = 0
        for each in events:
            if wanted.matches(each.event):
                if offset <= count < offset + PAGE:
                    found.append(each)
                count += 1
        return Found(found, count)

    def event(self, event_id: str) -> Numbered | None:
        """Return one event by its id."""
        index = self.index()
        if index is not None:
            found = index.event(event_id)
        else:
            found = next((each for each in self._numbered_events() if each.event.event_id == event_id), None)
        return None if found is None else self._shown(found)

    def every_event(self) -> Iterator[Numbered]:
        """Yield all events in order."""
        return map(self._shown, self._numbered_events())

    @cached_property
    def conversations(self) -> ConversationSource:
        """The conversations of the run; without an index, those of its first events."""
        index = self.index()
        return IndexedConversations(index) if index is not None else ScannedConversations(self._numbered_events())

    def conversations_with_index(self) -> ConversationSource:
        """Return the conversations from the index, after waiting for it, if the run is sealed."""
        if self.index(wait=True) is not None:
            self.__dict__.pop("conversations", None)
        return self.conversations

    def around(self, number: int) -> EventNeighbours:
        """Return the events before and after an event, and its call or result; empty without an index."""
        index = self.index()
        if index is None:
            return EventNeighbours()
        other = index.counterpart(number)
        ids = index.event_ids([number - 1, number + 1, *([other] if other is not None else [])])
        return EventNeighbours(ids.get(number - 1), ids.get(number + 1), ids.get(other or 0))

    def session_of(self, number: int) -> SessionName | None:
        """Return the session of an event as the viewer may see it; None if it has none, or without an index."""
        index = self.index()
        session = index.session_of(number) if index is not None else None
        if session is None or not self.is_anonymous:
            return session
        return SessionName(session.number, f"session_{session.number}")

    def shown_event(self, event: Event) -> Event:
        """Return an event as far as the viewer may see it."""
        return anonymous_event(event) if self.is_anonymous else event

    def timeline_line(self, name: str) -> dict[str, FieldValue] | None:
        """Return a cited line of OpenClaw's timeline; None for an anonymous viewer, because it contains texts."""
        line = line_of_id(name)
        if line is None or self.is_anonymous:
            return None
        return read_cited_lines(self.view.run.timeline_path, {line}).get(line)

    def names(self, field: str) -> dict[str, int]:
        """Return the values of a field of the events with their counts; empty while there is no index."""
        index = self.index()
        if index is None:
            return {}
        names = index.names(field)
        if not self.is_anonymous:
            return names
        return {name: count for name, count in names.items() if anonymous_name(field, name) == name}

    def whole_window(self) -> ChartWindow | None:
        """Return the window of the time chart that shows the whole run; None without an index, bars or times."""
        index = self.index()
        extent = index.extent() if index is not None else None
        if extent is None or not self.has_times:
            return None
        first, last = extent
        return ChartWindow(first, max(last, first + 1), first, max(last, first + 1))

    def bars(self, start_us: int, end_us: int, min_us: int, max_bars: int) -> list[Bar]:
        """Return the bars to draw within a window of time."""
        index = self.index()
        if index is None:
            return []
        bars = [*index.long_bars(start_us, end_us, min_us, max_bars), *index.short_bars(start_us, end_us, min_us)]
        return [bar._replace(name=KINDS[bar.kind]) for bar in bars] if self.is_anonymous else bars

    def agent_runs(self, agent_run_ids: Iterable[str]) -> dict[str, ShownRun]:
        """Return when agent runs began and what they answer, by their ids; empty without an index."""
        index = self.index()
        if index is None or self.is_anonymous:
            return {}
        starts = index.agent_runs(set(agent_run_ids))
        texts = self.message_texts(start.message for start in starts.values() if start.message is not None)
        return {
            each: ShownRun(
                start.first, "" if start.at_ms is None else iso_from_ms(start.at_ms), texts.get(start.message or 0, "")
            )
            for each, start in starts.items()
        }

    def session_choices(self) -> dict[int, str | None]:
        """Return the names of the sessions as the viewer sees them, by their numbers; empty without an index."""
        index = self.index()
        if index is None:
            return {}
        named = index.session_names().items()
        return {each: f"session_{each}" if self.is_anonymous and key is not None else key for each, key in named}

    def message_texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the first words of messages by the numbers of their events; empty for an anonymous viewer."""
        if self.is_anonymous:
            return {}
        found = self.conversations.events(numbers)
        texts = {number: excerpt(message_text(event), MAX_MESSAGE) for number, event in found.items()}
        return {number: text for number, text in texts.items() if text}

    def _numbered_events(self) -> Iterator[Numbered]:
        return (Numbered(number, event) for number, event in enumerate(self._all_events(), 1))

    def _all_events(self) -> Iterator[Event]:
        try:
            yield from self.view.run.events()
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> BrokenRecordError:
        # Errors of the system name a path, which is left out.
        message = f"the evidence of {self.run_id} was changed after sealing: {error.strerror}"
        return BrokenRecordError(message, fix=self.verify_command)

    @property
    def verify_command(self) -> str:
        """The command that finds what was changed in its files."""
        return f"critiqor verify {self.run_id}" if self.stored is None else f"critiqor pull {self.stored.name}"

    def _shown(self, each: Numbered) -> Numbered:
        return Numbered(each.number, self.shown_event(each.event))
