"""The embedded loop as a process under the monitor: recorded without Node, and whatever its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import PATIENCE_SECONDS, critiqor_command, measured, run_critiqor, wait_until

from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home

LOOP = f"{sys.executable} -m critiqor.agentloop"
TURN = ("agent", "--local", "--agent", "main", "--message", "do the thing")
SLEEP = (Step(text="I wait.", tools=(ToolUse("call_1", "exec", {"command": "sleep 300"}),)), Step(text="Done."))


class Home:
    """A home whose agent is the embedded loop, on a machine without Node."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.model = model
        # Where the shell is, and nothing of this project.
        home = write_openclaw_home(folder / "home", model.base_url)
        self.environment = {**home, "PATH": "/usr/bin:/bin", **measured()}

    def command(self, *options: str) -> list[str]:
        return critiqor_command("monitor", "openclaw", "--openclaw-command", LOOP, *options, "--", *TURN)

    def critiqor(self, *arguments: str) -> Any:
        done = run_critiqor(*arguments, "--json", home=self.folder, env=self.environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["data"]

    def monitor(self, *options: str) -> tuple[int, str]:
        done = run_critiqor(*self.command(*options)[1:], home=self.folder, env=self.environment)
        return done.returncode, done.stdout + done.stderr

    def evidence(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.runs / "run_001" / "session.json").read_bytes())
        return document

    def kinds(self) -> list[str]:
        return [event["event_type"] for event in self.evidence()["events"]]


@contextmanager
def home(folder: Path, *steps: Step) -> Iterator[Home]:
    with ScriptedModel(steps) as model:
        yield Home(folder, model)


def test_a_turn_is_recorded_and_diagnosed_without_node(tmp_path: Path) -> None:
    tool = Step(tools=(ToolUse("call_1", "exec", {"command": "echo hello"}),))
    with home(tmp_path, tool, Step(text="Done.")) as made:
        code, output = made.monitor()
        assert code == 0, output
        assert "Done." in output and "NOT RECORDING" not in output and "NOTHING WAS RECORDED" not in output
        live = made.evidence()
        assert "agent_end" in [event["event_type"] for event in live["events"]]
        record = made.critiqor("finalize", "--no-dashboard")
        assert record["trust_score"] is not None
        coverage = made.evidence()["coverage"]
        assert coverage["recorder_attached"] and coverage["missing_records"] == coverage["calls_without_results"] == 0
        assert made.critiqor("timeline", "run_001")["parse_errors"] == 0


def test_a_timeout_leaves_the_end_of_the_run_in_the_evidence(tmp_path: Path) -> None:
    with home(tmp_path, *SLEEP) as made:
        code, _ = made.monitor("--timeout", "4")
        assert code == 124
        record = made.critiqor("finalize", "--no-dashboard")
        assert record["diagnosis"]["outcome"]["state"] == "timed_out"
        assert made.kinds().count("tool_call") == 1
        assert made.evidence()["coverage"]["missing_records"] == 0


@pytest.mark.parametrize("kind", ["tool_call", "before_provider_request"])
def test_what_was_under_way_when_it_was_killed_is_in_the_evidence(kind: str, tmp_path: Path) -> None:
    steps = SLEEP if kind == "tool_call" else (Step(text="late", delay_s=300),)
    with home(tmp_path, *steps) as made:
        null = subprocess.DEVNULL
        monitor = psutil.Popen(made.command(), env=made.environment, cwd=tmp_path, stdin=null, stdout=null, stderr=null)
        journal = made.runs / "run_001" / "journal.jsonl"
        wait_until(lambda: journal.exists() and f'"{kind}"' in journal.read_text())
        for process in monitor.children(recursive=True):
            os.kill(process.pid, signal.SIGKILL)
        assert monitor.wait(PATIENCE_SECONDS) == 137
        record = made.critiqor("finalize", "--no-dashboard")
        assert record["diagnosis"]["outcome"]["state"] == "failed"
        coverage = made.evidence()["coverage"]
        assert coverage["damaged_records"] == coverage["missing_records"] == 0
        open_ends = "calls_without_results" if kind == "tool_call" else "requests_without_responses"
        assert coverage[open_ends] == 1
        assert made.critiqor("timeline", "run_001")["turns"][0]["ended"] is False


@pytest.mark.parametrize(
    ("answer", "is_contradicted"),
    [
        ("I sent the message to Ada on Telegram.", True),
        ("I could not send the message to Ada: the channel telegram is not configured.", False),
        ("NO_REPLY", False),
    ],
)
def test_a_message_that_no_channel_delivers_is_in_the_evidence_and_contradicts_the_claim_that_it_was_sent(
    tmp_path: Path, answer: str, is_contradicted: bool
) -> None:
    arguments = {"action": "send", "channel": "telegram", "target": "ada", "message": "The build is green."}
    with home(tmp_path, Step(tools=(ToolUse("call_1", "message", arguments),)), Step(text=answer)) as made:
        _, output = made.monitor()
        assert (answer if answer != "NO_REPLY" else "Message: `ada` failed") in output
        diagnosis = made.critiqor("finalize", "--no-dashboard")["diagnosis"]
        events = {event["event_type"]: event for event in made.evidence()["events"]}
        for kind in ("message_sent", "tool_output"):
            assert events[kind]["status"] == "error"
            assert "channel 'telegram' is not configured" in events[kind]["error"]
        found = [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]]
        assert ("false_success_claim" in found) is is_contradicted
        assert [claim["status"] == "contradicted" for claim in diagnosis["claims"]].count(True) == is_contradicted
