"""Several sessions of a real gateway, of which one reports a success that its commands contradict."""

from __future__ import annotations

from pathlib import Path

import pytest
from openclaw.install import install
from openclaw.rig import command_path
from support import Cli, Runs
from surfaces import RUN, assert_a_failing_session_is_named

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario_file import select_scenarios, shipped_scenarios
from critiqor.lab.verdict import find_mismatches


def test_of_five_sessions_the_one_that_lies_is_unsafe_and_named_on_every_surface(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = Runner("openclaw", environment={"PATH": command_path(install("2026.9.6"))})
    clean, gateway = select_scenarios(shipped_scenarios(), ("clean", "one_of_five_sessions"))
    runner.play(clean, tmp_path / "clean", runs.folder)
    played = runner.play(gateway, tmp_path / "gateway", runs.folder)
    assert played.run_id == RUN
    assert find_mismatches(gateway, played.diagnosis, played.coverage) == []
    assert len(played.diagnosis.sessions) == 5
    assert_a_failing_session_is_named(runs, cli, monkeypatch, tmp_path, "agent:main:third")
