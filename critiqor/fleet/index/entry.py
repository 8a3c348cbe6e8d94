"""What is indexed of a run: its manifest, a diagnosis and texts of its conversations, and the rows made from them."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, TypeVar

import msgspec

from critiqor.comparison.figures import was_profiled
from critiqor.fleet.index.rows import (
    IndexedClaim,
    IndexedCost,
    IndexedFinding,
    IndexedRow,
    IndexedRun,
    IndexedSession,
    IndexedTag,
    IndexedText,
)
from critiqor.fleet.index.texts import SearchText, diagnosis_texts
from critiqor.fleet.manifest import Manifest, rule_set_order
from critiqor.model.diagnosis import Diagnosis
from critiqor.model.formatting import format_sessions
from critiqor.model.timestamps import iso_from_ms, ms_from_iso

MAX_NAME = 300
"""Maximum number of characters of a session key, a cause or another name."""
MAX_LINE = 500
"""Maximum number of characters of a title, a headline, a claim or a reason."""
MAX_ROWS = 500
"""Maximum number of sessions, findings or claims of a run that are indexed: the worst or first ones."""


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One diagnosis of a sealed run, for the index."""

    manifest: Manifest
    diagnosis: Diagnosis
    texts: tuple[SearchText, ...] = ()
    """Requests and answers of its conversations; nothing of a run of which only the structure was pushed."""
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The id of its row in the table `runs`."""
        return entry_key(self.manifest, self.diagnosis.rule_set_version)

    @property
    def sealed_key(self) -> str:
        """The id of the sealed run, whatever the rule set."""
        return _sealed_key(self.manifest)


class EntryRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one entry."""

    run: IndexedRun
    sessions: list[IndexedSession]
    findings: list[IndexedFinding]
    claims: list[IndexedClaim]
    costs: list[IndexedCost]
    tags: list[IndexedTag]
    texts: list[IndexedText]


def entry_key(manifest: Manifest, rule_set: str) -> str:
    """Return the id of the row in the table `runs` for a diagnosis of a run."""
    return _key(_sealed_key(manifest), rule_set)


def _sealed_key(manifest: Manifest) -> str:
    return _key(manifest.metadata.tenant_id, manifest.host_id, manifest.run_id, manifest.seal)


def rule_order(rule_set: str) -> str:
    """Return the rule set of an entry as a text that sorts like `rule_set_order`: its numbers have leading zeros."""
    return ".".join(f"{number:05}" for number in rule_set_order(rule_set))


def rows_of(entry: IndexEntry) -> EntryRows:
    """Return an entry of the index as rows. Raise `ValueError` if the diagnosis is not one of the sealed evidence."""
    manifest, diagnosis = entry.manifest, entry.diagnosis
    if diagnosis.evidence_digest != manifest.seal:
        raise ValueError(f"the diagnosis of {manifest.name} is one of other evidence")
    run = _run_row(entry)
    own: dict[str, Any] = {"tenant": run.tenant, "run_id": run.id}
    texts = (*entry.texts, *diagnosis_texts(diagnosis)) if manifest.content == "full" else ()
    return EntryRows(
        run=run,
        sessions=[
            _cleaned(
                IndexedSession(
                    **own,
                    place=place,
                    session_key=_name(each.session_key),
                    trust=each.trust_score,
                    verdict=each.readiness,
                    task=each.task.verdict,
                    cost_usd=each.cost_usd,
                    cost_is_partial=each.cost_is_partial,
                    cost_is_estimated=each.cost_is_estimated,
                    agent_runs=each.agent_runs_total,
                    findings=len(each.findings),
                )
            )
            for place, each in enumerate(diagnosis.sessions[:MAX_ROWS])
        ],
        findings=[
            _cleaned(
                IndexedFinding(
                    **own,
                    place=place,
                    created_ms=run.created_ms,
                    finding_id=each.id,
                    type=each.type[:MAX_NAME],
                    cause=each.cause[:MAX_NAME],
                    severity=each.severity,
                    confidence=each.confidence,
                    title=each.title[:MAX_LINE],
                    session_key=_name(each.session_key),
                    occurrences=each.occurrences,
                    trust_points=each.trust_cost,
                    wasted_usd=each.impact.wasted_usd,
                    extension=_name(each.extension.package) if each.extension is not None else None,
                )
            )
            for place, each in enumerate(diagnosis.failure_analysis.findings[:MAX_ROWS])
        ],
        claims=[
            _cleaned(
                IndexedClaim(
                    **own,
                    place=place,
                    claim_id=each.id,
                    event_id=each.event_id[:MAX_NAME],
                    session_key=_name(each.session_key),
                    kind=each.kind,
                    status=each.status,
                    text=each.text[:MAX_LINE],
                    reason=each.reason[:MAX_LINE],
                )
            )
            for place, each in enumerate(diagnosis.claims[:MAX_ROWS])
        ],
        costs=[
            _cleaned(
                IndexedCost(
                    **own,
                    place=place,
                    day=run.day,
                    provider=_name(each.provider),
                    model=_name(each.model),
                    model_calls=each.model_calls,
                    input_tokens=each.input_tokens,
                    output_tokens=each.output_tokens,
                    cache_read_tokens=each.cache_read_tokens,
                    cache_write_tokens=each.cache_write_tokens,
                    cost_usd=each.cost_usd,
                    cost_is_estimated=each.cost_is_estimated,
                )
            )
            for place, each in enumerate(diagnosis.cost_analysis.per_model[:MAX_ROWS])
        ],
        tags=[_cleaned(IndexedTag(**own, place=place, tag=tag[:MAX_NAME])) for place, tag in enumerate(entry.tags)],
        texts=[
            _cleaned(
                IndexedText(
                    **own,
                    place=place,
                    created_ms=run.created_ms,
                    kind=each.kind,
                    source=each.source[:MAX_NAME],
                    session_key=_name(each.session_key),
                    text=each.text,
                )
            )
            for place, each in enumerate(texts)
        ],
    )


