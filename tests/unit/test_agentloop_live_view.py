"""session.json while the embedded loop records: it follows the journal, and is valid until it is sealed and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import RUN, Recording, Source
from support import exit_code_of, fork, wait_until

from critiqor.agentloop.recording.live_view import LiveView
from critiqor.agentloop.recording.recorder import Recorder, attach_recorder
from critiqor.storage import SessionPaths, paths_for


@pytest.fixture
def paths(tmp_path: Path) -> SessionPaths:
    return paths_for(tmp_path)


def attached(paths: SessionPaths) -> tuple[Recorder, Source]:
    source = Source()
    environment = {"CRITIQOR_RUN_ID": RUN, "CRITIQOR_RUNS_DIR": str(paths.runs_dir)}
    recorder = attach_recorder(source, source, environment)
    return recorder, source


def session(paths: SessionPaths) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(paths.evidence_summary_path(RUN).read_bytes())
    return document


def journal(paths: SessionPaths) -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.journal_path(RUN).read_bytes().splitlines()]


def test_session_json_is_written_soon_after_a_record(paths: SessionPaths) -> None:
    recorder, source = attached(paths)
    source.hook("message_received", {}, content="hello")
    wait_until(lambda: paths.evidence_summary_path(RUN).exists() and len(session(paths)["events"]) == 2)
    source.hook("message_received", {}, content="again")
    wait_until(lambda: len(session(paths)["events"]) == 3)
    recorder.close()


def test_session_json_has_the_documented_shape_and_counts_the_journal(tmp_path: Path, paths: SessionPaths) -> None:
    made = Recording(tmp_path)
    made.tool("c", error="no")
    with paths.journal_path(RUN).open("ab") as file:
        file.write(b'{"event_type": "torn\n\n[1]\n\xff\xfe\n{"event_type": "half"')
    LiveView(paths, RUN).finish()
    document = session(paths)
    assert [document["schema_version"], document["run_id"], document["session_id"]] == ["critiqor.session.v1", RUN, RUN]
    assert [event["event_type"] for event in document["events"]] == ["recorder_attached", "tool_call", "tool_result"]
    assert document["metrics"] == {
        "total_events": 3,
        "by_event_type": {"recorder_attached": 1, "tool_call": 1, "tool_result": 1},
        "by_source_layer": {"extension_api": 1, "tool_hooks": 2},
        "error_events": 1,
        "tool_calls": 1,
    }


def test_session_json_is_complete_when_the_recorder_is_closed(paths: SessionPaths) -> None:
    recorder, source = attached(paths)
    for number in range(50):
        source.hook("message_received", {}, content=f"Größe {number}")
    recorder.close()
    assert session(paths)["events"] == journal(paths)
    assert len(journal(paths)) == 51
    files = [path.name for path in paths.run_folder(RUN).iterdir() if not path.name.startswith("recorder-")]
    assert sorted(files) == ["journal.jsonl", "redaction.key", "session.json"]


def test_session_json_is_valid_at_every_moment_while_two_processes_record(paths: SessionPaths) -> None:
    def work() -> None:
        recorder, source = attached(paths)
        for number in range(400):
            source.hook("message_received", {}, content="x" * 300, number=number)
            if number % 40 == 0:
                recorder._segments.current.view.finish()  # type: ignore[union-attr]
        recorder.close()

    pids = [fork(work) for _ in range(2)]
    wait_until(paths.evidence_summary_path(RUN).exists)
    for _ in range(200):
        document = session(paths)
        assert len(document["events"]) == document["metrics"]["total_events"]
    assert [exit_code_of(pid) for pid in pids] == [0, 0]
    LiveView(paths, RUN).finish()
    assert session(paths)["metrics"]["by_event_type"]["message_received"] == 800


def test_a_sealed_session_json_is_never_replaced(paths: SessionPaths) -> None:
    recorder, source = attached(paths)
    source.hook("message_received", {}, content="hello")
    paths.session_lock_path(RUN).write_bytes(b"sealed")
    paths.evidence_summary_path(RUN).write_text('{"sealed": true}')
    source.hook("message_received", {}, content="late")
    recorder.close()
    assert session(paths) == {"sealed": True}
    assert paths.session_lock_path(RUN).read_bytes() == b"sealed"
    assert [path for path in paths.run_folder(RUN).iterdir() if path.suffix == ".tmp"] == []


def test_closing_does_not_wait_long_for_a_held_lock(paths: SessionPaths) -> None:
    recorder, source = attached(paths)
    source.hook("message_received", {}, content="hello")
    paths.session_lock_path(RUN).write_bytes(b"4711")
    recorder.close()
    assert paths.session_lock_path(RUN).read_bytes() == b"4711"
    assert len(journal(paths)) == 2
