"""The example package, built, installed into an environment of its own and used through the verbs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from extension_packages import tool_call_records
from support import Runs

from critiqor.policy.policy_file import parse_policy

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "critiqor-example"
RULES = 'min_trust = 80\nmax_severity = "medium"\nmin_confidence = 0\n'
INCLUDED = re.compile(r"<!-- (examples/\S+) -->\n```\w+\n(.+?)```\n", re.DOTALL)
"""A file of the package on the page."""
CHAT = {
    "conversation": "c1",
    "messages": [
        {"role": "user", "text": "Run the tests.", "at": 1_700_000_000_000},
        {"role": "tool", "name": "exec", "arguments": {"command": "pytest -q"}, "result": "2 passed"},
        {"role": "assistant", "text": "Two tests passed."},
        {"role": "narrator", "text": "…"},
    ],
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Critiqor from this tree, and with the example built from its sources."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    # Setuptools writes into the folder that it builds.
    sources = shutil.copytree(EXAMPLE, folder / "example")
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *options, sources], check=True)
    return python


def critiqor(python: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "critiqor", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def started(runs: Runs) -> str:
    """A run with a call of `exec` that is not finalized yet."""
    run_id = runs.start()
    runs.write(run_id, *tool_call_records())
    return run_id


def test_doctor_lists_the_three_extensions(python: Path, tmp_path: Path) -> None:
    out = critiqor(python, tmp_path, "doctor").stdout
    for name in ("detector forbidden_tool", "exporter tool-calls-csv", "importer chat-log"):
        assert f"ok  extension: {name} of critiqor-example 0.1.0: ok" in out


def test_finding_is_shown_by_finalize_and_counted_by_check_on_request(
    python: Path, tmp_path: Path, started: str
) -> None:
    finalized = critiqor(python, tmp_path, "finalize", "--json", FORBIDDEN_TOOLS="exec")
    assert finalized.returncode == 0, finalized.stderr
    shown = critiqor(python, tmp_path, "show", started).stdout
    assert "`exec` was called, but it is forbidden" in shown
    assert "forbidden_tool (extension critiqor-example 0.1.0)" in shown
    assert "trust 100" in shown
    (tmp_path / "plain.toml").write_text(RULES)
    (tmp_path / "strict.toml").write_text(f'{RULES}count_extensions = ["critiqor-example"]\n')
    assert critiqor(python, tmp_path, "check", started, "--policy", "plain.toml").returncode == 0
    strict = critiqor(python, tmp_path, "check", started, "--policy", "strict.toml")
    assert strict.returncode == 3
    assert "NO  min_trust: trust is 70 with findings of extensions" in strict.stdout
    again = critiqor(python, tmp_path, "diagnose", started)
    assert "gone: forbidden_tool:exec" in again.stdout, "FORBIDDEN_TOOLS is not set now"


def test_exporter_writes_a_line_per_tool_call(python: Path, tmp_path: Path, started: str) -> None:
    assert critiqor(python, tmp_path, "finalize").returncode == 0
    written = critiqor(python, tmp_path, "export", started, "--format", "tool-calls-csv")
    assert "open it in any spreadsheet" in written.stderr
    header, line = (tmp_path / "run_001.tools.csv").read_text().splitlines()
    assert header == "time,agent_run,tool,status,duration_ms,event"
    assert ",run-1,exec,ok,7,evt_" in line


def test_importer_makes_a_run_of_a_chat_log(python: Path, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    imported = critiqor(python, tmp_path, "import", "chat.json", "--json")
    data = json.loads(imported.stdout)["data"]
    assert (data["format"], data["runs"][0]["trace_id"]) == ("chat-log", "c1")
    assert data["runs"][0]["notes"] == ["messages of an unknown role: 1 (narrator)"]
    types = [
        event["event_type"] for event in json.loads((tmp_path / "runs/run_001/session.json").read_bytes())["events"]
    ]
    assert [each for each in types if each.startswith(("tool", "input", "message", "agent"))] == [
        "agent_start",
        "input",
        "tool_call",
        "tool_output",
        "message_end",
        "agent_end",
    ]


def test_code_on_the_page_is_that_of_the_package() -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    included = INCLUDED.findall(text)
    assert {Path(name).name for name, _ in included} == {
        "pyproject.toml",
        "forbidden_tool.py",
        "tool_calls_csv.py",
        "chat_log.py",
    }
    policies = re.findall(r"```toml\n(.+?)```", INCLUDED.sub("", text), re.DOTALL)
    assert [parse_policy(each.encode(), "toml", ()).count_extensions for each in policies] == [("critiqor-example",)]
    assert [name for name, code in included if code != (ROOT / name).read_text()] == []
