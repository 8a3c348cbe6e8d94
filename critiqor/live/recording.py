"""One recording in progress: follows its journal and lifecycle events, and keeps its live verdict current.

Nothing here writes into the evidence, and no lock of a run is taken, so a recorder never waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from critiqor.live.announcements import Announcement, Announcer
from critiqor.live.diagnosis import MAX_LIMITS, LiveDiagnosis
from critiqor.live.event_order import EventOrder
from critiqor.live.limits import DayFile, RecordingLimits
from critiqor.live.stop_request import take_stop
from critiqor.live.verdict import LiveLimit, LiveVerdict, read_live, write_live
from critiqor.model import Coverage, Diagnosis, Event
from critiqor.model.record import Cut
from critiqor.policy.contract import Contract
from critiqor.policy.limits import Limits
from critiqor.run.store import Run
from critiqor.run.tail import Follower, Update
from critiqor.storage.audit.journal_audit import audit_of
from critiqor.storage.coverage import CoverageCounter

MIN_INTERVAL = 1.0
"""Minimum seconds between two verdicts."""
MAX_SHARE = 0.03
"""Share of one core that may be used for verdicts: if they take longer, there are fewer of them."""
MAX_CREDIT = 0.5
"""Seconds of work that may be done at once after a time with less work than that."""
REBUILD_SHARE = 0.01
"""Share of one core for reading the journal again after events came too late."""
MAX_AUDITED_BYTES = 64 << 20
"""Maximum size of a journal that is read once more at the end, to find records that were lost or changed."""


class LiveRecording:
    """Follows one run that is being recorded."""

    def __init__(self, run: Run, limits: Limits | None = None, contracts: Sequence[Contract] = ()) -> None:
        """`limits` and `contracts` are those of the policy."""
        self.run = run
        self._contracts = contracts
        self._follower = Follower(run)
        self._order = EventOrder()
        self._diagnosis = LiveDiagnosis(run.id, self._follower.counter, contracts)
        before = read_live(run)
        known = before.findings if before is not None else []
        announced = set(before.announced) if before is not None else set()
        self._announcer = Announcer(run.id, [finding for finding in known if finding.id in announced])
        self.limits: list[LiveLimit] = list(before.limits) if before is not None else []
        """Limits that were exceeded: the last ones."""
        days = DayFile(run.paths.runs_dir)
        self._limits = RecordingLimits(limits, run.id, days, self.limits) if limits and limits.given else None
        self._new_limits: list[LiveLimit] = []
        self.verdict: LiveVerdict | None = None
        """The latest verdict."""
        self._is_changed = True
        self._credit = MAX_CREDIT
        """Seconds of work that may be done."""
        self._published_at: float | None = None
        self._next_rebuild = 0.0

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The diagnosis of the complete recording; None before it is finished."""
        return self._diagnosis.concluded

    def read(self, now: float) -> Update:
        """Read what is new, and pass it to the detectors when its order is certain."""
        update = self._follower.update()
        if self._limits is not None:
            # At once, in the order of arrival: an agent that is to be stopped goes on in the meantime.
            self._new_limits += self._limits.observe(update.events, is_over=update.over is not None)
        self._new_limits += take_stop(self.run)
        self._order.add(update.events, now)
        self._observe(self._order.take(now))
        return update

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            self._diagnosis.observe(event)
        self._is_changed = self._is_changed or bool(events)

    def take_limits(self) -> list[LiveLimit]:
        """Return the limits that were exceeded since the last call."""
        new, self._new_limits = self._new_limits, []
        return new

    def add_limit(self, limit: LiveLimit) -> None:
        """Note an exceeded limit, and what became of it, in the verdict."""
        self.limits.append(limit)
        del self.limits[:-MAX_LIMITS]
        self._is_changed = True

    def publish(self, now: float) -> list[Announcement]:
        """Write live.json if it is time for another verdict. Return what is to be announced."""
        if not self._is_time(now):
            return []
        if self._order.is_broken and now >= self._next_rebuild:
            self._next_rebuild = now + max(MIN_INTERVAL, self._rebuild() / REBUILD_SHARE)
        began = time.thread_time()
        if self._is_changed or self.verdict is None:
            self.verdict = self._diagnosis.verdict(self.limits)
        news = self._announce(now, is_new=self._is_changed)
        self._is_changed = False
        self._credit -= time.thread_time() - began
        return news

    def _is_time(self, now: float) -> bool:
        """Return whether there may be another verdict now, and note that there is one."""
        passed = MIN_INTERVAL if self._published_at is None else now - self._published_at
        credit = min(MAX_CREDIT, self._credit + passed * MAX_SHARE)
        # A finding that waits to be announced is looked at again as soon as it can be.
        if (passed < MIN_INTERVAL and now < self._announcer.due_at) or credit <= 0:
            return False
        self._credit, self._published_at = credit, now
        return True

    def finish(self, now: float) -> list[Announcement]:
        """Write the verdict of the complete recording into live.json. Return what is to be announced."""
        while self.read(now).more:
            pass
        self._observe(self._order.take())
        if self._order.is_broken:
            self._rebuild()
        events, timeline = self._follower.read_again(), self.run.timeline_path
        self.verdict = self._diagnosis.conclude(events, timeline, self._audited_coverage(), self.limits)
        return self._announce(now, is_new=True)

    def _announce(self, now: float, *, is_new: bool) -> list[Announcement]:
        if self.verdict is None:
            return []
        news = self._announcer.update(self.verdict, now)
        if news or is_new:
            self.verdict = msgspec.structs.replace(self.verdict, announced=self._announcer.announced)
            write_live(self.run, self.verdict)
            if self._limits is not None:
                self._limits.save()
        return news

    def _rebuild(self) -> float:
        """Diagnose the events so far again, in their true order. Return the seconds that it took."""
        began = time.thread_time()
        self._order.take()  # they are read again
        counter = CoverageCounter()
        self._diagnosis = LiveDiagnosis(self.run.id, counter, self._contracts)
        for event in self._follower.read_again(counter):
            self._diagnosis.observe(event)
        self._follower.recount(counter)
        self._order.restart()
        self._is_changed = True
        return time.thread_time() - began

    def _audited_coverage(self) -> Coverage | None:
        """Compare the journal with what recorders and the monitor said about it; None if it is too long for that."""
        follower = self._follower
        if follower.journal.consumed > MAX_AUDITED_BYTES:
            return None
        record = self.run.record()
        record.event_log = follower.lifecycle
        record.cut = Cut(follower.journal.consumed, len(follower.lifecycle), is_running=False)
        counter = CoverageCounter(audit_of(self.run.paths, record))
        for event in follower.read_again(counter):
            counter.count(event)
        return counter.build_coverage(follower.redactor, is_running=False)
