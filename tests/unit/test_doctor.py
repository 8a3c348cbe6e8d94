from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import Runs, script

from critiqor.lab.doctor import Check, run_checks
from critiqor.openclaw import locate_configuration, write_overlay


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with an OpenClaw, a Node and a configuration without a fault."""
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "openclaw", "#!/bin/sh\nexit 0\n")
    script(tmp_path / "bin" / "node", "#!/bin/sh\necho v24.18.0\n")
    (tmp_path / ".openclaw").mkdir()
    configure(tmp_path, "{}")
    return tmp_path


def configure(home: Path, text: str) -> None:
    (home / ".openclaw" / "openclaw.json").write_text(text, encoding="utf-8")


def checks_of(home: Path, command: str = "openclaw") -> dict[str, Check]:
    environment = {"HOME": str(home), "PATH": str(home / "bin")}
    return {check.name: check for check in run_checks(home / "runs", command, environment)}


def test_all_is_well_where_nothing_is_wrong(home: Path) -> None:
    checks = checks_of(home)
    assert list(checks) == ["runs folder", "active session", "openclaw", "node", "plugin"]
    assert [check for check in checks.values() if not check.ok or check.fix] == []


@pytest.mark.parametrize("fault", ["denied", "hard link", "too large"])
def test_doctor_and_monitor_say_the_same_of_a_plugin_that_will_not_load(home: Path, fault: str) -> None:
    if fault == "denied":
        configure(home, "{plugins: {deny: ['critiqor']}}")
    elif fault == "hard link":
        os.link(home / ".openclaw" / "openclaw.json", home / "second-name.json")
    else:
        configure(home, "{}" + " " * (2 * 1024 * 1024))
    check = checks_of(home)["plugin"]
    environment = {"HOME": str(home)}
    overlay = write_overlay(home / "run", locate_configuration([], environment), environment)
    assert not check.ok
    assert f"{check.detail}: {check.fix}." == overlay.blocked


def test_broken_and_missing_configurations_are_named_with_the_command_that_helps(home: Path) -> None:
    configure(home, "{plugins: ")
    assert (checks_of(home)["plugin"].ok, checks_of(home)["plugin"].fix) == (False, "openclaw doctor")
    (home / ".openclaw" / "openclaw.json").unlink()
    assert (checks_of(home)["plugin"].ok, checks_of(home)["plugin"].fix) == (False, "openclaw onboard")


def test_a_session_that_is_not_finalized_yet_is_no_fault_and_named_with_what_to_type_next(
    home: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = runs.start()
    assert checks_of(home)["active session"].ok
    monkeypatch.setattr("critiqor.lab.doctor.is_owner_alive", lambda _: False)
    check = checks_of(home)["active session"]
    assert (check.ok, check.detail) == (True, f"{run_id} is MONITORING, and its process has ended")
    assert check.fix == f"critiqor finalize {run_id}   (or: critiqor abort {run_id})"


def test_words_of_a_longer_command_are_shown(home: Path) -> None:
    assert checks_of(home, "node 'open claw.mjs'")["openclaw"].detail.startswith(f"{home}/bin/node 'open claw.mjs', ")


def test_missing_openclaw_ends_the_examination_with_what_to_install(home: Path) -> None:
    checks = checks_of(home, "/nowhere/openclaw")
    assert list(checks)[-1] == "openclaw"
    assert "npm install -g openclaw" in (checks["openclaw"].fix or "")


def test_node_too_old_for_nothing_known_passes_and_none_at_all_does_not(home: Path) -> None:
    assert checks_of(home)["node"].detail == "24.18.0"
    (home / "bin" / "node").unlink()
    assert "Node 24" in (checks_of(home)["node"].fix or "")
