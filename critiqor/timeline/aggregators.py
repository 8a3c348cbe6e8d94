"""Statistics of a timeline: spans by name, event-loop stalls, provider requests, child processes and plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from critiqor.model.timeline import (
    ChildFigures,
    ChildProcess,
    LoopDelay,
    PluginLoad,
    PluginStaging,
    ProviderFigures,
    ProviderRequest,
    SpanFigures,
    Stall,
)
from critiqor.model.timestamps import iso_from_datetime, moment_before
from critiqor.timeline.durations import Durations
from critiqor.timeline.process_state import ProcessState
from critiqor.timeline.reader.records import (
    ChildExit,
    Line,
    LoopSample,
    Mark,
    ProviderCall,
    SpanError,
    agent_run_of_call,
    moment_ms,
)
from critiqor.timeline.slowest import Slowest

STALL_MS = 100.0
"""The shortest delay of an event loop that is reported: people notice it."""
CAUSE_SHARE = 0.9
"""Share of a delay that a span must have lasted to be its cause; both are measured in units of ten milliseconds."""
MAX_STALLS = 20
MAX_SUSPECTS = 3
MAX_PLUGINS = 200
MAX_FAILURES = 20
"""Failed child processes that are listed."""
MAX_SIGNAL_LENGTH = 40
SpanPurpose = Literal["staging", "preparation"]
LineLookup = Callable[[Line], int]
"""Returns the line number of a record of the current block. It searches the block, so call it rarely."""
_PLUGIN_MARK = "plugins.gateway-load.plugin."


class SpanAggregator(Durations):
    """All closed spans of one name."""

    __slots__ = ("covered", "failed", "purpose")

    def __init__(self, purpose: SpanPurpose | None) -> None:
        super().__init__()
        self.purpose = purpose
        """What they are used for besides their durations."""
        self.covered = 0.0
        """Milliseconds covered by spans inside them."""
        self.failed = 0

    def summary(self, name: str) -> SpanFigures:
        stats = self.stats()
        return SpanFigures(
            name=name,
            count=stats.samples,
            failed=self.failed,
            total_ms=stats.total,
            self_ms=round(max(0.0, stats.total - self.covered), 3),
            p50_ms=stats.p50,
            p95_ms=stats.p95,
            max_ms=stats.max,
        )


class StallAggregator:
    """Delays of event loops."""

    shortest_cause = STALL_MS * CAUSE_SHARE

    def __init__(self) -> None:
        self.samples = 0
        self.total = 0
        self._largest: Slowest[LoopSample] = Slowest(1)
        self._stalls: Slowest[Stall] = Slowest(MAX_STALLS)

    def add(self, process: ProcessState, record: LoopSample, line_of: LineLookup) -> None:
        """Add a sample. If the loop has not run since the previous sample, its delay is reported later."""
        self.samples += 1
        delay = record.max_ms
        if not delay:
            return
        if delay >= self._largest.floor:
            self._largest.offer(delay, (record.timestamp, record.pid or 0), record)
        since, process.last_sample = process.last_sample, record.timestamp
        if delay >= STALL_MS:
            self.total += 1
            if delay >= self._stalls.floor:
                suspects = process.find_blocking_spans(
                    moment_before(since, delay), record.timestamp, delay * CAUSE_SHARE
                )
                stall = _stall(record, delay, suspects, line_of(record))
                self._stalls.offer(delay, (record.timestamp, record.pid or 0), stall)

    @property
    def largest(self) -> LoopDelay | None:
        for record in self._largest.items():
            return LoopDelay(
                max_ms=record.max_ms or 0.0,
                p99_ms=record.p99_ms,
                active=record.active_span_name,
                at=iso_from_datetime(record.timestamp),
                pid=record.pid,
            )
        return None

    def summary(self) -> list[Stall]:
        """Return the longest stalls, the longest first."""
        return self._stalls.items()


def _stall(record: LoopSample, delay: float, suspects: list[str], line: int) -> Stall:
    active = record.active_span_name
    cause = active if active in suspects else suspects[0] if len(suspects) == 1 else None
    return Stall(
        delay_ms=delay,
        at=iso_from_datetime(record.timestamp),
        pid=record.pid,
        line=line,
        active=active,
        cause=cause,
        suspects=[] if cause is not None else suspects[:MAX_SUSPECTS],
    )


class ProviderAggregator:
    """Requests to providers."""

    def __init__(self) -> None:
        self.durations = Durations()
        self.failed = 0
        self._slowest: Slowest[tuple[ProviderCall, int]] = Slowest(1)

    def add(self, record: ProviderCall, line_of: LineLookup) -> None:
        duration = record.duration_ms or 0.0
        self.durations.pending.append(duration)
        if record.ok is False:
            self.failed += 1
        if duration >= self._slowest.floor:
            order = (record.timestamp, record.pid or 0, agent_run_of_call(record) or "")
            self._slowest.offer(duration, order, (record, line_of(record)))

    def summary(self) -> ProviderFigures:
        stats = self.durations.stats()
        if not stats.samples:
            return ProviderFigures()
        return ProviderFigures(
            count=stats.samples,
            failed=self.failed,
            total_ms=stats.total,
            p50_ms=stats.p50,
            p95_ms=stats.p95,
            slowest=next((_request(*slowest) for slowest in self._slowest.items()), None),
        )


def _request(record: ProviderCall, line: int) -> ProviderRequest:
    return ProviderRequest(
        provider=record.provider,
        operation=record.operation,
        model=record.attributes.model if record.attributes is not None else None,
        duration_ms=record.duration_ms or 0.0,
        ok=record.ok,
        started_at=iso_from_datetime(record.timestamp),
        agent_run_id=agent_run_of_call(record),
        pid=record.pid,
        line=line,
    )


class ChildAggregator:
    """Child processes of OpenClaw that have ended."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self._slowest: Slowest[ChildProcess] = Slowest(1)
        self._failures: Slowest[ChildProcess] = Slowest(MAX_FAILURES)
        """The earliest ones."""

    def add(self, record: ChildExit, line_of: LineLookup) -> None:
        self.count += 1
        if record.exit_code or record.signal is not None:
            self.failed += 1
            failure = _child(record, line_of(record))
            self._failures.offer(-moment_ms(record), (-(record.pid or 0), failure.command or ""), failure)
        duration = record.duration_ms
        if duration is not None and duration >= self._slowest.floor:
            child = _child(record, line_of(record))
            self._slowest.offer(duration, (record.timestamp, record.pid or 0, child.command or ""), child)

    def summary(self) -> ChildFigures:
        slowest = next(iter(self._slowest.items()), None)
        return ChildFigures(count=self.count, failed=self.failed, slowest=slowest, failures=self._failures.items())


