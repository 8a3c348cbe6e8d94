"""The GitHub Action: each of its steps is executed as GitHub would do it, except the upload."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import BIN

from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import workspace_of, write_openclaw_home

ROOT = Path(__file__).parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
TESTS = (
    "import unittest\nclass T(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(1 + 1, {sum})\n"
)
MODEL = [
    Step(tools=(ToolUse(name="exec", arguments={"command": "python3 -m unittest -q test_sum"}),)),
    Step(text="All tests pass."),
]


class Job:
    """A job with one use of the action."""

    def __init__(self, folder: Path, environment: dict[str, str], **inputs: str) -> None:
        self.folder = folder
        self.environment = environment
        defaults = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.known = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
        self.known["github.action_path"] = str(folder / "action")

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        output = self.folder / "output"
        output.write_text("")
        variables = {name: self._value(value) for name, value in step.get("env", {}).items()}
        runner = {"RUNNER_TEMP": str(self.folder), "GITHUB_OUTPUT": str(output)}
        summary = {"GITHUB_STEP_SUMMARY": str(self.folder / "summary.md")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**self.environment, **runner, **summary, **variables},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.known[f"steps.{step['id']}.outputs.{name}"] = value
        return done

    def _value(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.known[found[1]], text)


def steps_named(*names: str) -> list[dict[str, Any]]:
    return [step for step in STEPS if step["name"] in names]


RECORDED = ("Record the agent", "Diagnose the run", "Write the files")


@pytest.mark.parametrize(("expected_sum", "code"), [(2, 0), (3, 3)])
def test_the_steps_record_diagnose_and_check_an_agent(tmp_path: Path, expected_sum: int, code: int) -> None:
    with ScriptedModel(MODEL) as model:
        environment = write_openclaw_home(tmp_path / "home", model.base_url)
        environment["PATH"] = os.pathsep.join((str(BIN), environment["PATH"]))
        workspace = workspace_of(tmp_path / "home")
        workspace.mkdir(parents=True)
        (workspace / "test_sum.py").write_text(TESTS.format(sum=expected_sum))
        message = 'Run the tests; print "$HOME" `id`'
        job = Job(tmp_path, environment, **{"message": message, "openclaw-command": "critiqor-agentloop"})
        for step in steps_named(*RECORDED):
            done = job.run(step)
            assert done.returncode == 0, done.stderr
        [check] = steps_named("Check the run")
        checked = job.run(check)

    assert message in str(model.requests[0]["messages"]), "the message is passed on as it is"
    assert checked.returncode == code, checked.stderr
    assert ("::error" in checked.stdout) is (code == 3)
    assert (tmp_path / "summary.md").read_text()
    files = {path.name for path in (tmp_path / "critiqor").iterdir()}
    assert files == {f"run_001{suffix}" for suffix in (".sarif", ".junit.xml", ".zip", ".html", ".md")}
    assert job.known["steps.files.outputs.folder"] == str(tmp_path / "critiqor")


def test_critiqor_is_installed_from_the_folder_of_the_action(tmp_path: Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if name.startswith(("critiqor/", "pyproject.toml", "README.md", "LICENSE")):
            (tmp_path / "action" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "action" / name)
    options = {"PIP_TARGET": str(tmp_path / "installed"), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    job = Job(tmp_path, {**os.environ, **options, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    [install] = steps_named("Install Critiqor")
    done = job.run(install)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed" / "critiqor" / "clawhub" / "critiqor-skill" / "SKILL.md").is_file()


def test_every_expression_of_the_action_is_known_and_no_input_is_a_part_of_a_script() -> None:
    assert all("${{" not in step.get("run", "") for step in STEPS)
    outputs = [one["value"] for one in ACTION["outputs"].values()]
    values = [value for step in STEPS for value in (*step.get("env", {}).values(), *step.get("with", {}).values())]
    named = {found for value in (*values, *outputs) for found in EXPRESSION.findall(value)}
    known = {f"inputs.{name}" for name in ACTION["inputs"]} | {"github.action_path"}
    assert named - known == {"steps.finalize.outputs.run", "steps.files.outputs.folder"}
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)
