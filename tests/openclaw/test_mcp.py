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
from support import Runs, attached, recorded

import critiqor
from critiqor.lab.model.scripted_model import Step, ToolUse
from critiqor.lab.verdict import MACHINE_DEPENDENT
from critiqor.spans.calls import OWN_TOOLS

SKILL = Path(critiqor.__file__).parent / "clawhub" / "critiqor-skill"
CLAIM = "All tests pass."
REPORTED_FAILURE, REPORTED_SUCCESS = "A test still fails.", "All tests pass."
THEIRS, OURS = "run_001", "run_002"
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


def failing_command() -> list[dict[str, Any]]:
    """A command that failed, as it is recorded."""
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c1"}
    result = {"content": [{"type": "text", "text": "1 failed"}], "details": {"exitCode": 1}}
    return [
        recorded(2, "agent_start", payload={"attempt": 1}),
        recorded(3, "input", payload={"role": "user", "text": "Run the tests."}),
        recorded(4, "tool_call", payload={"arguments": {"command": "npm test"}}, **call),
        recorded(5, "tool_output", status="error", error="exit code 1", payload={"result": result}, **call),
        recorded(6, "message_end", payload={"role": "assistant", "text": CLAIM, "stop_reason": "stop"}),
        recorded(7, "agent_end", payload={"success": True}),
    ]


def equip(made: Rig, *, expected_sum: int) -> None:
    """Install the skill in the workspace, and a test that passes if the sum is right."""
    made.workspace.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SKILL, made.workspace / "skills" / "critiqor")
    (made.workspace / "test_sum.py").write_text(TESTS.format(sum=expected_sum))


@pytest.mark.parametrize(
    ("version", "expected_sum", "report"),
    [*((version, 3, REPORTED_FAILURE) for version in VERSIONS), (VERSIONS[0], 2, REPORTED_SUCCESS)],
)
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
    found = {finding["type"] for finding in diagnosis["failure_analysis"]["findings"]}
    assert found <= MACHINE_DEPENDENT
    assert diagnosis["outcome"]["task"]["verdict"] != ("not_achieved" if expected_sum == 2 else "achieved")


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "list_runs": ({}, {"limit": 100_000}, "`int` <= 50"),
    "get_diagnosis": ({}, {"run": THEIRS}, "There is no such run here"),
    "explain_finding": ({"run": OURS}, {"run": OURS, "finding": "finding_777"}, "has no finding finding_777"),
    "get_conversation": ({"run": OURS}, {"run": OURS, "session": "nobody"}, "no session of that name"),
    "search_events": ({"run": OURS, "text": "test"}, {"run": OURS}, "pass text, event_type, tool_name or status"),
    "compare_runs": ({"before": OURS, "after": OURS}, {"before": OURS, "after": THEIRS}, "There is no such run here"),
    "verify_run": ({"run": OURS}, {"run": "../../etc/passwd"}, "There is no such run here"),
    "check_claim": ({"claim": CLAIM}, {"claim": " "}, "the claim is empty"),
}
"""A valid call of each tool, an invalid one or one about a run of another tenant, and what is answered to that one."""


def test_an_agent_gets_an_answer_of_every_tool_and_a_clear_error_for_a_wrong_call(tmp_path: Path, version: str) -> None:
    """OpenClaw may refuse arguments itself, by the schema of the tool."""

    def use(kind: str, name: str, arguments: dict[str, Any]) -> ToolUse:
        tool, call_id = f"critiqor__{name}", f"{kind}-{name}"
        if version == "2026.6.1":
            return ToolUse(call_id, tool, arguments)
        return ToolUse(call_id, "tool_call", {"id": tool, "args": arguments})

    right = Step(tools=tuple(use("right", name, given) for name, (given, _, _) in CALLS.items()))
    wrong = Step(tools=tuple(use("wrong", name, given) for name, (_, given, _) in CALLS.items()))
    folder = Runs(tmp_path / "runs")
    for tenant in ("theirs", "default"):
        run_id = folder.start(tenant_id=tenant)
        folder.write(run_id, attached(), *failing_command())
        folder.finalize(run_id)
    entry = server(tmp_path / "runs")
    entry["mcp"]["servers"]["critiqor"]["args"] += ["--tenant", "default"]
    with rig(tmp_path, version, [right, wrong, Step(text="Read.")], entry) as made:
        done = made.monitor(*LOCAL_TURN)
        assert done.returncode == 0, done.stderr
        made.finalize()
    answered = {event["tool_call_id"]: event for event in made.events("tool_output", "run_003")}
    named = {name: event for name, event in answered.items() if "critiqor__" in str(event["tool_name"])} or answered
    texts = {name: json.dumps(event["payload"]) for name, event in named.items()}
    for name, (_, _, message) in CALLS.items():
        [given] = [
            text for call_id, text in texts.items() if call_id.endswith(f"right-{name}") or f"right-{name}:" in call_id
        ]
        assert "notice" in given, given
        [refused] = [
            text for call_id, text in texts.items() if call_id.endswith(f"wrong-{name}") or f"wrong-{name}:" in call_id
        ]
        assert message.replace("`", "") in refused.replace("`", "") or "must be" in refused, refused
        assert "theirs" not in given and "Traceback" not in refused


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
