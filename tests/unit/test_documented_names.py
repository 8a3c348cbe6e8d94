"""Every function, file, field, event and variable that the public documents of the system name is there."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import Runs, recorded

import critiqor
from critiqor import runtime, session
from critiqor.openclaw import plugin_folder, profiling_environment, timeline_diagnostics
from critiqor.timeline.reader import records as timeline_records

SESSION_FUNCTIONS = {
    "abort_session": ["run", "runs_dir", "reason"],
    "append_event_to_run": ["run", "event", "runs_dir"],
    "create_session": [
        "runs_dir",
        "agent_id",
        "tenant_id",
        "framework",
        "visibility",
        "benchmark_id",
        "difficulty_tier",
    ],
    "finalize_session": ["run", "runs_dir"],
    "load_active_session": ["runs_dir"],
    "load_session_evidence_events": ["run", "runs_dir"],
    "normalize_plugin_event": ["event"],
    "paths_for": ["runs_dir"],
    "request_finalize": ["run", "runs_dir"],
    "write_json": ["path", "document"],
}
RECORD_FIELDS = {
    "run_id",
    "status",
    "lifecycle",
    "timestamps",
    "metadata",
    "event_log",
    "diagnosis",
    "trust_score",
    "confidence_score",
    "causal_graph",
    "failure_analysis",
    "cost_analysis",
}
EVIDENCE_FIELDS = {"schema_version", "run_id", "session_id", "events", "metrics"}
METRICS = {"total_events", "by_event_type", "by_source_layer", "error_events", "tool_calls"}
CANONICAL = {
    "tool_call": "tool_call",
    "tool_result": "tool_output",
    "memory_search": "memory_event",
    "memory_get": "memory_event",
    "after_provider_response": "token_usage",
}
RUN_VARIABLES = {
    "CRITIQOR_RUN_ID",
    "CRITIQOR_RUNS_DIR",
    "CRITIQOR_AGENT_ID",
    "CRITIQOR_TENANT_ID",
    "CRITIQOR_VISIBILITY",
    "CRITIQOR_EVENT_SOURCE",
    "OPENCLAW_BUNDLED_PLUGINS_DIR",
}
DIAGNOSTICS_VARIABLES = {
    "OPENCLAW_DIAGNOSTICS",
    "OPENCLAW_DIAGNOSTICS_RUN_ID",
    "OPENCLAW_DIAGNOSTICS_ENV",
    "OPENCLAW_DIAGNOSTICS_TIMELINE_PATH",
    "OPENCLAW_DIAGNOSTICS_EVENT_LOOP",
}
NODE_FLAGS = [
    "--cpu-prof",
    "--heap-prof",
    "--trace-events-enabled",
    "--heapsnapshot-signal=SIGUSR2",
    "--report-on-signal",
    "--report-signal=SIGUSR1",
]
TIMELINE_TYPES = {
    "span.start",
    "span.end",
    "span.error",
    "mark",
    "eventLoop.sample",
    "provider.request",
    "childProcess.exit",
}
PLUGIN_NAMES = (
    *("agent_start", "agent_end", "turn_start", "turn_end", "session_start", "session_end", "before_provider_request"),
    *("after_provider_response", "message_received", "message_sent", "message_start", "message_update", "message_end"),
    *("input", "user_bash", "tool_call", "tool_result", "tool_execution_start", "tool_execution_update"),
    "tool_execution_end",
)


@pytest.mark.parametrize("name", SESSION_FUNCTIONS)
def test_session_has_the_function_with_its_parameters(name: str) -> None:
    parameters = inspect.signature(getattr(session, name)).parameters
    assert list(parameters)[: len(SESSION_FUNCTIONS[name])] == SESSION_FUNCTIONS[name]
    assert name in session.__all__


@pytest.mark.parametrize("name", ["openclaw_environment", "monitor_openclaw", "MonitorOptions", "MonitorResult"])
def test_runtime_has_the_name(name: str) -> None:
    assert hasattr(runtime, name)
    assert name in runtime.__all__
    assert name in critiqor.__all__


@pytest.fixture
def finished(runs: Runs) -> dict[str, Any]:
    """A run through the documented functions alone, with what each of them returned."""
    record = session.create_session(runs_dir=runs.folder)
    run_id = record["run_id"]
    active = session.load_active_session(runs.folder)
    slot = json.loads((runs.folder / "active_session.json").read_text())
    for event_type in ("process_start", "process_end", "error_event"):
        session.append_event_to_run(run_id, {"event_type": event_type, "payload": {"pid": 1}}, runs_dir=runs.folder)
    runs.write(run_id, *(recorded(number, event_type=name) for number, name in enumerate(PLUGIN_NAMES, 1)))
    session.request_finalize(run_id, runs.folder)
    finalizing = json.loads((runs.folder / "active_session.json").read_text())
    return {
        "record": record,
        "active": active,
        "slot": slot,
        "finalizing": finalizing,
        "completed": session.finalize_session(run_id, runs.folder),
        "events": session.load_session_evidence_events(run_id, runs.folder),
    }


def test_states_and_the_active_slot(finished: dict[str, Any], runs: Runs) -> None:
    assert finished["record"]["status"] == "MONITORING"
    assert finished["active"]["run_id"] == "run_001"
    assert (finished["slot"]["status"], finished["finalizing"]["status"]) == ("MONITORING", "FINALIZING")
    states = [entry["state"] for entry in finished["completed"]["lifecycle"]]
    assert states == ["IDLE", "MONITORING", "FINALIZING", "COMPLETED"]
    assert not (runs.folder / "active_session.json").exists()
    assert session.load_active_session(runs.folder) is None
    session.create_session(runs_dir=runs.folder)
    assert session.abort_session(runs_dir=runs.folder)["status"] == "ABORTED"


def test_files_and_their_fields(finished: dict[str, Any], runs: Runs) -> None:
    paths = session.paths_for(runs.folder)
    assert isinstance(paths, session.SessionPaths)
    record = json.loads(paths.run_path("run_001").read_text())
    evidence = json.loads(paths.evidence_summary_path("run_001").read_text())
    assert record.keys() >= RECORD_FIELDS
    assert evidence.keys() >= EVIDENCE_FIELDS
    assert evidence["schema_version"] == "critiqor.session.v1"
    assert evidence["metrics"].keys() >= METRICS
    assert evidence["metrics"]["total_events"] == len(evidence["events"]) == len(finished["events"])
    assert json.loads(paths.diagnosis_path("run_001").read_text())["run_id"] == "run_001"
    assert all(record[name] is not None for name in RECORD_FIELDS)


def test_lifecycle_events_and_every_event_of_the_plugin_are_in_the_evidence(finished: dict[str, Any]) -> None:
    types = {event["event_type"] for event in finished["events"]}
    assert {"state_transition", "process_start", "process_end", "error_event"} <= types
    raw = {event["raw_event_type"] for event in finished["events"]}
    assert set(PLUGIN_NAMES) <= raw
    layers = {event["source_layer"] for event in finished["events"]}
    assert layers >= {"extension_api", "tool_hooks"}


@pytest.mark.parametrize("raw", CANONICAL)
def test_events_of_the_plugin_get_their_canonical_name(raw: str) -> None:
    event = session.normalize_plugin_event({"event_type": raw, "payload": {}})
    assert (event["event_type"], event["raw_event_type"]) == (CANONICAL[raw], raw)


def test_variables_for_openclaw(runs: Runs, tmp_path: Path) -> None:
    record = session.create_session(runs_dir=runs.folder)
    enriched = runtime.openclaw_environment(record, runs.folder, environment={})
    assert enriched.keys() == RUN_VARIABLES
    assert enriched["CRITIQOR_EVENT_SOURCE"] == "openclaw"
    assert enriched["OPENCLAW_BUNDLED_PLUGINS_DIR"] == str(plugin_folder().parent)
    assert (plugin_folder() / "index.js").is_file()
    timeline = tmp_path / "timeline.jsonl"
    added = timeline_diagnostics({}, run_id="run_001", agent_id="agent", timeline=timeline).environment
    assert added.keys() == DIAGNOSTICS_VARIABLES
    options = profiling_environment({}, tmp_path)["NODE_OPTIONS"].split()
    assert [flag for flag in NODE_FLAGS if flag not in options] == []


def test_line_types_of_the_diagnostics_contract() -> None:
    structs = [value for value in vars(timeline_records).values() if isinstance(value, type)]
    tags = {
        value.__struct_config__.tag
        for value in structs
        if issubclass(value, msgspec.Struct) and value.__struct_config__.tag
    }
    assert tags >= TIMELINE_TYPES
