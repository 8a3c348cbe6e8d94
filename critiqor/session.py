"""The documented functions of a session: create, append, finalize, abort, load.

A thin facade over `critiqor.run` and `critiqor.storage`. Importing it loads no detector: what diagnoses a run is
imported when a run is finalized.
"""

from critiqor.run.lifecycle import (
    abort_session,
    append_event_to_run,
    complete_session,
    create_attached_session,
    create_session,
    evidence_events,
    finalize_session,
    import_run,
    load_active_session,
    load_record,
    load_record_head,
    load_session_evidence_events,
    owner_is_alive,
    refresh_live_evidence,
    request_finalize,
)
from critiqor.storage import SessionPaths, paths_for, write_json
from critiqor.storage.normalization import normalize_plugin_event

__all__ = [
    "SessionPaths",
    "abort_session",
    "append_event_to_run",
    "complete_session",
    "create_attached_session",
    "create_session",
    "evidence_events",
    "finalize_session",
    "import_run",
    "load_active_session",
    "load_record",
    "load_record_head",
    "load_session_evidence_events",
    "normalize_plugin_event",
    "owner_is_alive",
    "paths_for",
    "refresh_live_evidence",
    "request_finalize",
    "write_json",
]
