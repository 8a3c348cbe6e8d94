"""The timeline: what OpenClaw's own diagnostics say about where the time went.

All durations are milliseconds, all times UTC in ISO 8601, unless a field says otherwise.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from critiqor.model.formatting import format_duration
from critiqor.model.resources import ResourceUsage

NodeKind = Literal["span", "provider", "tool"]
Role = Literal["gateway", "agent", "command", "unknown"]
TurnSource = Literal["timeline", "recorder"]


class LineProblem(msgspec.Struct, frozen=True):
    """Lines of the file that share one problem."""

    kind: str
    """A stable name, such as `torn_tail` or `unknown_field`."""
    what: str | None
    """The field, type or schema that it is about; null where the kind says all."""
    count: int
    lines: list[int]
    """The first few line numbers, from 1."""


class SpanNode(msgspec.Struct, frozen=True, kw_only=True):
    """A span with what happened inside it."""

    name: str
    detail: str | None = None
    """Which of the spans of that name: its stage, plugin, model or tool."""
    kind: NodeKind = "span"
    """`span` of OpenClaw, request to a `provider`, or `tool` call, which only the recorder sees."""
    start_ms: float
    """Milliseconds since 1970."""
    duration_ms: float
    self_ms: float
    """What none of the children covers."""
    failed: bool = False
    by_time: bool = False
    """No parent was told: it stands where its times put it."""
    children: list[SpanNode] = msgspec.field(default_factory=list)
    """In the order of their starts."""
    more: int = 0
    """Children left out, the shortest ones."""


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
    """All closed spans of one name. Quantiles of more than a few hundred are true within one percent."""

    name: str
    count: int
    failed: int
    total_ms: float
    self_ms: float
    """The total without what spans inside them took."""
    p50_ms: float
    p95_ms: float
    max_ms: float


class LoopDelay(msgspec.Struct, frozen=True, kw_only=True):
    """The sample with the largest event-loop delay."""

    max_ms: float
    p99_ms: float | None
    active: str | None
    """The span that OpenClaw says was active."""
    at: str
    pid: int | None


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """An event loop that stood still for long, and the span that held it."""

    delay_ms: float
    at: str
    """When it was measured; the loop stood still at some moment since the sample before."""
    pid: int | None
    line: int
    """Where in the file it was told, from 1."""
    active: str | None
    """The span that OpenClaw says was active; it can be too short to be the cause."""
    cause: str | None
    """The one innermost span that was long enough at the right time; null where none or several were."""
    suspects: list[str]
    """The spans that could have been it, where there were several."""


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
    """Where in the file it was told, from 1."""


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
    """The program alone: arguments can hold secrets."""
    duration_ms: float | None
    exit_code: int | None
    signal: str | None
    ended_at: str
    pid: int | None
    """The process that had started it."""
    agent_run_id: str | None = None
    """Whose command it was, where an agent ran it."""
    line: int
    """Where in the file it was told, from 1."""


class ChildFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All processes that OpenClaw started and that have ended."""

    count: int = 0
    failed: int = 0
    """Those that ended by a signal or with another exit code than 0."""
    slowest: ChildProcess | None = None
    failures: list[ChildProcess] = msgspec.field(default_factory=list)
    """The first few that failed."""


class PluginStaging(msgspec.Struct, frozen=True, kw_only=True):
    """Staging of the runtime dependencies of one plugin."""

    plugin_id: str | None
    """Null for stagings that do not say whose they are."""
    count: int
    failed: int
    total_ms: float
    max_ms: float
    dependencies: int | None
    """The largest number of dependencies that one of them told."""


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
    """From that line to the end of the timeline: a process that was stuck or killed says nothing more."""
    pid: int | None


class TimelineProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process that wrote to the timeline."""

    pid: int | None
    """Null for lines that do not say whose they are."""
    role: Role
    """Guessed from its spans: `gateway`, `agent` for one that asks a model itself, `command` for any other one."""
    first_at: str
    last_at: str
    events: int
    open_spans: int


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    """How one process came up: the steps that nothing else could have gone on without."""

    pid: int | None
    role: Role
    ready: bool
    """Whether it said that it was ready; otherwise this goes to its first work, or to its last step of start-up."""
    line: int
    """Where in the file its longest step was told, from 1."""
    path: SpanNode
    """The critical path: at each level only the children that the end of it waited for."""


class UnattributedGap(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a turn in which nothing that was recorded went on."""

    duration_ms: float
    after: str
    before: str


class TurnSplit(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a turn went. The parts add up to its duration."""

    before_provider_ms: float = 0.0
    """Until the first request: preparation of session, tools and prompt."""
    with_provider_ms: float = 0.0
    """While at least one request to a provider was under way."""
    in_tools_ms: float = 0.0
    """While a tool was running and no request was."""
    retrying_ms: float = 0.0
    """From a failed request to the next one."""
    between_ms: float = 0.0
    """Short pauses around tools: OpenClaw's own work from an answer to its tool, and from a result to the next request.
    A pause that is longer than a quarter of a second is not taken for that."""
    after_ms: float = 0.0
    """From the last request or tool to the end."""
    unattributed_ms: float = 0.0
    """The rest: time for which nothing is known."""
    gaps: list[UnattributedGap] = msgspec.field(default_factory=list)
    """The largest pieces of the rest."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of an agent: from the message to the end of the work on it, with all attempts."""

    agent_run_id: str | None
    pid: int | None
    started_at: str
    duration_ms: float
    ended: bool
    """Whether its end was seen. One that was not seen lasts until the last that is known of it."""
    overlapped: bool = False
    """Another turn was prepared in the same process at the same time, and OpenClaw did not tell them apart: the start
    and the preparation can be the other one's."""
    sources: list[TurnSource]
    requests: int
    failed_requests: int
    tools: int = 0
    split: TurnSplit
    tree: SpanNode


class TimelineSummary(msgspec.Struct, kw_only=True):
    """What a timeline tells, in bounded space whatever its length."""

    present: bool
    unavailable: str | None = None
    """Why there is none."""
    profiled: bool = False
    """Whether the run was deeply profiled: everything took longer than it does otherwise."""
    resources: ResourceUsage | None = None
    """Memory and CPU of the processes of the run; null where nobody looked."""
    bytes: int = 0
    lines: int = 0
    """Lines that are not empty."""
    events: int = 0
    """Lines that could be read, those of unknown types among them."""
    events_by_type: dict[str, int] = msgspec.field(default_factory=dict)
    parse_errors: int = 0
    """Lines that could not be read."""
    unreadable: list[LineProblem] = msgspec.field(default_factory=list)
    """The parse errors by kind."""
    irregular: list[LineProblem] = msgspec.field(default_factory=list)
    """What was odd about lines that could be read; they are used as far as possible."""
    first_at: str | None = None
    last_at: str | None = None
    processes: list[TimelineProcess] = msgspec.field(default_factory=list)
    processes_total: int = 0
    slowest_spans: list[SlowSpan] = msgspec.field(default_factory=list)
    span_figures: list[SpanFigures] = msgspec.field(default_factory=list)
    """By name, those that took the most time first."""
    repeated_names: int = 0
    """Span names that were seen more than once."""
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


_LINE_ID = re.compile(r"timeline_(\d{7,})")


def line_id(line: int) -> str:
    """How a line of the timeline is cited, as an event is by its id."""
    return f"timeline_{line:07d}"


def cited_line(cited: str) -> int | None:
    """The line of the timeline that is cited; None for an event."""
    found = _LINE_ID.fullmatch(cited)
    return int(found[1]) if found else None


spent = format_duration
"""The name by which detectors import the formatter of durations."""
