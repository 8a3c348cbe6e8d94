"""The nouns: what a run, an event, its evidence and its diagnosis are. Nothing here touches a disk or a process."""

from critiqor.model.diagnosis import Diagnosis, Finding, Outcome, PrimaryDiagnosis
from critiqor.model.event import Event, EventType, SourceLayer, event_id_for, iso_from_ms, ms_from_iso, now_ms
from critiqor.model.evidence import EVIDENCE_SCHEMA, Coverage, Damage, Metrics, RecorderFacts
from critiqor.model.record import RECORD_SCHEMA, Metadata, Owner, Seal, SessionRecord, Status, Timestamps, Transition

__all__ = [
    "EVIDENCE_SCHEMA",
    "RECORD_SCHEMA",
    "Coverage",
    "Damage",
    "Diagnosis",
    "Event",
    "EventType",
    "Finding",
    "Metadata",
    "Metrics",
    "Outcome",
    "Owner",
    "PrimaryDiagnosis",
    "RecorderFacts",
    "Seal",
    "SessionRecord",
    "SourceLayer",
    "Status",
    "Timestamps",
    "Transition",
    "event_id_for",
    "iso_from_ms",
    "ms_from_iso",
    "now_ms",
]
