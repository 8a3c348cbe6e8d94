"""The diagnosis: what went wrong, with the events that prove it."""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.model.timeline import TimelineSummary

DIAGNOSIS_SCHEMA = "critiqor.diagnosis.v1"
# v1: first form.

Severity = Literal["critical", "high", "medium", "low", "info"]
Readiness = Literal["ready", "review", "unsafe", "unknown"]
Relation = Literal["precedes", "caused", "retried", "ignored", "contradicted", "exhausted"]
OutcomeState = Literal["completed", "failed", "interrupted", "timed_out", "still_running", "unknown"]

SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""The worst first."""


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """What a finding cost."""

    trust_points: int = 0
    """Points of trust lost to it; those of all findings add up to what is missing from 100."""
    wasted_tokens: int | None = None
    """Tokens spent on the steps it cites beyond the first; null where no usage was told."""
    wasted_usd: float | None = None
    """The same in money; null where no price was told."""
    wasted_ms: int | None = None
    """Time spent on them in milliseconds; null where it was not measured."""


class CausalStep(msgspec.Struct, frozen=True):
    """One step of the way that a failure took."""

    event_id: str
    happened: str
    """What happened there, in a few words."""
    relation: Relation | None = None
    """How the step before it led to this one; null at the first."""


class Scope(msgspec.Struct, frozen=True):
    """Where in a recording: one gateway holds many sessions, and a session many agent runs."""

    session_key: str | None = None
    agent_run_id: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong."""

    id: str = ""
    """Its name within this diagnosis, such as `finding_001`; the worst comes first."""
    type: str
    """A stable name, such as `process_failure`."""
    cause: str
    """What it is about, the same in every run that has it: type, tool and kind of error. Runs are compared by it."""
    severity: Severity
    confidence: int
    """0 to 100: how sure this is, given that the evidence is what it is."""
    title: str
    explanation: str
    """In plain words: what happened, and why it counts as a failure."""
    evidence: list[str]
    """Ids of the events that prove it, in order; the first and the last few where there are many."""
    occurrences: int = 1
    """How often it happened; `evidence` does not hold more than a few."""
    scope: Scope = Scope()
    """Whose failure it is; both null for one of the process or of the recording."""
    first_bad_step: str | None = None
    """Id of the event where it began to go wrong."""
    causal_chain: list[CausalStep] = msgspec.field(default_factory=list)
    impact: Impact = Impact()
    recommendation: str
    """What to change."""
    verification: str
    """How to see that the change worked."""


class FailureAnalysis(msgspec.Struct, frozen=True):
    """Everything that went wrong, the worst first."""

    findings: list[Finding]
    left_out: int = 0
    """Findings beyond the first few hundred, which are not listed; none of them costs a point of trust."""


class Outcome(msgspec.Struct, frozen=True):
    """What happened at the end, and how we know."""

    state: OutcomeState
    known_from: str
    cut_short: bool | None = None
    """Whether an agent was at work when the recording ended, or was stopped with its process; null where a diagnosis
    from before does not tell."""


class PrimaryDiagnosis(msgspec.Struct, frozen=True):
    """The one problem to look at first."""

    type: str
    finding_id: str
    severity: Severity
    title: str


class GraphNode(msgspec.Struct, frozen=True):
    """An event that a finding needs, or a finding."""

    id: str
    """The event's id, or the finding's."""
    kind: Literal["event", "finding"]
    label: str


class GraphEdge(msgspec.Struct, frozen=True):
    """What led to what."""

    source: str
    target: str
    relation: Relation


class CausalGraph(msgspec.Struct, frozen=True):
    """Only what the findings need, so that it reads as an explanation."""

    nodes: list[GraphNode] = msgspec.field(default_factory=list)
    edges: list[GraphEdge] = msgspec.field(default_factory=list)


