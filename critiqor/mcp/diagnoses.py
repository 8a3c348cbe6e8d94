"""Verdicts for clients: of a sealed run from its diagnosis, of a run in progress from its events so far."""

from __future__ import annotations

from critiqor.errors import UsageError
from critiqor.live.diagnosis import LiveDiagnosis
from critiqor.live.verdict import LiveVerdict
from critiqor.mcp.answers import ShownDiagnosis, page_of, shown_finding, untrusted
from critiqor.model.diagnosis import count_claims
from critiqor.model.sanitize import sanitize_line
from critiqor.run.view import RunView
from critiqor.storage.coverage import CoverageCounter


def shown_diagnosis(view: RunView, offset: int, limit: int) -> ShownDiagnosis:
    """Return the verdict on a run with a page of its findings."""
    return _sealed(view, offset, limit) if view.is_sealed else _live(view, offset, limit)


def _sealed(view: RunView, offset: int, limit: int) -> ShownDiagnosis:
    diagnosis, verdict = view.require_diagnosis(), view.verdict
    assert verdict is not None, "it is there whenever the diagnosis is"
    cost = diagnosis.cost_analysis
    findings = diagnosis.failure_analysis.findings
    return ShownDiagnosis(
        run=view.run_id,
        is_live=False,
        as_of=diagnosis.generated_at,
        readiness=verdict.readiness,
        trust=verdict.trust,
        headline=untrusted(verdict.headline, 300),
        confidence=verdict.confidence,
        outcome=diagnosis.outcome.state,
        task=diagnosis.outcome.task.verdict,
        claims=count_claims(diagnosis.claims),
        cost_usd=cost.cost_usd,
        cost_is_estimated=cost.cost_is_estimated,
        tokens=cost.cost.tokens,
        model_calls=cost.model_calls,
        evidence=sanitize_line(view.integrity.explanation),
        findings=page_of(map(shown_finding, findings), offset, limit),
        findings_total=len(findings) + diagnosis.failure_analysis.left_out,
    )


def _live(view: RunView, offset: int, limit: int) -> ShownDiagnosis:
    if view.is_anonymous:
        fix = f"critiqor finalize {view.run_id}, then ask again"
        raise UsageError(f"{view.run_id} is anonymous and not finalized: it has no verdict to show yet", fix=fix)
    verdict = _verdict_so_far(view)
    return ShownDiagnosis(
        run=view.run_id,
        is_live=True,
        as_of=verdict.updated_at,
        readiness=verdict.readiness,
        trust=verdict.trust_score,
        headline=untrusted(verdict.headline, 300),
        cost_usd=verdict.cost_usd,
        cost_is_estimated=verdict.cost_is_estimated,
        tokens=verdict.tokens,
        model_calls=verdict.model_calls,
        tool_calls=verdict.tool_calls,
        findings=page_of((shown_finding(finding.as_finding()) for finding in verdict.findings), offset, limit),
        findings_total=len(verdict.findings) + verdict.findings_left_out,
    )


def _verdict_so_far(view: RunView) -> LiveVerdict:
    """Diagnose the events so far; `live.json` would be a little older, and an attached run without a guard has none."""
    counter = CoverageCounter()
    diagnosis = LiveDiagnosis(view.run_id, counter)
    for event in view.events():
        diagnosis.observe(event)
    return diagnosis.verdict()
