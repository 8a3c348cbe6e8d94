"""Reports of runs, made by hand, for tests of the formats in which they are written."""

from __future__ import annotations

from typing import Any

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.model import Coverage, Diagnosis, Metadata, Seal, Timestamps, iso_from_ms
from critiqor.model.report import Citation, CitedReport, GateReport, ReportedRun, Rule, RunReport
from critiqor.model.verdict import Integrity
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import DEFAULT_POLICY

HOSTILE = (
    "<script>alert(1)</script> [x](javascript:alert(1)) ![y](http://evil/z) `code` | cell |\r\n## title\n- item "
    "::set-output name=a::b ##[add-mask]c @everyone #12 GH-3 https://evil.example/a www.evil.example "
    "\x1b[31m\u202e\x00 ]]> --> <!-- & 100% a:b,c"
)
"""A text with markup, commands, links and control characters."""
COMPLETE = Coverage()
INTACT = Integrity(state="intact", explanation="the evidence is unchanged since sealing")
CHANGED = Integrity(state="changed", explanation="the evidence was changed after sealing: session.json was changed")


def report(concluded: Diagnosis, coverage: Coverage | None = COMPLETE, **metadata: Any) -> RunReport:
    """Return the report of a run with this diagnosis."""
    created = iso_from_ms(1_794_000_000_000)
    head = ReportedRun(
        run_id=concluded.run_id,
        status="COMPLETED",
        lifecycle=[],
        timestamps=Timestamps(created_at=created),
        metadata=Metadata(**metadata),
        seal=Seal(digest=concluded.evidence_digest, bytes=1, events=7, sealed_at=created),
    )
    return RunReport(evidence=INTACT, run=head, coverage=coverage, diagnosis=concluded)


def gated(concluded: Diagnosis, **metadata: Any) -> GateReport:
    """Return the same with the results of the default policy."""
    return GateReport(report(concluded, **metadata), apply_policy(DEFAULT_POLICY, concluded, INTACT))


def cited(run_report: RunReport, **citations: Citation) -> CitedReport:
    """Return the report with the places of the events that it cites."""
    rules = {type_: Rule(meaning, f"{meaning}\n\n- **Looks at** it") for type_, meaning in FAILURE_TYPES.items()}
    evidence = Citation("runs/run_001/session.json", None)
    return CitedReport(run_report, rules, citations, evidence, "1.2.3")
