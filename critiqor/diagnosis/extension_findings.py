"""Adds the findings of extensions to a diagnosis: listed, but without effect on trust and verdict."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from critiqor.diagnosis.scoring import trust_points
from critiqor.model import DetectorRun, Diagnosis, FailureAnalysis, Finding, FindingOrigin
from critiqor.model.diagnosis import severity_rank

MAX_FINDINGS = 100
"""Maximum number of listed findings of extensions."""


def add_extensions(diagnosis: Diagnosis, runs: Sequence[tuple[DetectorRun, Sequence[Finding]]]) -> Diagnosis:
    """Return the diagnosis with the outcomes of the detectors of extensions, and their findings after all others.

    Apart from these two lists, it is the diagnosis that Critiqor's own detectors made.
    """
    found = [(run, finding) for run, findings in runs for finding in findings]
    found.sort(key=lambda pair: (severity_rank(pair[1].severity), pair[0].package, pair[1].cause))
    own = diagnosis.failure_analysis.findings
    added = [_added(run, each, number) for number, (run, each) in enumerate(found[:MAX_FINDINGS], len(own) + 1)]
    left_out = diagnosis.failure_analysis.left_out + len(found) - len(added)
    return replace(
        diagnosis, failure_analysis=FailureAnalysis([*own, *added], left_out), extensions=[run for run, _ in runs]
    )


def _added(run: DetectorRun, finding: Finding, number: int) -> Finding:
    return replace(
        finding,
        id=f"finding_{number:03d}",
        confidence=max(0, min(100, finding.confidence)),
        impact=replace(finding.impact, trust_points=0),
        extension=FindingOrigin(
            package=run.package, version=run.version, trust_points=trust_points(finding.type, finding.severity, 100)
        ),
    )
