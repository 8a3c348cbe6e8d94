"""The readers of files as functions of bytes: each returns, or raises an error that a user can act upon."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from profiles import CPU_NAME, HEAP_NAME, REPORT_NAME, TRACE_NAME

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.cli.run_list import list_runs
from critiqor.cli.settings import default_map, read_channels
from critiqor.dashboard.web.links import Links
from critiqor.diagnosis import Diagnoser
from critiqor.errors import CritiqorError
from critiqor.fleet.manifest import Manifest, decode_manifest
from critiqor.fleet.store.bundle import read_diagnosis as read_diagnosis_of_bundle
from critiqor.fleet.store.bundle import unpack_bundle
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.origin import is_from_elsewhere
from critiqor.fleet.store.outbox import PushOutbox
from critiqor.importers import read_traces
from critiqor.importers.otel.traces import read_trace
from critiqor.lab.scenario_file import read_scenario
from critiqor.live.limits import DayFile
from critiqor.live.stop_request import take_stop
from critiqor.live.verdict import read_live
from critiqor.notifications.outbox import Outbox
from critiqor.openclaw.attachment import AttachmentFolder
from critiqor.openclaw.configuration import ConfigurationFile
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.policy.policy_file import PolicyError, parse_policy, parse_policy_tables
from critiqor.receiver.requests import MEDIA_TYPES, RefusedRequestError, spans_of, split_request, unpack
from critiqor.recording.backend_transcripts import complete_recording
from critiqor.recording.witness import Witness
from critiqor.run.active_slot import active_record, active_run_id, active_run_ids
from critiqor.run.segments.carried import read_carried
from critiqor.run.store import Run, RunStore
from critiqor.storage import paths_for
from critiqor.storage import run_record as records
from critiqor.storage.annotations import read_annotations
from critiqor.storage.audit.closing_records import read_closing_records
from critiqor.storage.audit.statement import Statement, read_statement
from critiqor.storage.audit.witness_socket import ASK
from critiqor.storage.event_merge import merged_events
from critiqor.storage.redaction import Redactor
from critiqor.storage.seals.diagnosis_seal import read_diagnosis_seal
from critiqor.storage.session_document import events_extent, read_coverage, read_sealed_events, readable_events
from critiqor.timeline import SummaryBuilder
from critiqor.timeline.profiles.report import profile_lines
from critiqor.timeline.profiles.summary import summarise_profiles
from critiqor.timeline.reader.trace_stream import read_trace_parts

_KEPT = tempfile.TemporaryDirectory(prefix="critiqor-readers-")
_FOLDER = Path(_KEPT.name)
_RUN = "run_001"
CHUNK_BYTES = 5_000
"""Small, so that lines are cut everywhere."""


def _written(data: bytes, name: str) -> Path:
    path = _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_journal(data: bytes) -> None:
    """Lines of a journal to events."""
    for event in merged_events(_written(data, "journal.jsonl"), [], Redactor(b"key")):
        msgspec.json.encode(event)


def read_session(data: bytes) -> None:
    """A session.json to events and coverage."""
    document = _written(data, f"{_RUN}/session.json")
    for read in (lambda: list(read_sealed_events(document)), lambda: read_coverage(document)):
        with suppress(CritiqorError):
            read()
    msgspec.json.encode(list(readable_events(document)))
    events_extent(document)


def read_record(data: bytes) -> None:
    """A run record, its head, and what is left of it."""
    paths = paths_for(_FOLDER)
    _written(data, f"{_RUN}.json")
    for read in (records.load, records.load_head):
        with suppress(CritiqorError):
            msgspec.json.encode(read(paths, _RUN))
    records.readable_members(data)


def read_timeline(data: bytes) -> None:
    """A timeline to its summary and to the parts of a trace."""
    builder = SummaryBuilder()
    for start in range(0, len(data), CHUNK_BYTES):
        builder.feed(data[start : start + CHUNK_BYTES])
    msgspec.json.encode(builder.summary())
    msgspec.json.encode(list(read_trace_parts(_written(data, "timeline.jsonl"))))


def read_import(data: bytes) -> None:
    """A file in any format that can be imported."""
    with suppress(CritiqorError):
        for trace in read_traces(_written(data, "trace.json")):
            msgspec.json.encode(trace.events)


def read_json5(data: bytes) -> None:
    """A configuration of OpenClaw."""
    with suppress(Json5Error):
        parse_json5(data.decode("utf-8", "replace"))


def read_diagnosis(data: bytes) -> None:
    """A diagnosis.json, the short form of it for lists, and its seal."""
    paths = paths_for(_FOLDER)
    file = _written(data, f"{_RUN}/diagnosis.json")
    for read in (records.load_diagnosis, records.load_brief_diagnosis):
        with suppress(CritiqorError):
            msgspec.json.encode(read(paths, _RUN))
    read_diagnosis_seal(file)


def read_policy(data: bytes) -> None:
    """A policy, as TOML and as JSON, and its tables in critiqor.toml."""
    forms: tuple[Literal["toml", "json"], ...] = ("toml", "json")
    for form in forms:
        with suppress(PolicyError):
            parse_policy(data, form, {"false_success_claim"})
    with suppress(PolicyError):
        parse_policy_tables(data)


def read_settings(data: bytes) -> None:
    """A critiqor.toml: options, and channels for alerts."""
    before = Path.cwd()
    os.chdir(_written(data, "settings/critiqor.toml").parent)
    try:
        for read in (lambda: default_map(["runs"]), read_channels):
            with suppress(CritiqorError):
                read()
    finally:
        os.chdir(before)


def read_scenario_file(data: bytes) -> None:
    """A scenario of the lab."""
    with suppress(CritiqorError):
        read_scenario(_written(data, "scenario.toml"))


def read_profiles(data: bytes) -> None:
    """A file as each kind of profile that Node writes."""
    for name in (CPU_NAME, HEAP_NAME, REPORT_NAME, TRACE_NAME):
        folder = _written(data, f"profiles-{name}/{name}").parent
        profile_lines(summarise_profiles(folder))


def read_witness_file(data: bytes) -> None:
    """A witness.json, and a closing record of a recorder."""
    read_statement(_written(data, "witness/witness.json"))
    read_closing_records(_written(data, "witness/recorder-1.json").parent)


def read_reports(data: bytes) -> None:
    """What a process sends to the witness, which must answer all the same."""
    witness = Witness(lambda _pid: True)
    try:
        with socket.socket(socket.AF_UNIX) as reporter:
            reporter.settimeout(60)
            reporter.connect(str(witness.address))
            reporter.sendall(data + b"\n" + ASK)
            answer = b""
            while not answer.endswith(b"\n"):
                answer += reporter.recv(1 << 20)
        assert msgspec.json.decode(answer, type=Statement).is_valid
    finally:
        witness.close()


def read_transcript(data: bytes) -> None:
    """A transcript of a backend whose calls OpenClaw does not report."""
    journal = _written(_ON_A_BACKEND, f"backend/{_RUN}/journal.jsonl")
    _written(data, "backend/projects/p/session.jsonl")
    writer = JournalWriter(paths_for(_FOLDER / "backend"), "run_002")
    try:
        complete_recording(journal, {"CLAUDE_CONFIG_DIR": str(_FOLDER / "backend")}, writer)
    finally:
        writer.close()


_ON_A_BACKEND = b"".join(
    msgspec.json.encode(
        {
            "event_id": f"evt_0mhz3q9ab_7f3k12ab_0000{number}",
            "event_type": kind,
            "timestamp": timestamp,
            "session_key": "s",
            "agent_run_id": "r",
            "tool_name": None,
            "tool_call_id": "c0" if kind == "tool_call" else None,
            "payload": payload,
        }
    )
    + b"\n"
    for number, (kind, timestamp, payload) in enumerate(
        [
            ("agent_start", "2026-01-01T00:00:00.000Z", {}),
            ("tool_call", "2026-01-01T00:00:01.000Z", {}),
            ("agent_end", "2026-12-31T00:00:00.000Z", {"provider": "claude-cli"}),
        ]
    )
)


def read_small_files(data: bytes) -> None:
    """The small files of runs: slot, links, list, amounts, outbox, verdict, stop, visibility, annotations, origin."""
    folder = _FOLDER / "small"
    paths = paths_for(folder)
    name = "run_001-0123456789abcdef"
    for written in (
        "active_session.json",
        ".links.json",
        ".limits.json",
        ".last_run",
        ".run_list.json",
        f"{_RUN}/live.json",
        f"{_RUN}/stop.json",
        f"{_RUN}/visibility.json",
        f"{_RUN}/annotations.json",
        f"{_RUN}/carried.jsonl",
        f"{_RUN}/origin.json",
        ".slots/work.json",
        f".notify/channels/ops/waiting/{name}.json",
        ".notify/channels/ops/state.json",
        "critiqor/attachment.json",
    ):
        _written(data, f"small/{written}")
    _written(_RECORD, f"small/{_RUN}.json")
    outbox = Outbox(paths).channel("ops")
    attached = ConfigurationFile(folder / "openclaw.json", False, "default", folder, folder)
    for read in (
        lambda: active_record(paths),
        lambda: active_run_id(paths, "finalize"),
        lambda: active_run_ids(paths),
        lambda: Diagnoser().carry_over(read_carried(paths.carried_path(_RUN))),
        lambda: Links(paths).of_run(_RUN),
        lambda: DayFile(folder).amounts_without(_RUN),
        lambda: read_live(Run(_RUN, paths)),
        lambda: take_stop(Run(_RUN, paths)),
        lambda: records.load_head(paths, _RUN),
        lambda: read_annotations(paths, _RUN),
        lambda: list_runs(RunStore(folder)),
        lambda: is_from_elsewhere(Run(_RUN, paths), "file:///elsewhere"),
        outbox.waiting,
        outbox.state,
        lambda: AttachmentFolder(attached).read(),
    ):
        with suppress(CritiqorError):
            read()


_CORPUS = Path(__file__).parent / "faults" / "corpus"
_RECORD = (_CORPUS / "record" / "monitoring.json").read_bytes()


def read_redaction_rules(data: bytes) -> None:
    """The redaction rules that a user has added for a run."""
    with suppress(CritiqorError):
        Redactor.of_run(b"key", _written(data, "redaction.json"))


def read_received(data: bytes) -> None:
    """A request of an exporter, as each of its forms; what is accepted must be decoded when it is imported."""
    for form in MEDIA_TYPES.values():
        for encoding in ("", "gzip"):
            with suppress(RefusedRequestError):
                for piece in split_request(unpack(data, encoding), form).pieces:
                    with suppress(ValueError, RecursionError):
                        read_trace(piece.trace_id, list(spans_of(piece.data, form)), b"key")


def read_bundle(data: bytes) -> None:
    """The bundle of a run in an object store, with a manifest that describes it."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    manifest = msgspec.structs.replace(_manifest(), bundle_size=len(data), bundle_digest=digest)
    _written(data, f"store/{manifest.bundle_path}")
    store = open_store(f"file://{_FOLDER}/store")
    with suppress(CritiqorError):
        read_diagnosis_of_bundle(store, manifest)
    with suppress(CritiqorError):
        unpack_bundle(store, manifest, _FOLDER / "pulled")
    shutil.rmtree(_FOLDER / "pulled", ignore_errors=True)


