"""The variables that make OpenClaw write its timeline, and Node its profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from critiqor.openclaw import Diagnostics, profiling_environment, timeline_diagnostics

TIMELINE = Path("/runs/run_001/openclaw/timeline.jsonl")


def diagnostics(**environment: str) -> Diagnostics:
    return timeline_diagnostics(environment, run_id="run_001", agent_id="main", timeline=TIMELINE)


def test_variables_are_those_of_the_contract() -> None:
    assert diagnostics().environment == {
        "OPENCLAW_DIAGNOSTICS": "timeline",
        "OPENCLAW_DIAGNOSTICS_RUN_ID": "run_001",
        "OPENCLAW_DIAGNOSTICS_ENV": "main",
        "OPENCLAW_DIAGNOSTICS_TIMELINE_PATH": str(TIMELINE),
        "OPENCLAW_DIAGNOSTICS_EVENT_LOOP": "1",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("telegram.http,brave.http", "telegram.http,brave.http,timeline"),
        ("telegram.http health", "telegram.http,health,timeline"),
        ("timeline", "timeline"),
        ("Diagnostics.Timeline", "Diagnostics.Timeline"),
        ("*", "*"),
        ("1", "1"),
        (" , ", "timeline"),
    ],
)
def test_flags_of_the_user_stay(given: str, expected: str) -> None:
    assert diagnostics(OPENCLAW_DIAGNOSTICS=given).environment["OPENCLAW_DIAGNOSTICS"] == expected


@pytest.mark.parametrize("off", ["0", "false", "OFF", "none"])
def test_user_who_has_turned_all_off_is_obeyed(off: str) -> None:
    wanted = diagnostics(OPENCLAW_DIAGNOSTICS=off)
    assert wanted.environment == {}
    assert "no timeline" in wanted.notes[0]


def test_another_place_of_the_user_is_named() -> None:
    assert "/elsewhere.jsonl" in diagnostics(OPENCLAW_DIAGNOSTICS_TIMELINE_PATH="/elsewhere.jsonl").notes[0]


def test_options_of_node_stay_and_profiles_go_into_the_folder() -> None:
    options = profiling_environment({"NODE_OPTIONS": "--max-old-space-size=4096"}, Path("/p"))["NODE_OPTIONS"]
    assert options.startswith("--max-old-space-size=4096 --cpu-prof --heap-prof --trace-events-enabled ")
    for needed in (
        "--heapsnapshot-signal=SIGUSR2",
        "--report-on-signal",
        "--report-signal=SIGUSR1",
        "--cpu-prof-dir=/p",
    ):
        assert needed in options.split()


def test_folder_with_a_space_is_quoted_for_node() -> None:
    assert '"--cpu-prof-dir=/my runs"' in profiling_environment({}, Path("/my runs"))["NODE_OPTIONS"]
