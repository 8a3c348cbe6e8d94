"""The rows of the exported tables, from the manifest, the diagnosis and the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.cost import COST_EVENTS, Ledger
from critiqor.fleet.manifest import Manifest
from critiqor.model.diagnosis import Diagnosis
from critiqor.model.event import Event
from critiqor.model.timestamps import ms_from_iso

Row = dict[str, Any]
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class DatedRow(NamedTuple):
    """A row of a table, and the day that it belongs to."""

    day: str
    row: Row


def event_rows(manifest: Manifest, events: Iterable[Event], *, with_content: bool) -> Iterator[DatedRow]:
    """Yield a row for each event of a run, of the day on which it happened.

    An event whose time is unknown, or not one of the run, belongs to the day on which the run was created.
    """
    ledger = Ledger(lists_turns=False)
    usual = day_of(manifest)
    last = _day(ms_from_iso(manifest.sealed_at) or 0)
    run = _run_columns(manifest)
    for event in events:
        moment = ms_from_iso(event.timestamp)
        row = {
            **run,
            "event_id": event.event_id,
            "time": moment,
            "session_key": event.session_key,
            "agent_run_id": event.agent_run_id,
            "type": event.event_type,
            "tool": event.tool_name,
            "tool_call_id": event.tool_call_id,
            "status": event.status,
            "duration_ms": event.duration_ms,
            **_usage(event, ledger),
        }
        if with_content:
            row |= {"error": event.error, "payload": msgspec.json.encode(event.payload).decode()}
        day = usual if moment is None else _day(moment)
        yield DatedRow(day if usual <= day <= last else usual, row)


def _usage(event: Event, ledger: Ledger) -> Row:
    """Return what an event adds to the usage of its run, by the rules of the diagnosis: the sums are the same."""
    if event.event_type not in COST_EVENTS or event.source_layer == "supervisor":
        return {}
    total = ledger.total
    before = {name: getattr(total, name) for name in (*_TOKENS, "cost_usd")}
    ledger.observe(event)
    row: Row = {name: added for name in _TOKENS if (added := getattr(total, name) - before[name])}
    if total.cost_usd is not None and total.cost_usd != before["cost_usd"]:
        row["cost_usd"] = round(total.cost_usd - (before["cost_usd"] or 0.0), 9)
    names = {name: event.payload.get(name) for name in ("provider", "model")}
    return row | {name: value for name, value in names.items() if isinstance(value, str)}


def run_row(manifest: Manifest, diagnosis: Diagnosis, *, with_content: bool) -> Row:
    """Return the row of a run."""
    cost = diagnosis.cost_analysis
    about = manifest.metadata
    row = {
        **_run_columns(manifest),
        "agent_id": about.agent_id,
        "tenant_id": about.tenant_id,
        "visibility": about.visibility,
        "created_at": ms_from_iso(manifest.timestamps.created_at),
        "sealed_at": ms_from_iso(manifest.sealed_at),
        "events": manifest.events,
        "critiqor_version": manifest.critiqor_version,
        "openclaw_version": manifest.openclaw_version,
        "rule_set": diagnosis.rule_set_version,
        "verdict": diagnosis.readiness,
        "trust": diagnosis.trust_score,
        "confidence": diagnosis.confidence_score,
        "outcome": diagnosis.outcome.state,
        "task": diagnosis.outcome.task.verdict,
        "sessions": diagnosis.sessions_total,
        "findings": len(diagnosis.failure_analysis.own_findings) + diagnosis.failure_analysis.left_out,
        "model_calls": cost.model_calls,
        "tool_calls": cost.tool_calls,
        **{name: getattr(cost, name) for name in _TOKENS},
        "cost_usd": cost.cost_usd,
        "cost_is_partial": cost.cost.is_partial,
        "wall_ms": diagnosis.latency_analysis.wall_ms,
    }
    return row | ({"headline": diagnosis.headline} if with_content else {})


def finding_rows(manifest: Manifest, diagnosis: Diagnosis, *, with_content: bool) -> Iterator[Row]:
    """Yield the rows of the listed findings of a run."""
    run = _diagnosed_columns(manifest, diagnosis)
    for finding in diagnosis.failure_analysis.findings:
        row = {
            **run,
            "finding_id": finding.id,
            "session_key": finding.session_key,
            "agent_run_id": finding.agent_run_id,
            "type": finding.type,
            "cause": finding.cause,
            "severity": finding.severity,
            "confidence": finding.confidence,
            "occurrences": finding.occurrences,
            "first_event": finding.first_event or None,
            "trust_points": finding.impact.trust_points,
            "wasted_tokens": finding.impact.wasted_tokens,
            "wasted_usd": finding.impact.wasted_usd,
            "wasted_ms": finding.impact.wasted_ms,
            "extension": finding.extension.package if finding.extension is not None else None,
        }
        yield row | ({"title": finding.title, "explanation": finding.explanation} if with_content else {})


def claim_rows(manifest: Manifest, diagnosis: Diagnosis, *, with_content: bool) -> Iterator[Row]:
    """Yield the rows of the claims of a run."""
    run = _diagnosed_columns(manifest, diagnosis)
    for claim in diagnosis.claims:
        row = {
            **run,
            "claim_id": claim.id,
            "session_key": claim.session_key,
            "agent_run_id": claim.agent_run_id,
            "event_id": claim.event_id,
            "kind": claim.kind,
            "status": claim.status,
        }
        yield row | ({"text": claim.text, "reason": claim.reason} if with_content else {})


def day_of(manifest: Manifest) -> str:
    """Return the day of the rows of a run: that on which it was created, in UTC."""
    return _day(ms_from_iso(manifest.timestamps.created_at) or 0)


def _run_columns(manifest: Manifest) -> Row:
    return {"run_id": manifest.run_id, "seal": manifest.seal}


def _diagnosed_columns(manifest: Manifest, diagnosis: Diagnosis) -> Row:
    about = {"agent_id": manifest.metadata.agent_id, "rule_set": diagnosis.rule_set_version}
    return {**_run_columns(manifest), **about}


def _day(moment: int) -> str:
    return datetime.fromtimestamp(moment // 1000, UTC).date().isoformat()
