"""Structs of the diagnosis: findings with their evidence, outcome, scores, analyses and playbook."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from critiqor.model.timeline import TimelineSummary
from critiqor.model.usage import CostAnalysis

DIAGNOSIS_SCHEMA = "critiqor.diagnosis.v1"
# v1: first version; `extensions`, and `extension` of a finding, were added later, and so were `claims`, `sessions`,
# `sessions_left_out` and `outcome.task`. `session_key` and `agent_run_id` of a finding were members of `scope` before.

Severity = Literal["critical", "high", "medium", "low", "info"]
Readiness = Literal["ready", "review", "unsafe", "unknown"]
Relation = Literal["precedes", "caused", "retried", "ignored", "contradicted", "exhausted"]
OutcomeState = Literal["completed", "failed", "interrupted", "timed_out", "still_running", "unknown"]
TaskVerdict = Literal["achieved", "partly", "not_achieved", "unknown"]
ClaimKind = Literal["check", "action", "inspection", "value", "quote", "completeness"]
ClaimStatus = Literal["supported", "contradicted", "unsupported", "unverifiable"]

SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""From most to least severe."""
READINESSES: tuple[Readiness, ...] = ("unsafe", "unknown", "review", "ready")
"""From worst to best."""


def severity_rank(severity: Severity) -> int:
    """Return the position of a severity: 0 for the highest one."""
    return SEVERITIES.index(severity)


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a finding."""

    trust_points: int = 0
    """Points of trust lost; those of the findings of a session add up to what the session lost."""
    wasted_tokens: int | None = None
    """Tokens spent on the cited events after the first; null if no usage was reported."""
    wasted_usd: float | None = None
    """The same in US dollars; null if no price is known."""
    wasted_usd_is_estimated: bool = False
    """Whether a part of `wasted_usd` was computed from list prices."""
    wasted_ms: int | None = None
    """Milliseconds spent on them; null if not measured."""


class CausalStep(msgspec.Struct, frozen=True):
    """One step of a causal chain."""

    event_id: str
    happened: str
    """Short description of the event."""
    relation: Relation | None = None
    """How the previous step led to this one; null for the first."""


class FindingOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The extension whose detector found a failure."""

    package: str
    version: str
    trust_points: int
    """Points of trust that the finding would cost if it counted; `critiqor check` counts it if the policy says so."""


