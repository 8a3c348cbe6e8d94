"""The rows of the index, as they are written and read. The tables `runs`, `sessions`, `findings`, `claims`, `costs`,
`tags` and `texts` have a column for each field."""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.fleet.manifest import DIGEST_LENGTH, Content, seal_digits
from critiqor.model.diagnosis import ClaimKind, ClaimStatus, OutcomeState, Readiness, Severity, TaskVerdict
from critiqor.model.record import Visibility
from critiqor.model.usage import Cost

TextKind = Literal["request", "answer", "finding", "claim"]
"""What is searched: the first message of the user, the last words of the agent, titles of findings, claims."""


class IndexedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed run of a host with the figures of its diagnosis by one rule set."""

    id: str
    """Made from tenant, host, run, seal and rule set, so that every writer makes the same one."""
    tenant: str
    host: str
    run: str
    """Id of the run on its host."""
    seal: str
    """`sha256:` followed by the digest of its evidence."""
    rule_set: str
    rule_order: str
    """The rule set in a form that sorts: the newest is the greatest."""
    agent: str
    framework: str
    visibility: Visibility
    benchmark: str
    difficulty: str
    created_at: str
    created_ms: int
    """When the run was created, in milliseconds since 1970."""
    day: str
    """The day when it was created, UTC: `2026-11-18`."""
    sealed_at: str
    events: int
    critiqor_version: str
    openclaw_version: str | None
    content: Content
    bundle_size: int
    """Size of its bundle in the store, in bytes."""
    trust: int | None
    confidence: int
    verdict: Readiness
    outcome: OutcomeState
    task: TaskVerdict
    headline: str
    sessions: str | None
    """The worst session, whose trust it is, and how the others are judged; null if there are not several."""
    sessions_total: int
    primary_type: str | None
    """Type of the finding to look at first; null if there is none."""
    findings: int
    """Number of findings of Critiqor's own detectors."""
    cost_usd: float | None
    cost_is_partial: bool
    cost_is_estimated: bool
    list_prices_date: str | None
    cost_calls: int
    """Model calls, as far as they are known; each agent run whose calls were not visible counts as one."""
    tokens: int
    tokens_are_known: bool
    """Whether `tokens` are all tokens, and not a lower bound."""
    model_calls: int
    tool_calls: int
    wall_ms: int | None
    is_profiled: bool
    """Whether deep profiling slowed the run down."""

    @property
    def name(self) -> str:
        """The name of the run in the fleet: `HOST/RUN`."""
        return f"{self.host}/{self.run}"

    @property
    def manifest_path(self) -> str:
        """The name of the object that holds its manifest."""
        return f"manifests/{self.host}/{self.run}-{seal_digits(self.seal)[:DIGEST_LENGTH]}.json"

    @property
    def cost(self) -> Cost:
        """The cost as every output shows it."""
        return Cost(self.cost_usd, self.cost_is_partial, self.cost_calls, self.tokens, self.cost_is_estimated)


class IndexedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one session of a run."""

    tenant: str
    run_id: str
    """`IndexedRun.id`, here and in the other tables."""
    place: int
    """Its place in the diagnosis, from 0: the worst comes first."""
    session_key: str | None
    trust: int | None
    verdict: Readiness
    task: TaskVerdict
    cost_usd: float | None
    cost_is_partial: bool
    cost_is_estimated: bool
    agent_runs: int
    findings: int


class IndexedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of a run."""

    tenant: str
    run_id: str
    place: int
    created_ms: int
    """When its run was created."""
    finding_id: str
    type: str
    cause: str
    severity: Severity
    confidence: int
    title: str
    session_key: str | None
    occurrences: int
    trust_points: int
    wasted_usd: float | None
    extension: str | None
    """Package of the extension that found it; null for Critiqor's own detectors."""


class IndexedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of an agent, checked."""

    tenant: str
    run_id: str
    place: int
    claim_id: str
    event_id: str
    session_key: str | None
    kind: ClaimKind
    status: ClaimStatus
    text: str
    reason: str


class IndexedCost(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one model in a run, counted on the day when the run was created."""

    tenant: str
    run_id: str
    place: int
    day: str
    provider: str | None
    model: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    cost_is_estimated: bool


class IndexedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is searched."""

    tenant: str
    run_id: str
    place: int
    created_ms: int
    kind: TextKind
    source: str
    """Id of the event, finding or claim that it comes from."""
    session_key: str | None
    text: str


class IndexedTag(msgspec.Struct, frozen=True, kw_only=True):
    """A tag that the user had given to a run when it was pushed."""

    tenant: str
    run_id: str
    place: int
    tag: str


IndexedPart = IndexedSession | IndexedFinding | IndexedClaim | IndexedCost | IndexedTag | IndexedText
"""A row that belongs to a row of `runs`."""
IndexedRow = IndexedRun | IndexedPart


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs counted together."""

    runs: int
    unsafe: int
    review: int
    unknown: int
    ready: int
    cost_usd: float | None
    """Sum of the known costs; null if none is known."""
    trust: float | None
    """Mean trust score; null if none is known."""


class HostSummary(RunCounts, frozen=True, kw_only=True):
    """The runs of one host, or of one agent, together."""

    name: str
    """The host, or the agent."""
    last_ms: int
    """When its newest run was created."""


class DaySummary(RunCounts, frozen=True, kw_only=True):
    """The runs of one day together."""

    day: str


class DayCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one model cost on one day."""

    day: str
    provider: str | None
    model: str | None
    model_calls: int
    tokens: int
    cost_usd: float | None
    """Sum of the known costs; null if none is known."""
    cost_is_estimated: bool
    """Whether a part of it was computed from list prices."""
    runs: int


class FailureType(msgspec.Struct, frozen=True, kw_only=True):
    """A failure type with its first occurrence in the fleet."""

    type: str
    first_ms: int
    """When the first run with it was created."""
    host: str
    run: str
    seal: str
    agent: str
    title: str
    """Title of its first finding."""
    runs: int
    """Number of runs with it since then."""


class TextHits(msgspec.Struct, frozen=True, kw_only=True):
    """A run that contains all words of a search."""

    run: IndexedRun
    matches: int
    texts: list[IndexedText]
    """The first few of the matching texts."""