def _child(record: ChildExit, line: int) -> ChildProcess:
    return ChildProcess(
        command=_program_name(record.command),
        duration_ms=record.duration_ms,
        exit_code=record.exit_code,
        signal=record.signal[:MAX_SIGNAL_LENGTH] if record.signal is not None else None,
        ended_at=iso_from_datetime(record.timestamp),
        pid=record.pid,
        agent_run_id=record.attributes.run_id if record.attributes is not None else None,
        line=line,
    )


def _program_name(command: str | None) -> str | None:
    words = (command or "").split(maxsplit=1)
    return words[0].rpartition("/")[2][:80] if words else None


class _StagingTotals:
    """How often and how long the dependencies of one plugin were staged."""

    __slots__ = ("count", "dependencies", "failed", "longest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.total = 0.0
        self.longest = 0.0
        self.dependencies: int | None = None


class PluginAggregator:
    """Time spent on plugins: staging their dependencies and loading them."""

    def __init__(self) -> None:
        self._staging: dict[str | None, _StagingTotals] = {}
        self._loads: dict[tuple[str, int | None], PluginLoad] = {}

    def add_staging(self, record: Line) -> None:
        attributes, duration = record.attributes, record.duration_ms or 0.0
        plugin = attributes.plugin_id if attributes is not None else None
        staging = self._staging.get(plugin)
        if staging is None:
            full = len(self._staging) >= MAX_PLUGINS
            staging = self._staging.setdefault(None if full else plugin, _StagingTotals())
        staging.count += 1
        staging.failed += isinstance(record, SpanError)
        staging.total += duration
        staging.longest = max(staging.longest, duration)
        if attributes is not None and attributes.dependency_count is not None:
            staging.dependencies = max(staging.dependencies or 0, int(attributes.dependency_count))

    def add_mark(self, record: Mark) -> None:
        """Add a mark, which may be about loading a plugin; older versions use two marks for one load."""
        attributes = record.attributes
        if attributes is None or not record.name.startswith(_PLUGIN_MARK):
            return
        key = (record.name.removeprefix(_PLUGIN_MARK), record.pid)
        known = self._loads.get(key)
        if known is None and len(self._loads) >= MAX_PLUGINS:
            return
        load, register = attributes.load_ms, attributes.register_ms
        self._loads[key] = PluginLoad(
            plugin_id=key[0],
            load_ms=load if load is not None or known is None else known.load_ms,
            register_ms=register if register is not None or known is None else known.register_ms,
            pid=record.pid,
        )

    def staging(self) -> list[PluginStaging]:
        """Return the staging by plugin, the longest total first."""
        found = [
            PluginStaging(
                plugin_id=plugin,
                count=staging.count,
                failed=staging.failed,
                total_ms=round(staging.total, 3),
                max_ms=staging.longest,
                dependencies=staging.dependencies,
            )
            for plugin, staging in self._staging.items()
        ]
        return sorted(found, key=lambda staging: (-staging.total_ms, staging.plugin_id or ""))

    def loads(self) -> list[PluginLoad]:
        """Return the loads of plugins, the longest first."""
        return sorted(
            self._loads.values(),
            key=lambda load: (-(load.load_ms or 0) - (load.register_ms or 0), load.plugin_id, load.pid or 0),
        )
