"""Critiqor's MCP server and its skill in a real OpenClaw: an agent asks before it says that its work is done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openclaw.install import VERSIONS, install
from openclaw.rig import BIN, LOCAL_TURN, Rig, rig

import critiqor
from critiqor.lab.model.scripted_model import Step, ToolUse
from critiqor.spans.calls import OWN_TOOLS

SKILL = Path(critiqor.__file__).parent / "clawhub" / "critiqor-skill"
CLAIM = "All tests pass."
REPORTED_FAILURE, REPORTED_SUCCESS = "A test still fails.", "All tests pass."
TESTS = (
    "import unittest\nclass T(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(1 + 1, {sum})\n"
)


def server(made_runs: Path) -> dict[str, Any]:
    """The configuration that `openclaw mcp add` writes."""
    arguments = ["mcp", "--runs-dir", str(made_runs)]
    entry = {"command": str(BIN / "critiqor"), "args": arguments, "connectionTimeoutMs": 120_000}
    return {"mcp": {"servers": {"critiqor": entry}}}


def steps(version: str) -> list[Step]:
    """A model that reads the skill, runs the tests, asks Critiqor, and branches on what it answers."""
    is_direct = version == "2026.6.1"  # 2026.9.6 has the tools behind tool_search
    ask = ToolUse("c", "critiqor__check_claim", {"claim": CLAIM})
    hidden = ToolUse("c", "tool_call", {"id": "critiqor__check_claim", "args": {"claim": CLAIM}})
    return [
        Step(tools=(ToolUse("a", "read", {"path": "skills/critiqor/SKILL.md"}),)),
        Step(tools=(ToolUse("b", "exec", {"command": "python3 -m unittest -q test_sum"}),)),
        Step(tools=(ask if is_direct else hidden,)),
        Step(
            text="Critiqor gave no answer.",
            branches={"do not say it": Step(text=REPORTED_FAILURE), "it can be said": Step(text=REPORTED_SUCCESS)},
        ),
    ]


def equip(made: Rig, *, expected_sum: int) -> None:
    """Install the skill in the workspace, and a test that passes if the sum is right."""
    made.workspace.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SKILL, made.workspace / "skills" / "critiqor")
    (made.workspace / "test_sum.py").write_text(TESTS.format(sum=expected_sum))


@pytest.mark.parametrize(("expected_sum", "report"), [(3, REPORTED_FAILURE), (2, REPORTED_SUCCESS)])
def test_an_agent_with_the_skill_reports_what_was_recorded(
    tmp_path: Path, version: str, expected_sum: int, report: str
) -> None:
    with rig(tmp_path, version, steps(version), server(tmp_path / "runs")) as made:
        equip(made, expected_sum=expected_sum)
        done = made.monitor(*LOCAL_TURN)
        assert done.returncode == 0, done.stderr
        made.finalize()
        requests = [json.dumps(request) for request in made.model.requests]

    assert report in done.stdout
    assert "before you say that something is done" in requests[0], "the skill is in the system prompt"
    assert "Before you report" in requests[1], "the agent has read the skill"
    [asked] = [event for event in made.events("tool_call") if event["tool_name"] == "critiqor__check_claim"]
    assert asked["payload"]["arguments"] == {"claim": CLAIM}
    diagnosis = json.loads((made.runs / "run_001" / "diagnosis.json").read_text())
    assert [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]] == []
    assert diagnosis["outcome"]["task"]["verdict"] != ("not_achieved" if expected_sum == 2 else "achieved")


def test_openclaw_adds_the_server_and_finds_its_tools(tmp_path: Path, version: str) -> None:
    with rig(tmp_path, version) as made:
        before = made.configuration.read_bytes()
        added = made.openclaw(
            "mcp", "add", "critiqor", "--connect-timeout", "120", "--command", str(BIN / "critiqor"),
            "--arg", "mcp", "--arg", "--runs-dir", "--arg", str(made.runs),
        )  # fmt: skip
        assert added.returncode == 0, added.stderr
        probed = made.openclaw("mcp", "probe", "--json", "critiqor")
        made.configuration.write_bytes(before)

    assert probed.returncode == 0, probed.stderr
    found = json.loads(probed.stdout)
    assert sorted(found["tools"]) == sorted(f"critiqor__{name}" for name in OWN_TOOLS)
    assert found["diagnostics"] == []


def test_openclaw_accepts_the_skill(tmp_path: Path, version: str) -> None:
    with rig(tmp_path, version) as made:
        equip(made, expected_sum=2)
        checked = made.openclaw("skills", "check", "--json")
    assert checked.returncode == 0, checked.stderr
    assert "critiqor" in json.loads(checked.stdout)["eligible"]


@pytest.mark.parametrize("of_version", VERSIONS)
def test_the_validator_in_the_package_of_openclaw_accepts_the_skill(of_version: str) -> None:
    package = install(of_version).parent.parent / "openclaw"
    script = package / "skills" / "skill-creator" / "scripts" / "quick_validate.py"
    ended = subprocess.run([sys.executable, str(script), str(SKILL)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, "Skill is valid!")
