"""Send spans to a collector, again and again until it accepts them, and remember on disk which ones it has.

    runs/.otlp/RUN.json     where the spans of a run are sent; deleted when all of them were
    runs/.otlp/RUN.sent     ids of the spans that need not be sent again, 8 bytes each

The recording itself is what waits: a sender that is ended loses nothing, because the next one builds the same spans
with the same ids. Neither keys nor content are written here.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor import __version__
from critiqor.exporters.otlp.endpoint import CollectorError, Endpoint
from critiqor.exporters.otlp.otlp import Request
from critiqor.live.messages import StreamReport, StreamTarget
from critiqor.notifications.delivery import back_off_ms
from critiqor.run.store import Run
from critiqor.storage import SessionPaths, write_bytes
from critiqor.storage.atomic import read_regular_file
from critiqor.storage.paths import FOLDER_MODE

MAX_DELAY_SECONDS = 30.0
"""Longest time between two attempts, unless the collector asks for a longer one."""
_REFUSALS = frozenset((400, 413, 422))
"""Responses that are about the request, and would be the same the next time."""
_TOO_LARGE = 413


class SentSpans:
    """The spans of one run that need not be sent again."""

    def __init__(self, run: Run) -> None:
        folder = run.paths.streams_folder
        self._target, self._ids = folder / f"{run.id}.json", folder / f"{run.id}.sent"
        self._known = array("Q")

    def begin(self, target: StreamTarget) -> None:
        """Remember where spans are sent, and read which ones were sent to the same address before."""
        before = _read_target(self._target)
        if before is not None and before.url == target.url:
            self.read()
        else:
            self._target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._ids.unlink(missing_ok=True)
        if before != target:
            write_bytes(self._target, msgspec.json.encode(target))

    def read(self) -> None:
        """Read again which spans were sent. `add` does not keep them in memory, which would grow with a recording."""
        self._known = _read_ids(self._ids)

    def __contains__(self, span_id: str) -> bool:
        number = int(span_id, 16)
        place = bisect_left(self._known, number)
        return place < len(self._known) and self._known[place] == number

    def add(self, request: Request) -> None:
        """Remember the spans of a request. After a crash, the last ones may be sent twice, with the same ids."""
        with self._ids.open("ab") as file:
            file.write(array("Q", [int(span.id, 16) for span in request.spans]).tobytes())

    def end(self) -> None:
        """Forget a run all of whose spans were sent."""
        self._target.unlink(missing_ok=True)
        self._ids.unlink(missing_ok=True)


class WaitingRun(NamedTuple):
    """A run some of whose spans were not sent."""

    run_id: str
    target: StreamTarget


def waiting_runs(paths: SessionPaths) -> list[WaitingRun]:
    """Return the runs of a folder some of whose spans were not sent."""
    found = ((path.stem, _read_target(path)) for path in sorted(paths.streams_folder.glob("*.json")))
    return [WaitingRun(run_id, target) for run_id, target in found if target is not None]


def forget_waiting(run: Run, url: str) -> None:
    """Forget the spans of a run that a sender would still send to a collector, because all of them were sent there."""
    target = _read_target(run.paths.streams_folder / f"{run.id}.json")
    if target is not None and target.url == url:
        SentSpans(run).end()


class SpanSender:
    """Sends the spans of one run."""

    def __init__(self, run: Run, target: StreamTarget, variables: Mapping[str, str]) -> None:
        self.report = StreamReport()
        self.stopped = threading.Event()
        """Set to end all attempts."""
        self.spans = SentSpans(run)
        self.spans.begin(target)
        self._endpoint = Endpoint(target.url, __version__, variables)

    def send(self, request: Request) -> bool:
        """Send a request until it is accepted or refused. Return False if `stopped` was set before that."""
        failures = 0
        while not self.stopped.is_set():
            try:
                taken = self._endpoint.send(request).taken
            except CollectorError as error:
                self.report.reason = error.message
                if error.status == _TOO_LARGE and len(request.spans) > 1:
                    return all(map(self.send, _halves(request)))
                if error.status in _REFUSALS:
                    return self._settle(request, len(request.spans), error.message)
                failures += 1
                delay = min(back_off_ms(failures) / 1000, MAX_DELAY_SECONDS)
                self.stopped.wait(max(delay, error.retry_after))
            else:
                return self._settle(request, min(taken.rejected, len(request.spans)), taken.message)
        return False

    def _settle(self, request: Request, refused: int, message: str) -> bool:
        self.spans.add(request)
        self.report.reason = None
        if refused:
            self.report.refused += refused
            self.report.refusal = message or "no reason was given"
        self.report.sent += len(request.spans) - refused
        return True


def _halves(request: Request) -> list[Request]:
    middle = len(request.spans) // 2
    return [Request(request.recorded, half) for half in (request.spans[:middle], request.spans[middle:])]


def _read_target(path: Path) -> StreamTarget | None:
    try:
        return msgspec.json.decode(read_regular_file(path), type=StreamTarget)
    except (OSError, ValueError):
        return None


def _read_ids(path: Path) -> array[int]:
    ids = array("Q")
    try:
        data = read_regular_file(path)
    except OSError:
        return ids
    ids.frombytes(data[: len(data) // ids.itemsize * ids.itemsize])
    return array("Q", sorted(ids))
