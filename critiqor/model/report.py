"""What reporters take: a run with its diagnosis, its policy results, its citations, its events or its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.event import Event
from critiqor.model.evidence import Coverage
from critiqor.model.record import Cut, Metadata, RunHead, Seal, Status, Timestamps, Transition
from critiqor.model.timeline import TimelineSummary
from critiqor.model.verdict import Check, Integrity, Verdict, verdict_on

REPORT_SCHEMA = "critiqor.report.v1"
# v1: integrity of the evidence, head of the record, coverage of the evidence, diagnosis.


class ReportedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run record that reports contain: which run it is, whose, when, and what was sealed."""

    run_id: str
    status: Status
    lifecycle: list[Transition]
    timestamps: Timestamps
    metadata: Metadata
    cut: Cut | None = None
    seal: Seal | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Agent and time of a run, and its diagnosis or why there is no usable one."""

    run_id: str
    created_at: str | None = None
    """UTC, ISO 8601; null where the record cannot be read."""
    metadata: Metadata | None = None
    """Null where the record cannot be read."""
    diagnosis: Diagnosis | None = None
    """Null if there is none, or if it no longer matches the evidence."""
    undiagnosed: str | None = None
    """Why there is no diagnosis."""
    fix: str | None = None
    """What to type to get one."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the coverage of its evidence, and its diagnosis."""

    schema_version: str = REPORT_SCHEMA
    evidence: Integrity
    """Whether the evidence is still what was sealed. Where it is not, `diagnosis.readiness` is `unknown`, and its
    headline says why."""
    run: ReportedRun
    coverage: Coverage | None
    """Null where session.json is missing or was changed since it was sealed."""
    diagnosis: Diagnosis

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run, as far as the evidence proves it."""
        return verdict_on(self.diagnosis, self.evidence)


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rule."""

    rule: str
    """The key of the policy."""
    limit: bool | int | float | str | list[str]
    actual: bool | int | float | str | list[str] | None
    """Null where it is unknown, or where there is nothing to compare with the limit."""
    passed: bool
    explanation: str
    is_estimated: bool = False
    """Whether `actual` is a cost of which a part was computed from list prices."""


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run passes its policy."""

    run_id: str
    passed: bool
    rules: list[RuleResult]
    sessions: str | None = None
    """The worst session, whose trust is that of the run, and how the others are judged; null if there are not several,
    or if the evidence is not intact."""
    checks: list[Check] = msgspec.field(default_factory=list)
    """What was checked for `require_intact` and `require_signed`, and what could not be checked."""

    @property
    def checked(self) -> str:
        """A line for reports: which parts of the run were checked, and which were not."""
        named = {"passed": "", "failed": " (failed)"}
        done = [f"{check.name}{named[check.state]}" for check in self.checks if check.state in named]
        rest = [check.name for check in self.checks if check.state not in named]
        return f"checked: {', '.join(done) or 'nothing'}" + (f"; not checked: {', '.join(rest)}" if rest else "")


class GateReport(NamedTuple):
    """A report with the result of applying a policy to the run."""

    report: RunReport
    gate: GateResult


class TimedReport(NamedTuple):
    """A report with the timing of the run."""

    report: RunReport
    timing: TimelineSummary


class Rule(msgspec.Struct, frozen=True):
    """Description of one failure type, independent of any run."""

    meaning: str
    """In a few words."""
    help: str
    """What the detector looks at, its thresholds and its blind spots; Markdown."""


class Citation(NamedTuple):
    """The file and line of an event, or of a line of the timeline."""

    file: str
    """Path that starts with the name of the runs folder, with slashes."""
    line: int | None
    """From 1; null where the file could not be read."""


class CitedReport(NamedTuple):
    """A report with the file and line of everything that it cites."""

    report: RunReport
    rules: dict[str, Rule]
    """Every failure type, in order of rank."""
    citations: dict[str, Citation]
    """Citations by the event ids that findings name."""
    evidence: Citation
    """The evidence document, for findings that cite nothing."""
    version: str
    """Version of Critiqor."""


class Recorded(NamedTuple):
    """The events of a run, one by one, and its diagnosis."""

    run: RunHead
    events: Iterable[Event]
    """In the order in which they happened; can be iterated once."""
    diagnosis: Diagnosis | None
    """Null where there is none yet. Its trust score is null where the evidence is not intact."""
    moments: dict[str, int]
    """Times of the timeline lines that findings cite, by id; microseconds since 1970."""
    meanings: dict[str, str]
    """Meaning of every failure type, used instead of the texts of findings where content is left out."""
    version: str
    """Version of Critiqor."""
    content: bool = False
    """Whether arguments, outputs and messages are included, or only names, ids and numbers."""


class BundledFile(NamedTuple):
    """One file of a bundle."""

    name: str
    size: int
    read: Callable[[], Iterable[bytes]]
    """Reads its content in pieces."""


class Bundle(NamedTuple):
    """Files that are packed together."""

    name: str
    """Name of the folder that contains them."""
    files: list[BundledFile]
