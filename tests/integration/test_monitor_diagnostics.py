"""What `critiqor monitor` measures of a run: timeline, profiles, memory and CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import STANDIN, Runs, environment, script

from critiqor.runtime import MonitorOptions, monitor_openclaw

WRITES_ITS_ENVIRONMENT = """#!/usr/bin/env python3
import json, os, sys, time
names = ("OPENCLAW_DIAGNOSTICS", "NODE_OPTIONS")
json.dump({name: value for name, value in os.environ.items() if name.startswith(names)}, open(sys.argv[1], "w"))
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def said() -> list[str]:
    return []


def launched(
    tmp_path: Path,
    runs: Runs,
    said: list[str],
    *,
    extra: dict[str, str] | None = None,
    seconds: float = 0,
    **options: Any,
) -> dict[str, str]:
    """Monitor a program and return the variables that it got."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    report = tmp_path / "environment.json"
    command = script(tmp_path / "openclaw", WRITES_ITS_ENVIRONMENT)
    chosen = MonitorOptions(
        runs_dir=runs.folder, openclaw_command=str(command), arguments=(str(report), str(seconds)), **options
    )
    with (tmp_path / "output").open("wb") as output:
        monitor_openclaw(chosen, say=said.append, environment=environment(home, **(extra or {})), output=output)
    found: dict[str, str] = json.loads(report.read_text())
    return found


def test_launched_program_is_configured_to_write_its_timeline(tmp_path: Path, runs: Runs, said: list[str]) -> None:
    found = launched(tmp_path, runs, said, metadata={"agent_id": "worker"})
    assert found["OPENCLAW_DIAGNOSTICS"] == "timeline"
    assert found["OPENCLAW_DIAGNOSTICS_RUN_ID"] == "run_001"
    assert found["OPENCLAW_DIAGNOSTICS_ENV"] == "worker"
    assert Path(found["OPENCLAW_DIAGNOSTICS_TIMELINE_PATH"]) == runs.paths.timeline_path("run_001")
    assert found["OPENCLAW_DIAGNOSTICS_EVENT_LOOP"] == "1"
    assert "NODE_OPTIONS" not in found


def test_timeline_can_be_turned_off_by_option_and_by_variable(tmp_path: Path, runs: Runs, said: list[str]) -> None:
    assert launched(tmp_path, runs, said, timeline=False) == {}
    runs.finalize()
    assert launched(tmp_path, runs, said, extra={"OPENCLAW_DIAGNOSTICS": "0"}) == {"OPENCLAW_DIAGNOSTICS": "0"}
    assert any("no timeline" in message for message in said)


def test_deep_profile_keeps_node_options_of_the_user_and_is_recorded(
    tmp_path: Path, runs: Runs, said: list[str]
) -> None:
    found = launched(tmp_path, runs, said, deep_profile=True, extra={"NODE_OPTIONS": "--no-warnings"})
    assert found["NODE_OPTIONS"].startswith("--no-warnings --cpu-prof ")
    assert runs.paths.profiles_folder("run_001").is_dir()
    assert runs.notes("run_001", "process_start")[0]["payload"]["deep_profile"] is True
    assert any("slower" in message for message in said)


def test_memory_and_cpu_time_of_the_tree_are_recorded_with_the_sampling_interval(
    tmp_path: Path, runs: Runs, said: list[str]
) -> None:
    launched(tmp_path, runs, said, seconds=1.2)
    [usage] = runs.notes("run_001", "resource_usage")
    payload = usage["payload"]
    assert payload["samples"] >= 1
    assert payload["peak_rss_bytes"] > 1_000_000
    assert payload["interval_seconds"] > 0
    assert payload["roles"][0]["processes"] == 1


def test_profiles_of_a_real_node_are_kept_with_the_run(tmp_path: Path, runs: Runs, said: list[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    options = MonitorOptions(
        runs_dir=runs.folder, openclaw_command=str(STANDIN), arguments=("agent",), deep_profile=True
    )
    with (tmp_path / "output").open("wb") as output:
        monitor_openclaw(options, say=said.append, environment=environment(home), output=output)
    kinds = {path.suffix for path in runs.paths.profiles_folder("run_001").iterdir()}
    assert {".cpuprofile", ".heapprofile"} <= kinds
