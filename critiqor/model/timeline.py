"""Structs of timing: the summary of OpenClaw's diagnostics timeline, two runs compared, repeated runs aggregated.

All durations are milliseconds, all times UTC in ISO 8601, unless a field says otherwise.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from critiqor.model.resources import ResourceUsage

NodeKind = Literal["span", "provider", "tool"]
Role = Literal["gateway", "agent", "command", "unknown"]
TurnSource = Literal["timeline", "recorder"]
TimingVerdict = Literal["slower", "faster", "noise", "too_few"]
ComparedKind = Literal["span", "provider"]
RepeatedKind = Literal["startup", "turn", "turn_part", "provider", "span"]


class LineProblem(msgspec.Struct, frozen=True):
    """Lines of the file with the same problem."""

    kind: str
    """A stable name, such as `torn_tail` or `unknown_field`."""
    what: str | None
    """The field, type or schema concerned; null if the kind is enough."""
    count: int
    lines: list[int]
    """The first few line numbers, from 1."""
    at_least: bool = False
    """Whether `count` is a lower bound: in a file with many unknown fields, not every line is searched for them."""


class SpanNode(msgspec.Struct, frozen=True, kw_only=True):
    """A span and the spans inside it."""

    name: str
    detail: str | None = None
    """Stage, plugin, model or tool, to distinguish spans of the same name."""
    kind: NodeKind = "span"
    """`span` of OpenClaw, `provider` request, or `tool` call, which only the recorder reports."""
    start_ms: float
    """Milliseconds since 1970."""
    duration_ms: float
    self_ms: float
    """Time that no child covers."""
    failed: bool = False
    by_time: bool = False
    """Whether it was placed in the tree by its times, because it reported no parent."""
    children: list[SpanNode] = msgspec.field(default_factory=list)
    """In the order of their starts."""
    more: int = 0
    """Number of omitted children, the shortest ones."""


class SlowSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One of the slowest spans."""

    name: str
    detail: str | None
    duration_ms: float
    self_ms: float
    started_at: str
    pid: int | None
    failed: bool


class SpanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All closed spans of one name. Quantiles of more than a few hundred spans are accurate within one percent."""

    name: str
    count: int
    failed: int
    total_ms: float
    self_ms: float
    """The total without the spans inside them."""
    p50_ms: float
    p95_ms: float
    max_ms: float


class LoopDelay(msgspec.Struct, frozen=True, kw_only=True):
    """The sample with the largest event-loop delay."""

    max_ms: float
    p99_ms: float | None
    active: str | None
    """The active span according to OpenClaw."""
    at: str
    pid: int | None


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A blocked event loop, and the span that blocked it."""

    delay_ms: float
    at: str
    """When it was measured; the loop was blocked at some time since the previous sample."""
    pid: int | None
    line: int
    """Line number in the file, from 1."""
    active: str | None
    """The active span according to OpenClaw; it can be too short to be the cause."""
    cause: str | None
    """The only innermost span that was long enough at that time; null if there is none or several."""
    suspects: list[str]
    """The possible causes, if there are several."""


class ProviderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a provider."""

    provider: str | None
    operation: str | None
    model: str | None
    duration_ms: float
    ok: bool | None
    started_at: str
    agent_run_id: str | None
    pid: int | None
    line: int
    """Line number in the file, from 1."""


class ProviderFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All requests to providers."""

    count: int = 0
    failed: int = 0
    total_ms: float = 0.0
    p50_ms: float | None = None
    p95_ms: float | None = None
    slowest: ProviderRequest | None = None


class ChildProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that OpenClaw started and that has ended."""

    command: str | None
    """The program without arguments, which can hold secrets."""
    duration_ms: float | None
    exit_code: int | None
    signal: str | None
    ended_at: str
    pid: int | None
    """The process that started it."""
    agent_run_id: str | None = None
    """The agent run that executed it; null if none did."""
    line: int
    """Line number in the file, from 1."""


class ChildFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All processes that OpenClaw started and that have ended."""

    count: int = 0
    failed: int = 0
    """Number that ended by a signal or with a non-zero exit code."""
    slowest: ChildProcess | None = None
    failures: list[ChildProcess] = msgspec.field(default_factory=list)
    """The first few that failed."""


class PluginStaging(msgspec.Struct, frozen=True, kw_only=True):
    """Staging of the runtime dependencies of one plugin."""

    plugin_id: str | None
    """Null if unknown."""
    count: int
    failed: int
    total_ms: float
    max_ms: float
    dependencies: int | None
    """The largest reported number of dependencies."""


class PluginLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How long a gateway took to load one plugin."""

    plugin_id: str
    load_ms: float | None
    register_ms: float | None
    pid: int | None


class OpenSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span whose end is not in the file."""

    name: str
    detail: str | None
    started_at: str
    age_ms: float
    """From its start to the last line of its process."""
    silent_ms: float
    """From that line to the end of the timeline; long for a process that hung or was killed."""
    pid: int | None


class TimelineProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process that wrote to the timeline."""

    pid: int | None
    """Null for lines without a pid."""
    role: Role
    """Derived from its spans: `gateway`, `agent` for a process that calls a model itself, else `command`."""
    first_at: str
    last_at: str
    events: int
    open_spans: int


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    """Startup of one process: its critical path."""

    pid: int | None
    role: Role
    ready: bool
    """Whether it reported that it was ready; otherwise the path ends at its first work or its last startup span."""
    line: int
    """Line number of its longest span, from 1."""
    path: SpanNode
    """The critical path: at each level only the children that delayed its end."""


class UnattributedGap(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a turn in which nothing recorded was in progress."""

    duration_ms: float
    after: str
    before: str


