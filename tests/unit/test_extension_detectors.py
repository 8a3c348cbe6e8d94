"""Detectors of extensions: what they find is listed, and whatever they do, the diagnosis is complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from extension_packages import Packages, tool_call_records
from support import Runs, recorded

import critiqor
from critiqor.extensions import detection
from critiqor.extensions.entry_points import installed
from critiqor.model import Diagnosis


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    return Packages(tmp_path / "packages", monkeypatch)


def sealed(runs: Runs) -> critiqor.Run:
    """A run with one tool call."""
    run_id = runs.start()
    runs.write(run_id, *tool_call_records())
    runs.finalize(run_id)
    return critiqor.Run.load(run_id, runs.folder)


def without_extensions(diagnosis: Diagnosis) -> Diagnosis:
    own = diagnosis.failure_analysis.own_findings
    analysis = msgspec.structs.replace(diagnosis.failure_analysis, findings=own)
    return msgspec.structs.replace(diagnosis, failure_analysis=analysis, extensions=[], generated_at="")


def test_without_extensions_none_is_listed_and_no_process_is_started(
    runs: Runs, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    packages.install("other", "", group="exporters", nothing=":NOTHING")
    assert installed("critiqor.detectors") == []
    assert sealed(runs).diagnosis.extensions == []


def test_a_verification_starts_no_detector_of_an_extension_and_does_not_compare_its_findings(
    runs: Runs, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.detector("team-rules")
    run = sealed(runs)
    assert run.diagnosis.failure_analysis.findings[-1].extension is not None
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    check = run.verify(rediagnose=True).checks[-1]
    assert (check.name, check.state) == ("rediagnosis", "passed")
    assert check.explanation.endswith("findings of extensions were not compared")


def test_finding_of_an_extension_names_its_package_and_changes_no_verdict(runs: Runs, packages: Packages) -> None:
    run = sealed(runs)
    before = run.diagnosis
    packages.detector("team-rules")
    diagnosis = critiqor.diagnose(run)
    [state] = diagnosis.extensions
    assert (state.package, state.version, state.detector) == ("team-rules", "1.2", "forbidden_tool")
    assert (state.state, state.reason, state.findings) == ("ok", None, 1)
    finding = diagnosis.failure_analysis.findings[-1]
    assert finding.extension is not None
    assert (finding.extension.package, finding.extension.version, finding.extension.trust_points) == (
        "team-rules",
        "1.2",
        50,
    )
    assert (finding.id, finding.cause, finding.severity) == ("finding_001", "forbidden_tool:exec", "critical")
    assert finding.impact.trust_points == 0
    assert without_extensions(diagnosis) == without_extensions(before)
    assert (diagnosis.trust_score, diagnosis.readiness) == (100, before.readiness)


SESSION_DETECTOR = """
from critiqor.extensions.detector import Draft, SessionDetector, ToolCall

TYPE = "busy_session"
MEANING = "a session with many agent runs"


class BusySession(SessionDetector[ToolCall]):
    OBSERVES = (ToolCall,)

    def __init__(self):
        self._runs, self._calls = [], []

    @classmethod
    def is_needed(cls, runs):
        return len(runs) >= 2

    def begin_run(self, run):
        self._runs.append(run)

    def observe(self, span):
        self._calls.append(span)

    def findings(self):
        title = f"{len(self._runs)} agent runs, {len(self._calls)} tool calls"
        evidence = [call.call for call in self._calls]
        return [
            Draft(type=TYPE, about=(), severity="low", confidence=50, title=title, explanation="-", evidence=evidence,
                  recommendation="-", verification="-")
        ]
