"""The current verdict of a run that is being recorded, `runs/<run_id>/live.json`, which is replaced again and again."""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.model.diagnosis import Finding, Readiness, Severity
from critiqor.model.usage import Cost
from critiqor.run.store import Run
from critiqor.storage.atomic import open_regular_file, write_bytes

LIVE_SCHEMA = "critiqor.live.v1"
# v1: first version.
STOP_REQUESTED = "stop requested"
"""Result of a limit because of which a process or an agent run is ended; the evidence names how that went."""
MAX_BYTES = 4 << 20
"""Maximum size of a file that is read; those that are written are far smaller."""


class LiveFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of at least medium severity."""

    id: str
    """Stays the same while the run is recorded, unlike the numbers of findings in diagnosis.json."""
    type: str
    cause: str
    severity: Severity
    confidence: int
    title: str
    explanation: str
    recommendation: str
    session_key: str | None
    """Null for a failure of the process or the recording, which counts for every session."""
    agent_run_id: str | None
    occurrences: int
    first_event: str
    """Id of the event where it began; empty if none is cited."""
    last_event: str
    """Id of the last event that it cites; empty if none is cited."""

    def as_finding(self) -> Finding:
        """Return it as a finding of a diagnosis, as far as it is known, for what takes findings."""
        return Finding(
            id=self.id,
            type=self.type,
            cause=self.cause,
            severity=self.severity,
            confidence=self.confidence,
            title=self.title,
            explanation=self.explanation,
            evidence=[event for event in (self.first_event, self.last_event) if event],
            occurrences=self.occurrences,
            session_key=self.session_key,
            agent_run_id=self.agent_run_id,
            first_bad_step=self.first_event or None,
            recommendation=self.recommendation,
            verification="",
        )


class LiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """The current verdict of one session."""

    session_key: str | None
    number: int | None
    """Its place in the order in which sessions appear in the recording."""
    is_working: bool
    """Whether an agent run is under way."""
    agent_run_id: str | None
    """The latest agent run."""
    trust_score: int | None
    readiness: Readiness
    findings: list[str]
    """Ids of the findings that count for it, those of the process and the recording included."""
    model_calls: int
    tool_calls: int
    tokens: int
    cost_usd: float | None
    """Null if no price is known."""
    cost_is_partial: bool
    cost_is_estimated: bool
    last_words: str | None
    """The beginning of the agent's last message."""
    last_event_at: str | None
    """UTC, ISO 8601."""

    @property
    def cost(self) -> Cost:
        """The cost of the model calls of a session in the live verdict."""
        return Cost(self.cost_usd, self.cost_is_partial, self.model_calls, self.tokens, self.cost_is_estimated)


class LiveLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the policy that was exceeded."""

    name: str
    """Such as `repeats`."""
    action: Literal["notify", "stop"]
    text: str
    """What was exceeded, by how much, and where."""
    session_key: str | None
    agent_run_id: str | None
    event_id: str | None
    at: str
    """UTC, ISO 8601."""
    result: str | None = None
    """What became of stopping the agent run; null if nothing was stopped."""


def limit_facts(limit: LiveLimit) -> dict[str, str | None]:
    """Return what an event in the evidence takes from the verdict on an exceeded limit, besides its text."""
    place = {"session_key": limit.session_key, "agent_run_id": limit.agent_run_id, "event_id": limit.event_id}
    return {"limit": limit.name, **place}


def stop_result(failure: str | None) -> str:
    """Return what the verdict says about the stop of an agent run, given why that failed, if it did."""
    return "Critiqor had its agent run aborted" if failure is None else f"its agent run was not stopped: {failure}"


class LiveVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run so far."""

    schema_version: str = LIVE_SCHEMA
    run_id: str
    updated_at: str
    """UTC, ISO 8601."""
    state: Literal["recording", "ended"]
    """`ended`: no more events will come, and the verdict is that of the complete recording."""
    events: int
    """Number of events that it is based on."""
    trust_score: int | None
    """That of the worst session; null if no agent was observed."""
    readiness: Readiness
    headline: str | None
    """Title of the finding to look at first; null if there is none."""
    model_calls: int
    tool_calls: int
    tokens: int
    cost_usd: float | None
    cost_is_partial: bool
    cost_is_estimated: bool
    sessions: list[LiveSession]
    """The worst first, then those with the latest events."""
    sessions_left_out: int
    findings: list[LiveFinding]
    """Those of at least medium severity, the worst first."""
    findings_left_out: int
    limits: list[LiveLimit]
    """Limits that were exceeded, in order."""
    announced: list[str] = []
    """Ids of the findings that were announced and not withdrawn."""

    @property
    def cost(self) -> Cost:
        """The cost of all model calls."""
        return Cost(self.cost_usd, self.cost_is_partial, self.model_calls, self.tokens, self.cost_is_estimated)

    @property
    def announced_findings(self) -> list[LiveFinding]:
        """The findings that are certain enough to be announced, the worst first."""
        known = set(self.announced)
        return [finding for finding in self.findings if finding.id in known]


def write_live(run: Run, verdict: LiveVerdict) -> None:
    """Replace live.json. It is not synced to the disk: it can be made again from the journal."""
    write_bytes(run.paths.live_path(run.id), msgspec.json.encode(verdict), synced=False)


def read_live(run: Run) -> LiveVerdict | None:
    """Read live.json; None if there is none that can be read."""
    try:
        with open_regular_file(run.paths.live_path(run.id)) as file:
            data = file.read(MAX_BYTES)
        return msgspec.json.decode(data, type=LiveVerdict)
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


class LiveFile:
    """live.json of one run, read again only after it was replaced."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._as_of: tuple[int, int] | None = None
        self.verdict: LiveVerdict | None = None
        """The latest verdict; None if there is none."""

    def update(self) -> LiveVerdict | None:
        """Return the latest verdict in the file of a run in progress if it is a new one, else None."""
        try:
            found = self._run.paths.live_path(self._run.id).stat()
        except OSError:
            return None
        as_of = (found.st_ino, found.st_mtime_ns)
        if as_of == self._as_of:
            return None
        self._as_of = as_of
        verdict = read_live(self._run)
        self.verdict = verdict or self.verdict
        return verdict
