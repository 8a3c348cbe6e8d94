"""A real gateway that runs by itself: attached, recorded, finalized, and detached without a trace."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openclaw.rig import BIN, FINAL_WORDS, LOCAL_TURN, Rig, free_port, rig, wait_until
from support import kill_tree

VERSION = "2026.9.6"
SECRET = "sk-live-0123456789abcdef"
EXTRA = {"meta": {"lastTouchedVersion": VERSION}, "models": {"providers": {"lab": {"apiKey": SECRET}}}}


@contextmanager
def gateway(made: Rig) -> Iterator[None]:
    """A gateway as a service manager would start it, that Critiqor knows nothing of."""
    port = str(free_port())
    made.environment |= {"OPENCLAW_GATEWAY_PORT": port, "OPENCLAW_GATEWAY_TOKEN": "rig"}
    command = [str(made.command), "gateway", "run", "--port", port, "--auth", "token", "--token", "rig"]
    log = made.folder / "gateway.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=made.environment, cwd=made.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
        except OSError:
            return False
        return True

    try:
        wait_until(is_up)
        yield
    finally:
        kill_tree(process.pid)
        process.wait()


def answer(made: Rig, *arguments: str) -> Any:
    done = made.critiqor(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


def turn(made: Rig) -> None:
    done = made.openclaw("agent", "--agent", "main", "--message", "do the thing")
    assert done.returncode == 0, done.stderr


def test_a_gateway_that_runs_by_itself_is_attached_recorded_and_left_as_it_was(tmp_path: Path) -> None:
    with rig(tmp_path, VERSION, extra=EXTRA) as made:
        mine = "// mine\n" + made.configuration.read_text()
        with gateway(made):
            made.configuration.write_text(mine)
            attached = answer(made, "attach", "openclaw")
            assert (attached["run_id"], attached["recorder_seen"]) == ("run_001", True)
            turn(made)
            assert answer(made, "show", "run_001")["status"] == "MONITORING"
            assert made.finalize()["run_id"] == "run_001"
            assert len(made.events("tool_call")) == len(made.events("tool_output")) == 4
            said = [event["payload"].get("text") for event in made.events("message_end")]
            assert FINAL_WORDS in said
            assert any("attached to a running OpenClaw" in note for note in made.evidence()["coverage"]["notes"])
            again = answer(made, "attach", "openclaw")
            assert (again["run_id"], again["changes"]) == ("run_002", [])
            kept = [*(made.folder / "home" / ".openclaw" / "critiqor").iterdir(), *made.runs.rglob("*")]
            assert not [file for file in kept if file.is_file() and SECRET.encode() in file.read_bytes()]
            detached = answer(made, "detach", "openclaw")
            assert (detached["restored"], detached["run_id"]) == (True, "run_002")
            assert made.configuration.read_text() == mine
            turn(made)
            assert made.finalize()["run_id"] == "run_002"
            assert made.evidence("run_002")["coverage"]["agent_events"] == 0
        # The gateway is gone, and whatever it does at its end is done.
        assert made.configuration.read_text() == mine
        assert list((made.folder / "home" / ".openclaw" / "extensions").iterdir()) == []
        made.configuration.write_text(mine.removeprefix("// mine\n"))  # as the rig has written it


@pytest.mark.parametrize("version", ["2026.9.6", "2026.6.1"])
def test_an_openclaw_whose_configuration_is_outside_of_its_state_folder_is_attached_once_and_without_a_warning(
    version: str, tmp_path: Path
) -> None:
    with rig(tmp_path, version, extra=EXTRA) as made:
        made.configuration = made.configuration.rename(made.folder / "openclaw.json")
        made.environment["OPENCLAW_CONFIG_PATH"] = str(made.configuration)
        copied = made.folder / "extensions" / "critiqor"
        attached = answer(made, "attach", "openclaw")
        assert f"copied to {copied}, by" in attached["changes"][0]
        assert (copied / "index.js").is_file()
        settings = made.configuration.read_bytes()
        checks = {check["name"]: check for check in answer(made, "doctor")}
        assert checks["attachment"]["ok"]
        assert answer(made, "attach", "openclaw")["changes"] == []
        assert made.configuration.read_bytes() == settings
        with gateway(made):
            turn(made)
        log = (made.folder / "gateway.log").read_text()
        assert "unknown typed hook" not in log
        assert made.finalize()["run_id"] == "run_001"
        assert len(made.events("tool_call")) == len(made.events("tool_output")) == 4
        detached = answer(made, "detach", "openclaw")
        assert detached["restored"]
        assert not copied.exists()


def test_a_monitored_openclaw_that_starts_while_another_shell_attaches_is_not_disturbed(tmp_path: Path) -> None:
    with rig(tmp_path, VERSION, extra=EXTRA) as made:
        other = str(tmp_path / "other")
        attaching = subprocess.Popen(
            [str(BIN / "critiqor"), "attach", "openclaw", "--runs-dir", other],
            env=made.environment,
            cwd=made.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        wait_until((made.configuration.parent / "critiqor" / "attachment.json").exists)
        monitored = made.monitor(*LOCAL_TURN)
        said = attaching.communicate()[1].decode()
        assert (monitored.returncode, attaching.returncode) == (0, 0), f"{monitored.stderr}\n{said}"
        assert answer(made, "detach", "openclaw")["restored"]