def _run_row(entry: IndexEntry) -> IndexedRun:
    manifest, diagnosis = entry.manifest, entry.diagnosis
    metadata, usage, primary = manifest.metadata, diagnosis.cost_analysis, diagnosis.primary_diagnosis
    created_ms = ms_from_iso(manifest.timestamps.created_at) or 0
    return _cleaned(
        IndexedRun(
            id=entry.key,
            tenant=metadata.tenant_id,
            host=manifest.host_id,
            run=manifest.run_id,
            seal=manifest.seal,
            rule_set=diagnosis.rule_set_version,
            rule_order=rule_order(diagnosis.rule_set_version),
            agent=metadata.agent_id[:MAX_NAME],
            framework=metadata.framework[:MAX_NAME],
            visibility=metadata.visibility,
            benchmark=metadata.benchmark_id[:MAX_NAME],
            difficulty=metadata.difficulty_tier[:MAX_NAME],
            created_at=manifest.timestamps.created_at,
            created_ms=created_ms,
            day=iso_from_ms(created_ms)[:10],
            sealed_at=manifest.sealed_at,
            events=manifest.events,
            critiqor_version=manifest.critiqor_version[:MAX_NAME],
            openclaw_version=_name(manifest.openclaw_version),
            content=manifest.content,
            bundle_size=manifest.bundle_size,
            trust=diagnosis.trust_score,
            confidence=diagnosis.confidence_score,
            verdict=diagnosis.readiness,
            outcome=diagnosis.outcome.state,
            task=diagnosis.outcome.task.verdict,
            headline=diagnosis.headline[:MAX_LINE],
            sessions=format_sessions(diagnosis),
            sessions_total=diagnosis.sessions_total,
            primary_type=primary.type[:MAX_NAME] if primary is not None else None,
            findings=len(diagnosis.failure_analysis.own_findings),
            cost_usd=usage.cost_usd,
            cost_is_partial=usage.cost.is_partial,
            cost_is_estimated=usage.cost_is_estimated,
            list_prices_date=usage.list_prices_date,
            cost_calls=usage.cost.model_calls,
            tokens=usage.total_tokens,
            tokens_are_known=usage.unknown_usage is None,
            model_calls=usage.model_calls,
            tool_calls=usage.tool_calls,
            wall_ms=diagnosis.wall_time_ms,
            is_profiled=was_profiled(diagnosis),
        )
    )


def _key(*parts: str) -> str:
    """Return an id made from names, the same on every machine."""
    return str(uuid.UUID(bytes=hashlib.sha256(msgspec.json.encode(parts)).digest()[:16]))


def _name(text: str | None) -> str | None:
    return text[:MAX_NAME] if text is not None else None


_Row = TypeVar("_Row", bound=IndexedRow)


def _cleaned(row: _Row) -> _Row:
    """Return a row whose texts PostgreSQL accepts: it cannot store the character NUL."""
    changed = {
        name: value.replace("\x00", "\ufffd")
        for name in row.__struct_fields__
        if isinstance(value := getattr(row, name), str) and "\x00" in value
    }
    return msgspec.structs.replace(row, **changed) if changed else row