class DetectorRun(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one detector of an extension."""

    package: str
    version: str
    detector: str
    """Its name: the failure type that it detects."""
    state: Literal["ok", "failed", "timed out"]
    reason: str | None = None
    """Why it has no findings; null where the state is `ok`."""
    findings: int = 0

    @property
    def problem(self) -> str | None:
        """What the diagnosis of a run says went wrong with a detector of an extension; None if nothing did."""
        if self.state == "ok":
            return None
        return f"detector {self.detector} of {self.package} {self.version} {self.state}: {self.reason}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One detected failure."""

    id: str = ""
    """Id within this diagnosis, such as `finding_001`; the worst comes first."""
    type: str
    """Stable failure type, such as `process_failure`."""
    cause: str
    """Type, tool and kind of error; the same in every run with this failure, so that runs can be compared by it."""
    severity: Severity
    confidence: int
    """0 to 100: how certain the finding is, given this evidence."""
    title: str
    explanation: str
    """What happened, and why it counts as a failure."""
    evidence: list[str]
    """Ids of the events that prove it, in order; if there are many, only the first and last few."""
    occurrences: int = 1
    """Number of occurrences; `evidence` holds only a few of them."""
    session_key: str | None = None
    """Session where it happened; null for agent runs without a session, and for a failure of the process or recording,
    which counts for every session."""
    agent_run_id: str | None = None
    """Agent run where it happened, that of the worst occurrence if there are several; null for a failure of the process
    or recording."""
    first_bad_step: str | None = None
    """Id of the event where the failure began."""
    causal_chain: list[CausalStep] = msgspec.field(default_factory=list)
    impact: Impact = Impact()
    recommendation: str
    """What to change."""
    verification: str
    """How to check that the change worked."""
    extension: FindingOrigin | None = None
    """The extension that found it; null for Critiqor's own detectors. It changes neither trust nor verdict."""

    @property
    def is_of_recording(self) -> bool:
        """Whether it is about the process or the recording, and therefore counts for every session."""
        return self.session_key is None and self.agent_run_id is None

    @property
    def type_label(self) -> str:
        """The type, and for a finding of an extension its package and version."""
        origin = self.extension
        return self.type if origin is None else f"{self.type} (extension {origin.package} {origin.version})"

    @property
    def trust_cost(self) -> int:
        """The points of trust that it costs; for a finding of an extension, those that it would cost if it counted."""
        return self.impact.trust_points if self.extension is None else self.extension.trust_points

    @property
    def first_event(self) -> str:
        """The id of the event or timeline line where it began to go wrong; empty where nothing is cited."""
        return self.first_bad_step or next(iter(self.evidence), "")

    @property
    def cited_events(self) -> list[str]:
        """The ids of everything it cites, each once: where it began, its causal chain, its evidence."""
        first = [self.first_bad_step] if self.first_bad_step else []
        return list(dict.fromkeys([*first, *(step.event_id for step in self.causal_chain), *self.evidence]))


class FailureAnalysis(msgspec.Struct, frozen=True):
    """All findings, the worst first; after them those of extensions, likewise."""

    findings: list[Finding]
    left_out: int = 0
    """Number of findings beyond the first few hundred, which are not listed. None of them costs a listed session trust,
    and none is the worst finding of one."""

    @property
    def own_findings(self) -> list[Finding]:
        """The findings of Critiqor's own detectors, on which trust and verdict are based."""
        return [finding for finding in self.findings if finding.extension is None]

    def describe_hidden(self, shown: int) -> str | None:
        """Return how many findings of a diagnosis follow the first `shown` ones, as a text; None if there are none."""
        hidden = self.findings[shown:]
        if not hidden:
            return None
        # Those of extensions come last, whatever their severity.
        comparison = ", none of them more severe" if all(each.extension is None for each in hidden) else ""
        return f"and {len(hidden)} more{comparison}"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the agent asserts about its work or about what it saw, checked against the recording."""

    id: str = ""
    """Id within this diagnosis, such as `claim_001`, in the order in which the claims were made."""
    session_key: str | None = None
    agent_run_id: str | None = None
    event_id: str
    """The event that contains it: a message of the agent, or a tool call that writes a text for others."""
    start: int
    """Position of its first character in the text of that event."""
    end: int
    """Position after its last character."""
    text: str
    kind: ClaimKind
    status: ClaimStatus
    reason: str
    """Why it has this status, in one sentence."""
    evidence: list[str] = msgspec.field(default_factory=list)
    """Ids of the events that decide the status; empty where nothing was recorded about it."""


def count_claims(claims: list[Claim]) -> dict[ClaimStatus, int]:
    """Return the number of claims of a diagnosis by status; all four statuses are there."""
    counts: dict[ClaimStatus, int] = dict.fromkeys(get_args(ClaimStatus), 0)
    for claim in claims:
        counts[claim.status] += 1
    return counts


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the agent did what it was asked to do. Whether its words can be believed is a matter of trust."""

    verdict: TaskVerdict = "unknown"
    known_from: str = "nothing that was recorded decides it"
    evidence: list[str] = msgspec.field(default_factory=list)
    """Ids of the events that decide it."""


class Outcome(msgspec.Struct, frozen=True):
    """How the run ended, and how that is known."""

    state: OutcomeState
    known_from: str
    cut_short: bool | None = None
    """Whether an agent was working when the recording ended or its process was stopped; null in an older diagnosis."""
    task: TaskOutcome = TaskOutcome()
    """Whether the task was done; that of the worst session if there are several."""

    @property
    def has_finished(self) -> bool:
        """Whether this outcome is an end: the run was observed to its end, and its agents were not cut off."""
        if self.state in ("completed", "failed"):
            return self.cut_short is not True
        # Stopping a gateway, or sealing it while it is idle, interrupts nothing: its agents had finished.
        return self.state in ("interrupted", "still_running") and self.cut_short is False


class PrimaryDiagnosis(msgspec.Struct, frozen=True):
    """The finding to look at first."""

    type: str
    finding_id: str
    severity: Severity
    title: str


class GraphNode(msgspec.Struct, frozen=True):
    """A finding, or an event that a finding cites."""

    id: str
    """Id of the event or finding."""
    kind: Literal["event", "finding"]
    label: str


class GraphEdge(msgspec.Struct, frozen=True):
    """A causal relation between two nodes."""

    source: str
    target: str
    relation: Relation


class CausalGraph(msgspec.Struct, frozen=True):
    """The findings, the events that they cite, and how these are related."""

    nodes: list[GraphNode] = msgspec.field(default_factory=list)
    edges: list[GraphEdge] = msgspec.field(default_factory=list)


class MemoryAnalysis(msgspec.Struct, kw_only=True):
    """Memory lookups of the run."""

    lookups: int = 0
    found: int = 0
    empty: int = 0
    failed: int = 0
    repeated_queries: int = 0
    """Lookups of something that was looked up before in the same agent run."""


class SlowCall(msgspec.Struct, frozen=True):
    """One of the slowest calls."""

    event_id: str
    name: str
    duration_ms: int


class LatencyAnalysis(msgspec.Struct, kw_only=True):
    """Time spent in calls. Calls can overlap, so the parts can exceed the whole."""

    wall_ms: int | None = None
    """Wall time in milliseconds: from launch to end of the process where it was supervised, else from the first to the
    last event of an agent."""
    model_ms: int = 0
    tool_ms: int = 0
    slowest_first_byte_ms: int | None = None
    slowest: list[SlowCall] = msgspec.field(default_factory=list)


class RequestSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of one request to a model."""

    event_id: str
    request_bytes: int | None = None
    input_tokens: int | None = None
    """All input tokens: uncached, read from the cache and written to it."""
    budget_tokens: int | None = None
    saturation: float | None = None
    """Share of the budget; above 1 is over the budget."""


class ContextAnalysis(msgspec.Struct, kw_only=True):
    """Request sizes compared with the context budget."""

    requests: list[RequestSize] = msgspec.field(default_factory=list)
    """In order; evenly sampled if there are more than a few hundred, always including the largest."""
    requests_total: int = 0
    peak_saturation: float | None = None
    over_budget: int = 0
    compactions: int = 0
    largest_result_bytes: int | None = None
    largest_result_event: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One recommended change."""

    finding_id: str
    change: str
    verify: str
    reason: str | None = None
    """Why it comes before the change for the primary diagnosis; null if it does not."""


class Playbook(msgspec.Struct, frozen=True, kw_only=True):
    """Recommended changes."""

    changes: list[Change]
    """In the recommended order."""
    prompt: str | None
    """Prompt for a coding assistant to make them; null if nothing about the agent should change."""


class SessionDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one session of a recording. A gateway has many."""

    session_key: str | None
    """Null for agent runs without a session."""
    number: int | None = None
    """Its place in the order in which sessions appear in the evidence, from 1; anonymized views name it by this number.
    Null for agent runs without a session."""
    agent_runs: list[str]
    """Ids of its agent runs, in order of start; the first and last few if there are many."""
    agent_runs_total: int = 0
    trust_score: int | None
    """0 to 100: 100 minus the points of its findings; null without evidence."""
    readiness: Readiness
    task: TaskOutcome = TaskOutcome()
    cost_usd: float | None = None
    """US dollars of its model calls; null if no price is known."""
    cost_is_partial: bool = False
    """Whether a part of the cost is unknown, so that `cost_usd` is a lower bound."""
    cost_is_estimated: bool = False
    """Whether a part of `cost_usd` was computed from list prices, because no price was reported."""
    findings: list[str] = msgspec.field(default_factory=list)
    """Ids of its listed findings, the worst first, with those of the process and the recording."""


class DiagnosisCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules could not read of what was recorded; the coverage of the evidence says what was not recorded."""

    answers: int = 0
    """Answers of agents whose language was examined: of a long recording, a part of them."""
    answers_not_understood: int = 0
    """Answers in a language whose words are not known, so that hardly any claim in them was checked."""
    answers_not_checked: int = 0
    """Answers, with the work they report on, that could not be checked because of an error in a check."""
    notes: list[str] = msgspec.field(default_factory=list)
    """The same facts, as sentences."""


class ContractResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one contract of the policy that a run was diagnosed with."""

    id: str
    definition: dict[str, Any]
    """The contract as in the policy, so that the run can be diagnosed again in the same way."""
    violations: int
    not_evaluated: int = 0
    """How often an expression could not be evaluated, because an event had no such key or a value of another type."""
    problem: str | None = None
    """The expression and the reason, the first time; null if all could be evaluated."""
    problem_event: str | None = None
    """The event on which it could not be evaluated."""

    @property
    def holds(self) -> bool:
        """Whether the diagnosis knows that the contract is not violated."""
        return not self.violations and not self.not_evaluated

    @property
    def note(self) -> str | None:
        """A sentence about what could not be evaluated; None if all could be."""
        if not self.not_evaluated:
            return None
        times = "once" if self.not_evaluated == 1 else f"{self.not_evaluated:,} times"
        where = f"the contract {self.id} could not be evaluated {times}"
        return f"{where}, first on {self.problem_event}: {self.problem}"


class Diagnosis(msgspec.Struct, kw_only=True):
    """The diagnosis of the sealed evidence of one run."""

    schema_version: str = DIAGNOSIS_SCHEMA
    run_id: str
    generated_at: str
    engine_version: str
    rule_set_version: str
    """Changes whenever the same evidence can lead to a different diagnosis."""
    evidence_digest: str
    outcome: Outcome
    trust_score: int | None
    """0 to 100; null without evidence."""
    confidence_score: int
    """0 to 100, from the coverage of the evidence."""
    confidence_lost: dict[str, int]
    """Points of confidence lost, by reason."""
    coverage: DiagnosisCoverage = DiagnosisCoverage()
    readiness: Readiness
    headline: str
    """The diagnosis in one sentence."""
    primary_diagnosis: PrimaryDiagnosis | None
    sessions: list[SessionDiagnosis] = msgspec.field(default_factory=list)
    """The sessions of the recording, the worst first: the trust of the run is that of the first one, and its readiness
    is the worst of any session."""
    sessions_left_out: dict[Readiness, int] = msgspec.field(default_factory=dict)
    """Number of sessions by readiness that are not listed because there are too many; none has less trust than those
    that are listed."""
    claims: list[Claim] = msgspec.field(default_factory=list)
    """What the agents assert, in order, checked against the recording."""
    failure_analysis: FailureAnalysis
    causal_graph: CausalGraph
    cost_analysis: CostAnalysis
    memory_analysis: MemoryAnalysis
    latency_analysis: LatencyAnalysis
    context_analysis: ContextAnalysis
    timeline: TimelineSummary | None = None
    """Timing from OpenClaw's diagnostics timeline and the recorder; null if it was not analyzed."""
    playbook: Playbook
    extensions: list[DetectorRun] = msgspec.field(default_factory=list)
    """The detectors of installed extensions that ran, and those that failed; empty if none is installed."""
    contracts: list[ContractResult] = msgspec.field(default_factory=list)
    """The contracts that were checked; empty without a policy that has any."""

    @property
    def has_several_sessions(self) -> bool:
        """Whether the recording has more than one session, so that outputs have to name them."""
        return len(self.sessions) > 1

    @property
    def sessions_total(self) -> int:
        """The number of sessions, listed or not."""
        return len(self.sessions) + sum(self.sessions_left_out.values())

    @property
    def costly_findings(self) -> list[Finding]:
        """The findings by which the run lost trust: those of its worst session."""
        findings = [finding for finding in self.failure_analysis.findings if finding.impact.trust_points]
        if not self.sessions:
            return findings
        counting = set(self.sessions[0].findings)
        return [finding for finding in findings if finding.id in counting]

    @property
    def wall_time_ms(self) -> int | None:
        """The time of the run from launch to end in milliseconds; None if unknown.

        Uses launch and end of the process if it was supervised, else the first and last event of the agent.
        """
        return self.latency_analysis.wall_ms


class BriefSession(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a `SessionDiagnosis` that a list of runs shows."""

    session_key: str | None
    readiness: Readiness


class BriefDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a diagnosis that a list of runs shows. Decoding only these takes a fraction of the time."""

    run_id: str
    evidence_digest: str
    outcome: Outcome
    trust_score: int | None
    confidence_score: int
    readiness: Readiness
    headline: str
    sessions: list[BriefSession] = msgspec.field(default_factory=list)
    sessions_left_out: dict[Readiness, int] = msgspec.field(default_factory=dict)
    cost_analysis: CostAnalysis

    @property
    def has_several_sessions(self) -> bool:
        """Whether the recording has more than one session."""
        return len(self.sessions) > 1
