"""Figures of everything in a timeline that is counted: spans by name, event loop, providers, children, plugins."""

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
from critiqor.timeline.durations import Durations
from critiqor.timeline.reader.records import (
    ChildExit,
    Line,
    LoopSample,
    Mark,
    ProviderCall,
    SpanError,
    earlier,
    moment_ms,
)
from critiqor.timeline.spans import Slowest
from critiqor.timeline.turns.processes import Process, iso_of
from critiqor.timeline.turns.timeline_turns import run_of_call

STALL_MS = 100.0
"""A delay that people notice."""
ENOUGH = 0.9
"""Share of a delay that a span must have lasted to be its cause: both are measured with a grain of ten milliseconds."""
MOST_STALLS = 20
MOST_SUSPECTS = 3
MOST_PLUGINS = 200
MOST_FAILURES = 20
"""Failed child processes that are told one by one."""
MOST_OF_SIGNAL = 40
Meaning = Literal["staging", "preparation"]
LineOf = Callable[[Line], int]
"""Where a record of the block at hand stands in the file; asked for few of them, because it must be looked up."""
_PLUGIN_MARK = "plugins.gateway-load.plugin."


class SpanTally(Durations):
    """All closed spans of one name."""

    __slots__ = ("covered", "failed", "meaning")

    def __init__(self, meaning: Meaning | None) -> None:
        super().__init__()
        self.meaning = meaning
        """What they tell beside the time that they take."""
        self.covered = 0.0
        """What spans inside them took."""
        self.failed = 0

    def told(self, name: str) -> SpanFigures:
        figures = self.figures()
        return SpanFigures(
            name=name,
            count=figures.number,
            failed=self.failed,
            total_ms=figures.total,
            self_ms=round(max(0.0, figures.total - self.covered), 3),
            p50_ms=figures.p50,
            p95_ms=figures.p95,
            max_ms=figures.longest,
        )


class StallTally:
    """Delays of event loops."""

    shortest_cause = STALL_MS * ENOUGH

    def __init__(self) -> None:
        self.samples = 0
        self.total = 0
        self._largest: Slowest[LoopSample] = Slowest(1)
        self._stalls: Slowest[Stall] = Slowest(MOST_STALLS)

    def sampled(self, process: Process, record: LoopSample, line_of: LineOf) -> None:
        """One sample. A loop that did not turn since the last one has no delays to tell yet."""
        self.samples += 1
        delay = record.max_ms
        if not delay:
            return
        if delay >= self._largest.floor:
            self._largest.offer(delay, (record.timestamp, record.pid or 0), record)
        since, process.looped = process.looped, record.timestamp
        if delay >= STALL_MS:
            self.total += 1
            if delay >= self._stalls.floor:
                suspects = process.holding(earlier(since, delay), record.timestamp, delay * ENOUGH)
                stall = _stall(record, delay, suspects, line_of(record))
                self._stalls.offer(delay, (record.timestamp, record.pid or 0), stall)

    @property
    def largest(self) -> LoopDelay | None:
        for record in self._largest.items():
            return LoopDelay(
                max_ms=record.max_ms or 0.0,
                p99_ms=record.p99_ms,
                active=record.active_span_name,
                at=iso_of(record.timestamp),
                pid=record.pid,
            )
        return None

    def told(self) -> list[Stall]:
        """The longest first."""
        return self._stalls.items()


def _stall(record: LoopSample, delay: float, suspects: list[str], line: int) -> Stall:
    active = record.active_span_name
    cause = active if active in suspects else suspects[0] if len(suspects) == 1 else None
    return Stall(
        delay_ms=delay,
        at=iso_of(record.timestamp),
        pid=record.pid,
        line=line,
        active=active,
        cause=cause,
        suspects=[] if cause is not None else suspects[:MOST_SUSPECTS],
    )


class ProviderTally:
    """Requests to providers."""

    def __init__(self) -> None:
        self.durations = Durations()
        self.failed = 0
        self._slowest: Slowest[tuple[ProviderCall, int]] = Slowest(1)

    def took(self, record: ProviderCall, line_of: LineOf) -> None:
        duration = record.duration_ms or 0.0
        self.durations.pending.append(duration)
        if record.ok is False:
            self.failed += 1
        if duration >= self._slowest.floor:
            order = (record.timestamp, record.pid or 0, run_of_call(record) or "")
            self._slowest.offer(duration, order, (record, line_of(record)))

    def told(self) -> ProviderFigures:
        figures = self.durations.figures()
        if not figures.number:
            return ProviderFigures()
        return ProviderFigures(
            count=figures.number,
            failed=self.failed,
            total_ms=figures.total,
            p50_ms=figures.p50,
            p95_ms=figures.p95,
            slowest=next((_request(*slowest) for slowest in self._slowest.items()), None),
        )


