"""Packages with entry points, installed for one test: a folder on the path with a module and its metadata."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support import attached, recorded

DETECTOR = """
from critiqor.extensions.detector import Draft, RunDetector, ToolCall, cite_events

TYPE = "{type}"
MEANING = "a tool was called that must not be called"


class Found(RunDetector[ToolCall]):
    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall,)

    def __init__(self, run):
        super().__init__(run)
        self._calls = []

    def observe(self, span):
        self._calls.append(span)

    def findings(self):
        {body}
        return [
            Draft(
                type=TYPE,
                about=("exec",),
                severity="{severity}",
                confidence=90,
                title="exec was called",
                explanation="The policy of this team forbids exec.",
                evidence=cite_events(call.evidence for call in self._calls),
                scope=self.run.scope,
                recommendation="Remove exec from the tools of the agent.",
                verification="Run the task again: no finding of this type.",
            )
        ]
"""


def tool_call_records() -> list[dict[str, Any]]:
    """The records of an agent run that calls `exec` once."""
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c1"}
    output = {"result": {"details": {"exitCode": 0}}}
    return [
        attached(),
        recorded(2),
        recorded(3, "tool_call", payload={"arguments": {"command": "ls"}}, **call),
        recorded(4, "tool_output", payload=output, duration_ms=7, **call),
        recorded(5, "agent_end"),
    ]


class Packages:
    """Installs packages."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))

    def install(self, package: str, code: str, group: str = "detectors", version: str = "1.2", **points: str) -> None:
        """Install a module of the package's name; entry points have values relative to it."""
        module = package.replace("-", "_")
        sys.modules.pop(module, None)  # of another test
        importlib.invalidate_caches()
        (self._folder / f"{module}.py").write_text(code)
        metadata = self._folder / f"{module}-{version}.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        lines = [f"{name} = {module}{value}" for name, value in points.items()]
        with (metadata / "entry_points.txt").open("a") as file:
            file.write(os.linesep.join([f"[critiqor.{group}]", *lines, ""]))

    def detector(self, package: str, type_: str = "forbidden_tool", body: str = "", severity: str = "critical") -> None:
        """Install a package with one detector that finds every run with a tool call."""
        self.install(package, DETECTOR.format(type=type_, body=body, severity=severity), **{type_: ""})