class Usage(msgspec.Struct, kw_only=True):
    """Tokens and money of some model calls, as the provider told them."""

    model_calls: int = 0
    failed_model_calls: int = 0
    model_calls_without_usage: int = 0
    """Answered calls whose usage was not told: the sums below lack them."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    """Null where no price was told, or only one of 0 for what was used: unknown, not nothing."""


class ModelUsage(Usage, kw_only=True):
    """What one model cost."""

    provider: str | None
    model: str | None


class TurnUsage(Usage, kw_only=True):
    """What one agent run cost."""

    scope: Scope
    tool_calls: int = 0


class ToolUsage(msgspec.Struct, kw_only=True):
    """How one tool was used."""

    tool: str
    calls: int = 0
    failed: int = 0
    repeated: int = 0
    """Calls with the same arguments as one before, in the same agent run."""
    duration_ms: int = 0
    tokens: int | None = None
    """Of the model calls that asked for it; what one spent that asked for several is split evenly. Null where none of
    them told it."""
    cost_usd: float | None = None
    """The same in money."""


class CostAnalysis(Usage, kw_only=True):
    """What the run cost, and how much of it bought nothing."""

    tool_calls: int = 0
    failed_tool_calls: int = 0
    repeated_tool_calls: int = 0
    provider_retries: int = 0
    wasted_tokens: int | None = None
    """Tokens that findings call wasted, each counted once."""
    wasted_usd: float | None = None
    per_model: list[ModelUsage] = msgspec.field(default_factory=list)
    per_tool: list[ToolUsage] = msgspec.field(default_factory=list)
    per_turn: list[TurnUsage] = msgspec.field(default_factory=list)
    """One entry an agent run, the most expensive first; the first hundred."""


class MemoryAnalysis(msgspec.Struct, kw_only=True):
    """How memory was used."""

    lookups: int = 0
    found: int = 0
    empty: int = 0
    failed: int = 0
    repeated_queries: int = 0
    """Lookups of what had been looked up before in the same agent run."""


class SlowCall(msgspec.Struct, frozen=True):
    """One of the slowest calls."""

    event_id: str
    name: str
    duration_ms: int


class LatencyAnalysis(msgspec.Struct, kw_only=True):
    """Where the time went, as far as calls tell it; calls can overlap, so the parts can exceed the whole."""

    wall_ms: int | None = None
    """Wall time in milliseconds: from launch to end of the process where it was supervised, else from the first to the
    last event of an agent."""
    model_ms: int = 0
    tool_ms: int = 0
    slowest_first_byte_ms: int | None = None
    slowest: list[SlowCall] = msgspec.field(default_factory=list)


class RequestSize(msgspec.Struct, frozen=True, kw_only=True):
    """How large one request to a model was."""

    event_id: str
    request_bytes: int | None = None
    input_tokens: int | None = None
    """Everything that the model read: fresh, cached and written to the cache."""
    budget_tokens: int | None = None
    saturation: float | None = None
    """Share of the budget that was used; over 1 is over the budget."""


class ContextAnalysis(msgspec.Struct, kw_only=True):
    """Request size against the budget, call by call."""

    requests: list[RequestSize] = msgspec.field(default_factory=list)
    """In order; evenly thinned out where there are more than a few hundred, the fullest always among them."""
    requests_total: int = 0
    peak_saturation: float | None = None
    over_budget: int = 0
    compactions: int = 0
    largest_result_bytes: int | None = None
    largest_result_event: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change to make."""

    finding_id: str
    change: str
    verify: str
    reason: str | None = None
    """Why it comes before the change for the primary diagnosis; null where it does not."""


class Playbook(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about it."""

    changes: list[Change]
    """In the order in which to make them."""
    prompt: str | None
    """Everything a coding assistant needs to make them; null where nothing about the agent is to be changed."""


class Diagnosis(msgspec.Struct, kw_only=True):
    """Everything that is concluded from one run's sealed evidence."""

    schema_version: str = DIAGNOSIS_SCHEMA
    run_id: str
    generated_at: str
    engine_version: str
    rule_set_version: str
    """Changes whenever the same evidence can be judged differently."""
    evidence_digest: str
    outcome: Outcome
    trust_score: int | None
    """0 to 100; null where there is no evidence to trust or distrust."""
    confidence_score: int
    """0 to 100, from what the recorder saw and did not see."""
    confidence_lost: dict[str, int]
    """Points of confidence lost, by reason."""
    readiness: Readiness
    headline: str
    """The diagnosis in one sentence."""
    primary_diagnosis: PrimaryDiagnosis | None
    failure_analysis: FailureAnalysis
    causal_graph: CausalGraph
    cost_analysis: CostAnalysis
    memory_analysis: MemoryAnalysis
    latency_analysis: LatencyAnalysis
    context_analysis: ContextAnalysis
    timeline: TimelineSummary | None = None
    """What OpenClaw's diagnostics timeline and the recorder say about timing; null where nobody looked."""
    playbook: Playbook
