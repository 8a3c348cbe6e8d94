"""The verb `timeline`."""

from __future__ import annotations

import json
from pathlib import Path

from support import Cli, Runs, attached, recorded

START = 1_794_000_000_000
SPAN = {
    "schemaVersion": "openclaw.diagnostics.v1",
    "type": "span.end",
    "timestamp": "2026-11-06T19:20:02.000Z",
    "name": "plugins.load",
    "pid": 7,
    "spanId": "s1",
    "durationMs": 1500,
}


def test_file_is_summarised_and_what_cannot_be_read_is_counted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "timeline.jsonl"
    file.write_text(json.dumps(SPAN) + "\nnot json\n")
    told = cli("timeline", file, "--json").data
    assert (told["events"], told["parse_errors"]) == (1, 1)
    assert told["slowest_spans"][0]["name"] == "plugins.load"
    assert "plugins.load" in cli("timeline", file).out
    assert "plugins.load" in cli("timeline", file, "--markdown").out


def test_turns_of_a_run_come_from_the_recorder_where_openclaw_wrote_nothing(cli: Cli, runs: Runs) -> None:
    runs.seal(
        attached(at=START),
        recorded(2, "agent_start", at=START),
        recorded(3, "before_provider_request", at=START + 100, payload={"callId": "run-1:model:1"}),
        recorded(4, "after_provider_response", at=START + 900, duration_ms=800, payload={"callId": "run-1:model:1"}),
        recorded(5, "agent_end", at=START + 1000),
    )
    told = cli("timeline", "run_001", "--json").data
    assert told["present"] is False
    [turn] = told["turns"]
    assert turn["agent_run_id"] == "run-1"
    assert turn["duration_ms"] == 1000


def test_run_that_is_not_there_is_named(cli: Cli) -> None:
    answer = cli("timeline", "run_404")
    assert answer.code == 1
    assert "run_404" in answer.err
