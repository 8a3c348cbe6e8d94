"""Stream the spans of a run to a collector while it is recorded, in a thread of its own.

While the collector is away, nothing is read: the recording on disk is what waits, so memory stays bounded and the
recorder never waits for anything. What is not sent when the process ends is sent by the next one that streams.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable

from critiqor import __version__
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import CritiqorError
from critiqor.exporters.gathering import ExportOptions, gather_recorded
from critiqor.exporters.otlp.otlp import Batch
from critiqor.exporters.otlp.span_builder import SpanBuilder
from critiqor.live.event_order import EventOrder
from critiqor.live.messages import StreamReport, StreamTarget
from critiqor.live.span_sender import SentSpans, SpanSender, waiting_runs
from critiqor.model import Diagnosis, Event, now_ms
from critiqor.model.report import Recorded
from critiqor.privacy.visibility import EXPORT
from critiqor.run.store import Run, RunStore
from critiqor.run.tail import Follower
from critiqor.run.view import RunView
from critiqor.storage.run_record import ACTIVE

POLL_SECONDS = 0.2
"""How often the journal is checked for something new."""
BATCH_SECONDS = 2.0
"""How long a span waits for others that are sent with it."""
SETTLE_SECONDS = 5.0
"""How long an ended span waits for what is recorded shortly after its end, if nothing else happens in its agent run."""
CURRENT_SECONDS = 1.0
"""How long after the sending of a request, or after much was read at once, events may still be old ones."""
MAX_FAILED_READS = 50
"""Reads in a row that may fail: a record is missing for a moment when it is replaced."""
MAX_RESUMED = 16
"""Number of earlier runs whose spans are sent at the same time."""
FINISH_SECONDS = 5.0
"""How long the end of a recording waits for the collector."""


class SpanStream:
    """Sends the spans of one run that is being recorded, or of one that was."""

    def __init__(self, run: Run, target: StreamTarget) -> None:
        self.run = run
        self.target = target
        self.report = StreamReport()
        self._sender: SpanSender | None = None
        self._stopped = threading.Event()
        self._concluding = threading.Event()
        self._diagnosis: Diagnosis | None = None
        self._thread = threading.Thread(target=self._run, name=f"spans of {run.id}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def conclude(self, diagnosis: Diagnosis | None) -> None:
        """Send the rest, and the span of the run with its diagnosis: no more events will be recorded."""
        self._diagnosis = diagnosis
        self._concluding.set()

    def finish(self, seconds: float) -> StreamReport:
        """Wait until everything was sent, for that many seconds at most, then end. Return what became of the spans."""
        self._thread.join(seconds)
        self.stop()
        return self.report

    def stop(self) -> None:
        """End the attempts to send. What was not sent is sent by the next stream."""
        self._stopped.set()
        if self._sender is not None:
            self._sender.stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether nothing is sent any more."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._sender = SpanSender(self.run, self.target, os.environ)
            self.report = self._sender.report
            if self._stopped.is_set():
                return
            is_recording = RunView(self.run, EXPORT).head.status in ACTIVE
            if self._follow(self._sender) if is_recording else self._send_recorded(self._sender):
                self.report.is_complete = True
                self._sender.spans.end()
        # Whatever is wrong with the stream, the recording and its diagnosis go on; the spans stay on disk.
        except Exception as error:
            self.report.reason = (
                error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"
            )

    def _follow(self, sender: SpanSender) -> bool:
        """Send what is recorded until the recording is over. Return whether all of it was sent."""
        view = RunView(self.run, EXPORT)
        content = self.target.content and not view.is_anonymous
        recorded = Recorded(view.head, (), None, {}, FAILURE_TYPES, __version__, content)
        outgoing = _Outgoing(recorded, sender)
        reader = _Reader(view)
        is_last = False
        while not is_last and not self._stopped.is_set():
            is_concluding = self._concluding.is_set()  # before reading, so that everything recorded until then is read
            read = reader.read(is_concluding=is_concluding)
            if read is None:
                # It was sealed in the meantime, and its journal may be deleted: all spans are built again.
                sender.spans.read()
                return self._send_recorded(sender)
            is_last = is_concluding and not reader.has_more
            if not outgoing.add(read, is_current=reader.is_current):
                return False
            if not (is_last or reader.has_more):
                self._stopped.wait(POLL_SECONDS)
        return not self._stopped.is_set() and outgoing.finish(self._visible(view, self._diagnosis))

    def _send_recorded(self, sender: SpanSender) -> bool:
        """Send what was not sent of a recording that is over. Return whether all of it was sent."""
        view = RunView(self.run, EXPORT)
        recorded: Recorded = gather_recorded(view, ExportOptions(self.target.content)).material
        outgoing = _Outgoing(recorded._replace(diagnosis=None), sender)
        return outgoing.add(recorded.events) and outgoing.finish(recorded.diagnosis)

    @staticmethod
    def _visible(view: RunView, diagnosis: Diagnosis | None) -> Diagnosis | None:
        if diagnosis is None or not view.is_anonymous:
            return diagnosis
        from critiqor.privacy.diagnosis import anonymous_diagnosis

        return anonymous_diagnosis(diagnosis)


def resume_streams(store: RunStore, target: StreamTarget) -> list[SpanStream]:
    """Begin to send what earlier processes could not send to the same collector."""
    streams: list[SpanStream] = []
    for run_id, earlier in waiting_runs(store.paths):
        run = store.run(run_id)
        if run_id not in store:
            SentSpans(run).end()
        elif earlier.url == target.url and len(streams) < MAX_RESUMED and _is_over(run):
            # An agent can write the file: it cannot have more sent than the user wants.
            content = earlier.content and target.content
            streams.append(SpanStream(run, StreamTarget(url=target.url, content=content)))
            streams[-1].conclude(None)
            streams[-1].start()
    return streams


def _is_over(run: Run) -> bool:
    """Return whether a run is not recorded any more, in any slot: otherwise its own recording sends its spans."""
    try:
        return run.head().status not in ACTIVE
    except (CritiqorError, OSError):
        return False


class _Reader:
    """Reads the events of a recording in their order, as far as a viewer of the export may see them."""

    def __init__(self, view: RunView) -> None:
        self._follower = Follower(view.run)
        self._order = EventOrder()
        self._visible = view.event_filter()
        self._failures = 0
        self._last_read = self._behind = time.monotonic()
        self.has_more = False
        """Whether more can be read immediately."""

    @property
    def is_current(self) -> bool:
        """Whether events are read as they are recorded, so that nothing late is still to be read."""
        return self._last_read > self._behind + CURRENT_SECONDS

    def read(self, *, is_concluding: bool) -> list[Event] | None:
        """Return what is new; None if the run was sealed."""
        try:
            update = self._follower.update()
        except (CritiqorError, OSError):
            self._failures += 1
            if self._failures > MAX_FAILED_READS:
                raise
            self.has_more = False
            return []
        if update.status not in ACTIVE:
            return None
        self._failures, self.has_more = 0, update.more
        now = time.monotonic()
        if update.more or now > self._last_read + CURRENT_SECONDS:
            self._behind = now
        self._last_read = now
        self._order.add(update.events, now)
        return list(map(self._visible, self._order.take(None if is_concluding and not update.more else now)))


class _Outgoing:
    """Spans of a run on their way to the collector."""

    def __init__(self, recorded: Recorded, sender: SpanSender) -> None:
        self._builder = SpanBuilder(recorded)
        self._batch = Batch(recorded)
        self._sender = sender
        self._due: float | None = None

    def add(self, events: Iterable[Event], *, is_current: bool = False) -> bool:
        """Add events, and send what is due. Return False if the stream was stopped before that.

        `is_current`: they were read as they were recorded, so that a span to which nothing was added is complete.
        """
        for event in events:
            self._builder.observe(event)
            if not self._send_full():
                return False
        if is_current:
            self._builder.release(round((now_ms() - SETTLE_SECONDS * 1000) * 1000))
        return self._send_full() and (self._due is None or time.monotonic() < self._due or self._send())

    def finish(self, diagnosis: Diagnosis | None) -> bool:
        """Send the rest. Return False if the stream was stopped before that."""
        self._builder.finish(diagnosis)
        return self._send_full() and self._send()

    def _send_full(self) -> bool:
        """Take the spans that were completed, and send each batch that is full."""
        for span in self._builder.take_completed():
            if span.id in self._sender.spans:
                continue
            self._batch.add(span)
            if self._batch.is_full and not self._send():
                return False
        if self._due is None and self._batch.spans:
            self._due = time.monotonic() + BATCH_SECONDS
        return True

    def _send(self) -> bool:
        self._due = None
        return not self._batch.spans or self._sender.send(self._batch.take())