def read_manifest(data: bytes) -> None:
    """The manifest of a run in an object store, and the files of an outbox of runs."""
    with suppress(ValueError):
        decode_manifest(data, _manifest().manifest_path)
    for name in ("state.json", f"stored/{_RUN}.json", f"refused/{_RUN}"):
        _written(data, f"outbox/.fleet/{name}")
    outbox = PushOutbox(paths_for(_FOLDER / "outbox"))
    outbox.state()
    outbox.stored(_RUN)
    outbox.refusal(_RUN)


def _manifest() -> Manifest:
    return msgspec.json.decode((_CORPUS / "manifest" / "full.json").read_bytes(), type=Manifest)


READERS: dict[str, Callable[[bytes], None]] = {
    "journal": read_journal,
    "session": read_session,
    "record": read_record,
    "timeline": read_timeline,
    "import": read_import,
    "json5": read_json5,
    "diagnosis": read_diagnosis,
    "policy": read_policy,
    "settings": read_settings,
    "scenario": read_scenario_file,
    "profiles": read_profiles,
    "witness": read_witness_file,
    "reports": read_reports,
    "transcript": read_transcript,
    "small": read_small_files,
    "redaction": read_redaction_rules,
    "received": read_received,
    "bundle": read_bundle,
    "manifest": read_manifest,
}
