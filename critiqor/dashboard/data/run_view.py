"""One run as one viewer sees it. Pages take everything of a run from here and from nowhere else.

What a viewer may not see is taken out on the way, once, and not page by page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from critiqor.dashboard.data.event_index import EventFilter, EventIndex, Found, Numbered
from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.dashboard.data.run_catalog import OpenedRun
from critiqor.dashboard.data.search_terms import text_of
from critiqor.dashboard.data.time_chart import KINDS, Bar
from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.dashboard.render.formatting import offset
from critiqor.diagnosis.signals.text import canonical, plain_text
from critiqor.errors import BrokenRecordError, CritiqorError
from critiqor.model import Coverage, Diagnosis, Event, Finding, ms_from_iso
from critiqor.model.sanitize import excerpt
from critiqor.model.timeline import cited_line
from critiqor.privacy import (
    anonymous_coverage,
    anonymous_diagnosis,
    anonymous_event,
    anonymous_head,
    anonymous_name,
)
from critiqor.run.diagnosis import load_proof
from critiqor.run.lifecycle import evidence_events
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage.session_document import read_coverage
from critiqor.timeline.reader.citations import FieldValue, read_cited_lines

PAGE = 100
"""Events on one page."""
SMALL_RUN = 5000
"""Events of a run whose index is made so fast that a page can wait for it."""
PATIENCE_SECONDS = 5.0
PROVEN_BYTES = 1 << 26
"""Of evidence that is compared with its seal whenever the overview is looked at."""
_EXCERPT = 240
_SEARCHED = 50_000
"""Characters of an event in which the place is looked for that a search found."""


class Undiagnosed(NamedTuple):
    """Why nothing was concluded, and what to type."""

    reason: str
    fix: str | None


class Showing:
    """A run through the eyes of one viewer."""

    def __init__(self, run: OpenedRun, shelf: IndexCache) -> None:
        self._run = run
        self._shelf = shelf
        self._index: EventIndex | None = None
        self.run_id = run.run_id
        self.is_sealed = run.is_sealed
        self.is_anonymous = run.level == "anonymous"
        self.head: dict[str, Any] = anonymous_head(run.head) if self.is_anonymous else run.head
        self.undiagnosed: Undiagnosed | None = None
        self.diagnosis: Diagnosis | None = None
        try:
            whole = run.diagnosis()
            self.diagnosis = anonymous_diagnosis(whole) if self.is_anonymous else whole
        except CritiqorError as error:
            message = "Nothing was concluded from this run." if self.is_anonymous else error.message
            self.undiagnosed = Undiagnosed(message, error.fix)
        self.at = RunAddresses(self.run_id, self.findings, has_lines=not self.is_anonymous)

    @property
    def _paths(self) -> SessionPaths:
        return paths_for(self._run.folder)

    @property
    def is_live(self) -> bool:
        """Whether it is still being recorded, or was when its recorder died."""
        return bool(self.head["status"] == "MONITORING")

    @property
    def total_events(self) -> int | None:
        return self.head["seal"]["events"] if self.is_sealed else None

    @property
    def findings(self) -> list[Finding]:
        """What was found, the worst first; nothing where nothing was concluded."""
        return self.diagnosis.failure_analysis.findings if self.diagnosis is not None else []

    @cached_property
    def _began_ms(self) -> int | None:
        """From when on time is told: where the chart begins, or where the record says that the run began."""
        index = self.index()
        extent = index.extent() if index is not None else None
        if extent is not None:
            return extent[0] // 1000
        times = self.head["timestamps"]
        return ms_from_iso(times.get("started_at") or times["created_at"])

    def since(self, timestamp: str) -> str:
        """How long after the beginning of the run something was; nothing where that cannot be told."""
        at = ms_from_iso(timestamp)
        return "" if at is None or self._began_ms is None else offset(at - self._began_ms)

    def why_unreadable(self, error: BrokenRecordError) -> str:
        """Why the evidence cannot be read, as far as the viewer may know that."""
        return "The evidence cannot be read." if self.is_anonymous else f"{error.message}: {error.fix}"

    def coverage(self) -> Coverage | None:
        """What the recorder saw and did not see; None before the run is sealed."""
        if not self.is_sealed:
            return None
        try:
            coverage = read_coverage(self._paths.evidence_summary_path(self.run_id))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(error) from error
        return anonymous_coverage(coverage) if self.is_anonymous else coverage

    def doubt(self) -> str | None:
        """Why what was concluded cannot be proven any more. What takes long to read is left to whoever verifies it."""
        document = self._paths.evidence_summary_path(self.run_id)
        try:
            if not self.is_sealed or (document.exists() and document.stat().st_size > PROVEN_BYTES):
                return None
            proof = load_proof(self.run_id, self._run.folder)
        except (CritiqorError, OSError, msgspec.DecodeError, UnicodeDecodeError):
            return "the evidence is not what was sealed"
        if proof.is_intact:
            return None
        return "the evidence is not what was sealed" if self.is_anonymous else proof.told

    def index(self, *, wait: bool = False) -> EventIndex | None:
        """The index, if it is there by now; that of a small run is waited for in any case."""
        if self._index is not None:
            return self._index
        small = self.is_sealed and self._run.head["seal"]["events"] <= SMALL_RUN
        self._index = self._shelf.index_of(self._run, PATIENCE_SECONDS if small or wait else 0.0)
        return self._index

    @property
    def index_problem(self) -> str | None:
        """Why there will be no index; the evidence is read without one then."""
        return self._shelf.problem(self._run)

    def events(self, wanted: EventFilter, page: int) -> Found:
        """One page of events, from page 1 on."""
        if self.is_anonymous:
            # Whether something is found would tell that it was said.
            wanted = EventFilter(
                **{field: name for field, name in wanted.names.items() if anonymous_name(field, name) == name}
            )
        offset = (page - 1) * PAGE
        # Reading all of a large run takes about as long as making its index.
        index = self.index(wait=wanted != EventFilter())
        found = index.find(wanted, offset, PAGE) if index is not None else self._scanned(wanted, offset)
        return Found([self._shown(each) for each in found.events], found.total)

    def _scanned(self, wanted: EventFilter, offset: int) -> Found:
        events = (Numbered(number, event) for number, event in enumerate(self._all_events(), 1))
        total = self.total_events
        if total is not None and wanted == EventFilter():
            return Found(list(islice(events, offset, offset + PAGE)), total)
        found: list[Numbered] = []
        count = 0
        for each in events:
            if wanted.wants(each.event):
                if offset <= count < offset + PAGE:
                    found.append(each)
                count += 1
        return Found(found, count)

    def event(self, event_id: str) -> Numbered | None:
        """One event by its id."""
        index = self.index()
        if index is not None:
            found = index.event(event_id)
        else:
            events = (Numbered(number, event) for number, event in enumerate(self._all_events(), 1))
            found = next((each for each in events if each.event.event_id == event_id), None)
        return None if found is None else self._shown(found)

    def every_event(self) -> Iterator[Numbered]:
        """All events in their order, one by one."""
        return (self._shown(Numbered(number, event)) for number, event in enumerate(self._all_events(), 1))

    def timeline_line(self, name: str) -> dict[str, FieldValue] | None:
        """A cited line of OpenClaw's timeline; its texts are nothing for somebody else."""
        line = cited_line(name)
        if line is None or self.is_anonymous:
            return None
        return read_cited_lines(self._paths.timeline_path(self.run_id), {line}).get(line)

    def names(self, field: str) -> dict[str, int]:
        """What a field of the events can be, with how often it is; nothing while there is no index."""
        index = self.index()
        if index is None:
            return {}
        names = index.names(field)
        if not self.is_anonymous:
            return names
        return {name: count for name, count in names.items() if anonymous_name(field, name) == name}

    def bars(self, start_us: int, end_us: int, least_us: int, most: int) -> list[Bar]:
        """What took time within a window, that is to be drawn."""
        index = self.index()
        if index is None:
            return []
        bars = [*index.long_bars(start_us, end_us, least_us, most), *index.short_bars(start_us, end_us, least_us)]
        return [bar._replace(name=KINDS[bar.kind]) for bar in bars] if self.is_anonymous else bars

    def _all_events(self) -> Any:
        try:
            yield from evidence_events(self.run_id, self._run.folder)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> BrokenRecordError:
        # Without the path that the error of a system names.
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"the evidence of {self.run_id} is not as it was sealed: {reason}"
        return BrokenRecordError(message, fix=f"critiqor verify {self.run_id}")

    def _shown(self, each: Numbered) -> Numbered:
        return Numbered(each.number, anonymous_event(each.event)) if self.is_anonymous else each


