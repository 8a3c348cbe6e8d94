"""The report of a run: everything that is told of it to people and to other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.event import Event
from critiqor.model.evidence import Coverage
from critiqor.model.gate import GateResult
from critiqor.model.integrity import Proof
from critiqor.model.record import Cut, Metadata, Seal, Status, Timestamps, Transition

REPORT_SCHEMA = "critiqor.report.v1"
# v1: whether the evidence is what was sealed, the head of the record, the coverage of the evidence and the diagnosis.


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a run record: which run it is, whose, when, and what was sealed."""

    run_id: str
    status: Status
    lifecycle: list[Transition]
    timestamps: Timestamps
    metadata: Metadata
    cut: Cut | None = None
    seal: Seal | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is, when it was, and what was concluded from it; or why nothing was."""

    run_id: str
    created_at: str | None = None
    """UTC, ISO 8601; null where the record cannot be read."""
    metadata: Metadata | None = None
    """Null where the record cannot be read."""
    diagnosis: Diagnosis | None = None
    undiagnosed: str | None = None
    """Why there is no diagnosis."""
    fix: str | None = None
    """What to type to get one."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run, what the recorder saw of it, and what was concluded."""

    schema_version: str = REPORT_SCHEMA
    evidence: Proof
    """Whether the evidence is still what was sealed. Where it is not, `diagnosis.readiness` is `unknown`, and its
    headline says why."""
    run: RunHead
    coverage: Coverage | None
    """Null where session.json is gone or was changed since it was sealed."""
    diagnosis: Diagnosis


class GateReport(NamedTuple):
    """A run held against a policy."""

    report: RunReport
    gate: GateResult


class Rule(msgspec.Struct, frozen=True):
    """What is known of one type of failure, whatever the run."""

    meaning: str
    """In a few words."""
    help: str
    """What it looks at, its thresholds and its blind spots; Markdown."""


class Citation(NamedTuple):
    """Where an event, or a line of the timeline, is written down."""

    file: str
    """Beginning with the name of the runs folder, with slashes."""
    line: int | None
    """From 1; null where the file could not be read."""


class CitedReport(NamedTuple):
    """A report with the places of everything that it cites."""

    report: RunReport
    rules: dict[str, Rule]
    """Every type of failure, in the order of their rank."""
    citations: dict[str, Citation]
    """By the ids that findings name."""
    evidence: Citation
    """The evidence itself, for what cites nothing."""
    version: str
    """Of Critiqor."""


class Recorded(NamedTuple):
    """What was recorded of a run, event by event, and what was concluded from it."""

    run: RunHead
    events: Iterable[Event]
    """In their true order; they can be looked at once."""
    diagnosis: Diagnosis | None
    """Null where there is none yet."""
    moments: dict[str, int]
    """When those lines of the timeline were that findings name, by id; microseconds since 1970."""
    meanings: dict[str, str]
    """Every type of failure with what it means in any run, which is told of findings where content is not."""
    version: str
    """Of Critiqor."""
    content: bool = False
    """Whether arguments, outputs and messages are told, or only names, ids and figures."""


class BundledFile(NamedTuple):
    """One file of a bundle."""

    name: str
    size: int
    read: Callable[[], Iterable[bytes]]
    """Its content, piece by piece."""


class Bundle(NamedTuple):
    """Files that belong together."""

    name: str
    """Of the folder that they are put into."""
    files: list[BundledFile]
