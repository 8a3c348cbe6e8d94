"""The recorder is attached whatever the user has configured, changes nothing of it, and is never blind in silence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from openclaw.install import install_old_node
from openclaw.rig import FINAL_WORDS, LOCAL_TURN, Gateway, Rig, rig, wait_until

from critiqor.lab.model.scripted_model import Step
from critiqor.runtime import MonitorOptions, monitor_openclaw

ONE_WORD = (Step(text=FINAL_WORDS),)


def assert_recorded(made: Rig) -> None:
    record = made.finalize()
    assert record["trust_score"] is not None
    assert len(made.events("token_usage")) == len(made.model.requests) == 1


def assert_never_a_clean_bill(made: Rig) -> None:
    record = made.finalize()
    assert record["trust_score"] is None
    assert record["diagnosis"]["readiness"] == "unknown"
    findings = record["failure_analysis"]["findings"]
    assert "inspection_incomplete" in {finding["type"] for finding in findings}
    assert not made.evidence()["coverage"]["recorder_attached"]


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({"allow": ["memory-core"], "load": {"paths": []}}, id="allow list"),
        pytest.param({"enabled": False}, id="plugins off"),
    ],
)
def test_the_recorder_is_attached_beside_the_users_plugin_settings(plugins: dict[str, object], tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD, {"plugins": plugins}) as made:
        assert made.monitor(*LOCAL_TURN).returncode == 0
        assert_recorded(made)


def test_the_recorder_is_attached_to_a_profile_with_comments_in_its_configuration(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD) as made:
        profile = tmp_path / "home" / ".openclaw-work" / "openclaw.json"
        profile.parent.mkdir()
        plain = json.loads(made.configuration.read_text())
        written = "// my work profile\n" + json.dumps(plain, indent=1)[:-1] + ", /* the end */ }\n"
        profile.write_text(written)
        made.configuration.write_text("{}")
        empty = made.configuration
        assert made.monitor("--profile", "work", *LOCAL_TURN).returncode == 0
        assert_recorded(made)
        assert profile.read_text() == written
        assert empty.read_text() == "{}"
        empty.write_bytes(json.dumps(plain).encode())
        made.configuration.write_bytes(json.dumps(plain, indent=2).encode())


def test_a_denied_recorder_is_said_at_start_and_at_the_end(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, ONE_WORD, {"plugins": {"deny": ["critiqor"]}}) as made:
        done = made.monitor(*LOCAL_TURN)
        assert FINAL_WORDS in done.stdout, "the agent works all the same"
        assert "NOT RECORDING" in done.stderr
        assert "NOTHING WAS RECORDED" in done.stderr
        assert "plugins.deny" in done.stderr
        assert_never_a_clean_bill(made)


def test_a_long_run_without_the_recorder_is_said_while_it_goes_on(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD) as made:
        # An OpenClaw that never gets to its plugins: what a hung start looks like from outside.
        hung = tmp_path / "openclaw"
        hung.write_text("#!/bin/sh\nexec sleep 4\n")
        hung.chmod(0o755)
        said: list[str] = []
        options = MonitorOptions(runs_dir=made.runs, openclaw_command=str(hung), attach_grace=1.0)
        with (tmp_path / "hung.log").open("wb") as log:
            result = monitor_openclaw(options, say=said.append, environment=made.environment, output=log)
        assert not result.attached
        within = next(index for index, message in enumerate(said) if message.startswith("NOT RECORDING after"))
        at_end = next(index for index, message in enumerate(said) if message.startswith("NOTHING WAS RECORDED"))
        assert within < at_end
        assert_never_a_clean_bill(made)


def test_an_openclaw_with_the_wrong_node_is_said_with_the_fix(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD) as made:
        # Nothing else on PATH: OpenClaw looks for a better Node there, and uses it.
        made.environment["PATH"] = os.pathsep.join((str(install_old_node()), str(made.command.parent)))
        done = made.monitor(*LOCAL_TURN)
        assert done.returncode != 0
        assert "NOTHING WAS RECORDED" in done.stderr
        assert "needs Node" in done.stderr
        assert_never_a_clean_bill(made)
        diagnosed = made.critiqor("doctor")
        assert diagnosed.returncode == 1
        assert "install Node 24" in diagnosed.stdout


def test_a_configuration_that_openclaw_cannot_read_is_said(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, ONE_WORD) as made:
        good = made.configuration.read_bytes()
        made.configuration.write_text('{ "models": { oops ')
        done = made.monitor(*LOCAL_TURN)
        assert done.returncode != 0
        assert "Your OpenClaw configuration has a problem" in done.stderr
        assert "NOTHING WAS RECORDED" in done.stderr
        assert_never_a_clean_bill(made)
        made.configuration.write_bytes(good)


def test_a_gateway_keeps_many_sessions_and_runs_apart(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD) as made:
        gateway = Gateway(made)
        for session in ("alpha", "beta"):
            chosen = ("--session-key", f"agent:main:{session}", "--message", session)
            done = made.openclaw("agent", "--agent", "main", *chosen)
            assert done.returncode == 0, done.stderr
        wait_until(lambda: len(made.model.requests) == 2)
        gateway.stop()
        made.finalize()
        keys = [(event["session_key"], event["agent_run_id"]) for event in made.events("token_usage")]
        assert [key for key, _ in keys] == ["agent:main:alpha", "agent:main:beta"]
        assert len({run for _, run in keys}) == 2


def test_the_probe_proves_the_whole_chain(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, ONE_WORD) as made:
        done = made.critiqor("doctor", "--probe")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ok  probe" in done.stdout
        assert made.model.requests == [], "the probe has a model and a home of its own"


def test_commands_that_write_the_configuration_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", ONE_WORD) as made:
        done = made.monitor("configure")
        assert done.returncode == 2
        assert "openclaw configure" in done.stderr
        assert not made.runs.exists()