def worth_reading(event: Event, search: re.Pattern[str] | None = None) -> list[tuple[str, str]]:
    """What of an event tells most, in one line each; the place that a search found is always among it."""
    payload = event.payload
    lines = []
    if payload.get("arguments") is not None:
        lines.append(("arguments", excerpt(canonical(payload["arguments"]), _EXCERPT)))
    if event.error:
        lines.append(("error", excerpt(event.error, _EXCERPT)))
    for name in ("result", "text"):
        if payload.get(name):
            lines.append((name, excerpt(plain_text(payload[name]), _EXCERPT)))
    usage = payload.get("usage")
    if isinstance(usage, dict):
        counted = ((usage.get(name), way) for name, way in (("input", "in"), ("output", "out")))
        told = [f"{count} tokens {way}" for count, way in counted if isinstance(count, int | float)]
        lines += [("usage", ", ".join(told))] if told else []
    if search is not None:
        lines += _found(event, search, lines)
    return lines


def _found(event: Event, search: re.Pattern[str], lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first thing that a search found and that the lines do not show."""
    shown = {match[0].lower() for _, text in lines for match in search.finditer(text)}
    text = text_of(event)[:_SEARCHED]
    for match in search.finditer(text, len(event.event_type)):
        if match[0].lower() not in shown:
            return [("found", excerpt(text[max(0, match.start() - 80) : match.end() + _EXCERPT], _EXCERPT))]
    return []