class TurnSplit(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of a turn by activity. The parts add up to its duration."""

    before_provider_ms: float = 0.0
    """Until the first request: preparation of session, tools and prompt."""
    with_provider_ms: float = 0.0
    """While at least one provider request was in progress."""
    in_tools_ms: float = 0.0
    """While a tool was running and no request was."""
    retrying_ms: float = 0.0
    """From a failed request to the next one."""
    between_ms: float = 0.0
    """Pauses of at most a quarter of a second around tools: OpenClaw's work from an answer to its tool, and from a
    result to the next request."""
    after_ms: float = 0.0
    """From the last request or tool to the end."""
    unattributed_ms: float = 0.0
    """The rest: time without any known activity."""
    gaps: list[UnattributedGap] = msgspec.field(default_factory=list)
    """The largest pieces of the rest."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Times of one agent run, which OpenClaw calls an agent turn: from the message to the end, with all attempts."""

    agent_run_id: str | None
    pid: int | None
    started_at: str
    duration_ms: float
    ended: bool
    """Whether its end was recorded; otherwise it lasts until its last known activity."""
    overlapped: bool = False
    """Whether another turn was prepared in the same process at the same time. OpenClaw does not distinguish them, so
    the start and the preparation can belong to the other turn."""
    sources: list[TurnSource]
    requests: int
    failed_requests: int
    tools: int = 0
    split: TurnSplit
    tree: SpanNode


class TimelineSummary(msgspec.Struct, kw_only=True):
    """Summary of a timeline, of bounded size."""

    present: bool
    unavailable: str | None = None
    """Why there is none."""
    profiled: bool = False
    """Whether the run was deeply profiled, which makes everything slower."""
    resources: ResourceUsage | None = None
    """Memory and CPU time of the processes; null if not sampled."""
    bytes: int = 0
    lines: int = 0
    """Lines that are not empty."""
    events: int = 0
    """Lines that could be read, including those of unknown types."""
    events_by_type: dict[str, int] = msgspec.field(default_factory=dict)
    parse_errors: int = 0
    """Lines that could not be read."""
    unreadable: list[LineProblem] = msgspec.field(default_factory=list)
    """The parse errors by kind."""
    irregular: list[LineProblem] = msgspec.field(default_factory=list)
    """Problems of lines that could be read; they are used as far as possible."""
    first_at: str | None = None
    last_at: str | None = None
    processes: list[TimelineProcess] = msgspec.field(default_factory=list)
    processes_total: int = 0
    slowest_spans: list[SlowSpan] = msgspec.field(default_factory=list)
    span_figures: list[SpanFigures] = msgspec.field(default_factory=list)
    """By name, the largest total first."""
    repeated_names: int = 0
    """Number of span names that occur more than once."""
    loop_samples: int = 0
    largest_loop_delay: LoopDelay | None = None
    stalls_total: int = 0
    stalls: list[Stall] = msgspec.field(default_factory=list)
    """The longest ones."""
    providers: ProviderFigures = msgspec.field(default_factory=ProviderFigures)
    children: ChildFigures = msgspec.field(default_factory=ChildFigures)
    staging: list[PluginStaging] = msgspec.field(default_factory=list)
    plugin_loads: list[PluginLoad] = msgspec.field(default_factory=list)
    open_spans_total: int = 0
    open_spans: list[OpenSpan] = msgspec.field(default_factory=list)
    """The oldest ones."""
    startups: list[Startup] = msgspec.field(default_factory=list)
    """Gateways first, then the slowest."""
    turns_total: int = 0
    turns: list[Turn] = msgspec.field(default_factory=list)
    """The slowest ones."""


class SpanComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All spans of one name, or all requests to providers, in two runs."""

    name: str
    kind: ComparedKind
    before: SpanFigures
    after: SpanFigures
    p50_ratio: float | None
    """Median after ÷ median before; null if the latter is 0."""
    p95_ratio: float | None
    least_ratio: float | None
    """Smallest significant factor by which the median can change; null with too few spans."""
    verdict: TimingVerdict
    """`noise` if the difference may be random, `too_few` if a run has too few spans."""


class TimingComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What became slower and what faster between two runs."""

    summary: str
    """One sentence; the reason if the runs cannot be compared."""
    comparable: bool
    profiled_before: bool
    profiled_after: bool
    """Whether a run was deeply profiled; such a run is compared only with another profiled one."""
    spans: list[SpanComparison] = msgspec.field(default_factory=list)
    """Slower ones first, then faster ones, then the rest; each by time spent."""
    only_before: list[str] = msgspec.field(default_factory=list)
    """Names that only one run has, by time spent."""
    only_after: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class RepeatedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of repeated runs: one value per run, and their distribution."""

    kind: RepeatedKind
    name: str
    runs: int
    """Runs that have a value."""
    median_ms: float
    p95_ms: float
    """Nearest rank: the maximum with fewer than twenty runs."""
    max_ms: float
    variance_ms2: float | None
    """Sample variance in square milliseconds; null for a single run."""


class RepeatedTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Timings of repeated runs."""

    runs: list[str]
    """Ids of the runs that are counted."""
    profiled: bool
    """Whether all of them were deeply profiled, or none."""
    figures: list[RepeatedFigures]
    notes: list[str] = msgspec.field(default_factory=list)


_LINE_ID = re.compile(r"timeline_(\d{7,})")


def line_id(line: int) -> str:
    """Return the id of a line in the model of a timeline; a finding has it where others have an event id."""
    return f"timeline_{line:07d}"


def line_of_id(identifier: str) -> int | None:
    """Return the number of the line of a timeline that an id in a diagnosis names; None for an event id."""
    found = _LINE_ID.fullmatch(identifier)
    return int(found[1]) if found else None