def _request(record: ProviderCall, line: int) -> ProviderRequest:
    return ProviderRequest(
        provider=record.provider,
        operation=record.operation,
        model=record.attributes.model if record.attributes is not None else None,
        duration_ms=record.duration_ms or 0.0,
        ok=record.ok,
        started_at=iso_of(record.timestamp),
        agent_run_id=run_of_call(record),
        pid=record.pid,
        line=line,
    )


class ChildTally:
    """Processes that OpenClaw started and that have ended."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self._slowest: Slowest[ChildProcess] = Slowest(1)
        self._failures: Slowest[ChildProcess] = Slowest(MOST_FAILURES)
        """The first ones."""

    def ended(self, record: ChildExit, line_of: LineOf) -> None:
        self.count += 1
        if record.exit_code or record.signal is not None:
            self.failed += 1
            failure = _child(record, line_of(record))
            self._failures.offer(-moment_ms(record), (-(record.pid or 0), failure.command or ""), failure)
        duration = record.duration_ms
        if duration is not None and duration >= self._slowest.floor:
            child = _child(record, line_of(record))
            self._slowest.offer(duration, (record.timestamp, record.pid or 0, child.command or ""), child)

    def told(self) -> ChildFigures:
        slowest = next(iter(self._slowest.items()), None)
        return ChildFigures(count=self.count, failed=self.failed, slowest=slowest, failures=self._failures.items())


def _child(record: ChildExit, line: int) -> ChildProcess:
    return ChildProcess(
        command=_program(record.command),
        duration_ms=record.duration_ms,
        exit_code=record.exit_code,
        signal=record.signal[:MOST_OF_SIGNAL] if record.signal is not None else None,
        ended_at=iso_of(record.timestamp),
        pid=record.pid,
        agent_run_id=record.attributes.run_id if record.attributes is not None else None,
        line=line,
    )


def _program(command: str | None) -> str | None:
    words = (command or "").split(maxsplit=1)
    return words[0].rpartition("/")[2][:80] if words else None


class StagingTally:
    """Staging of the dependencies of one plugin."""

    __slots__ = ("count", "dependencies", "failed", "longest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.total = 0.0
        self.longest = 0.0
        self.dependencies: int | None = None


class PluginTally:
    """What plugins took: staging of their dependencies, and loading them."""

    def __init__(self) -> None:
        self._staging: dict[str | None, StagingTally] = {}
        self._loads: dict[tuple[str, int | None], PluginLoad] = {}

    def staged(self, record: Line) -> None:
        attributes, duration = record.attributes, record.duration_ms or 0.0
        plugin = attributes.plugin_id if attributes is not None else None
        staging = self._staging.get(plugin)
        if staging is None:
            full = len(self._staging) >= MOST_PLUGINS
            staging = self._staging.setdefault(None if full else plugin, StagingTally())
        staging.count += 1
        staging.failed += isinstance(record, SpanError)
        staging.total += duration
        staging.longest = max(staging.longest, duration)
        if attributes is not None and attributes.dependency_count is not None:
            staging.dependencies = max(staging.dependencies or 0, int(attributes.dependency_count))

    def marked(self, record: Mark) -> None:
        """A mark that may tell of loading a plugin; older versions tell it in two of them."""
        attributes = record.attributes
        if attributes is None or not record.name.startswith(_PLUGIN_MARK):
            return
        key = (record.name.removeprefix(_PLUGIN_MARK), record.pid)
        known = self._loads.get(key)
        if known is None and len(self._loads) >= MOST_PLUGINS:
            return
        load, register = attributes.load_ms, attributes.register_ms
        self._loads[key] = PluginLoad(
            plugin_id=key[0],
            load_ms=load if load is not None or known is None else known.load_ms,
            register_ms=register if register is not None or known is None else known.register_ms,
            pid=record.pid,
        )

    def staging_told(self) -> list[PluginStaging]:
        """Those that took the most time first."""
        told = [
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
        return sorted(told, key=lambda staging: (-staging.total_ms, staging.plugin_id or ""))

    def loads_told(self) -> list[PluginLoad]:
        """Those that took the most time first."""
        return sorted(
            self._loads.values(),
            key=lambda load: (-(load.load_ms or 0) - (load.register_ms or 0), load.plugin_id, load.pid or 0),
        )