"""


def test_session_detector_gets_all_agent_runs_of_a_session(runs: Runs, packages: Packages) -> None:
    packages.install("sessions", SESSION_DETECTOR, busy_session="")
    assert sealed(runs).diagnosis.failure_analysis.findings == []
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c2", "agent_run_id": "run-2"}
    second = [
        recorded(6, agent_run_id="run-2"),
        recorded(7, "tool_call", **call),
        recorded(8, "tool_output", **call),
        recorded(9, "agent_end", agent_run_id="run-2"),
    ]
    runs.seal(*tool_call_records(), *second)
    [found] = critiqor.Run.load("run_002", runs.folder).diagnosis.failure_analysis.findings
    assert (found.type, found.title) == ("busy_session", "2 agent runs, 2 tool calls")


BAD = {
    "raises": ("raise ValueError('no such luck')", "failed", "ValueError: no such luck"),
    "exits": ("raise SystemExit(3)", "failed", "SystemExit: 3"),
    "exits_at_once": ("import os; os._exit(7)", "failed", "its process exited with code 7"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed", "killed by SIGSEGV"),
    "eats_memory": ("bytearray(8 << 30)", "failed", "MemoryError"),
    "returns_nonsense": ("return [1, 2]", "failed", "AttributeError"),
    "returns_wrong_types": (
        "return [Draft(type=TYPE, about=(), severity='awful', confidence='x', title='', explanation='', evidence=[],"
        " recommendation='', verification='')]",
        "failed",
        "Error",
    ),
    "other_type": (
        "return [Draft(type='timeout', about=(), severity='low', confidence=1, title='', explanation='', evidence=[],"
        " recommendation='', verification='')]",
        "failed",
        "a draft of type timeout",
    ),
    "prints": ("import sys, os; print('garbage' * 100_000); os.write(1, b'{'); os.write(2, b'}')", "ok", None),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_detector_is_reported_by_name_and_the_others_run(name: str, runs: Runs, packages: Packages) -> None:
    body, state, reason = BAD[name]
    packages.detector("bad", f"bad_{name}", body)
    packages.detector("good")
    diagnosis = sealed(runs).diagnosis
    bad, good = diagnosis.extensions
    assert (bad.package, bad.detector, bad.state) == ("bad", f"bad_{name}", state)
    assert (reason is None and bad.reason is None) or str(reason) in str(bad.reason)
    assert (good.package, good.state, good.findings) == ("good", "ok", 1)
    assert runs.status(diagnosis.run_id) == "COMPLETED"
    assert diagnosis.trust_score == 100


def test_detector_that_hangs_is_killed_with_what_it_started(
    runs: Runs, packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "LIMIT_SECONDS", 1.0)
    mark = tmp_path / "survived"
    hang = f"import subprocess; subprocess.run(['sh', '-c', 'sleep 60; touch {mark}'])"
    packages.detector("slow", "slow_one", hang)
    [state] = sealed(runs).diagnosis.extensions
    assert (state.state, state.reason) == ("timed out", "it had not ended after 1 s")
    assert not mark.exists()


UNUSABLE = {
    "import fails": ("import no_such_module", "ModuleNotFoundError"),
    "no type": ("MEANING = 'x'", "TYPE must be"),
    "no meaning": ("TYPE = 'unusable'", "MEANING must say"),
    "no class": ("TYPE, MEANING = 'unusable', 'nothing'", "no class that inherits"),
    "taken": ("TYPE, MEANING = 'tool_loop', 'ours'", "the type tool_loop is taken"),
    "other name": (
        "from critiqor.extensions.detector import *\nTYPE, MEANING = 'another', 'x'\n"
        "class D(RunDetector):\n    NEEDS = OBSERVES = (ToolCall,)\n    observe = findings = lambda *_: []\n",
        "its TYPE is another",
    ),
    "abstract": (
        "from critiqor.extensions.detector import *\nTYPE, MEANING = 'unusable', 'x'\n"
        "class D(RunDetector):\n    pass\n",
        "D does not implement findings, observe",
    ),
    "no needs": (
        "from critiqor.extensions.detector import *\nTYPE, MEANING = 'unusable', 'x'\n"
        "class D(RunDetector):\n    OBSERVES = ('tool',)\n    observe = findings = lambda *_: []\n",
        "D.OBSERVES must be a tuple of kinds of spans",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_module_that_is_no_detector_is_reported_with_what_is_missing(name: str, runs: Runs, packages: Packages) -> None:
    code, reason = UNUSABLE[name]
    packages.install("unusable-package", code, unusable="")
    [state] = sealed(runs).diagnosis.extensions
    assert (state.package, state.detector, state.state) == ("unusable-package", "unusable", "failed")
    assert reason in str(state.reason)


def test_second_package_with_the_same_type_is_refused(runs: Runs, packages: Packages) -> None:
    packages.detector("aaa")
    packages.detector("bbb")
    first, second = sealed(runs).diagnosis.extensions
    assert (first.state, second.state, second.reason) == ("ok", "failed", "the type forbidden_tool is taken by aaa")


def test_detectors_after_one_that_crashed_are_reported_as_not_run(runs: Runs, packages: Packages) -> None:
    packages.install("two", "import os; os._exit(1)", first_one="", second_one="")
    first, second = sealed(runs).diagnosis.extensions
    assert first.reason == "its process exited with code 1"
    assert second.reason == "not run: the process ended in first_one"


def test_diagnosing_again_and_diagnosing_files_runs_extensions_too(
    runs: Runs, packages: Packages, tmp_path: Path
) -> None:
    run = sealed(runs)
    packages.detector("team-rules")
    assert [state.findings for state in critiqor.diagnose(run).extensions] == [1]
    assert [state.findings for state in critiqor.diagnose(run.evidence_path).extensions] == [1]
    trace = tmp_path / "trace.json"
    trace.write_text(
        '{"events": [{"type": "user", "text": "x"}, {"type": "tool_call", "tool": "exec", "args": {}},'
        ' {"type": "tool_result", "tool": "exec", "text": "ok"}, {"type": "end"}]}'
    )
    assert [state.findings for state in critiqor.diagnose(trace).extensions] == [1]


def test_process_that_cannot_be_started_is_reported_and_the_run_is_completed(
    runs: Runs, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "no more processes")

    packages.detector("team-rules")
    monkeypatch.setattr(subprocess, "Popen", refuse)
    [state] = sealed(runs).diagnosis.extensions
    assert (state.package, state.state) == ("team-rules", "failed")
    assert "no more processes" in str(state.reason)


def test_module_in_the_current_folder_does_not_replace_one_of_ours(
    runs: Runs, packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    (tmp_path / "msgspec.py").write_text("raise SystemExit('the wrong module')")
    packages.detector("team-rules")
    assert [state.state for state in sealed(runs).diagnosis.extensions] == ["ok"]
