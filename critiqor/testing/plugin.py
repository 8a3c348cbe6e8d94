"""The plugin for pytest: the fixture `record_agent` records an agent run in a test.

pytest loads it in every environment in which Critiqor is installed, so it imports the rest when the fixture is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from critiqor.lab.model.model_script import Step
    from critiqor.testing.recorded_run import RecordedRun

EMBEDDED = "critiqor-agentloop"
"""The command of the embedded loop, which needs neither OpenClaw nor Node."""


class AgentRecorder:
    """Records agent runs of one test, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        """The home of an agent with a scripted model; its workspace is `.openclaw/workspace` in it."""
        self.runs_dir = folder / "runs"

    @property
    def workspace(self) -> Path:
        """The workspace of an agent with a scripted model; it is created when it is first asked for."""
        workspace = self.home / ".openclaw" / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        return workspace

    def __call__(
        self,
        message: str,
        *,
        command: str = EMBEDDED,
        model: Sequence[Step] = (),
        policy: Path | None = None,
        timeout_s: float = 600,
        environment: Mapping[str, str] | None = None,
    ) -> RecordedRun:
        """Send a message to an agent, and record, seal and diagnose what it does.

        `command` is the OpenClaw to run, or the embedded loop. With `model`, a scripted model answers, in a home of its
        own; without it, the agent has the configuration of the environment. The contracts of `policy` are checked.
        """
        from critiqor.api import Run
        from critiqor.errors import CritiqorError
        from critiqor.lab.model.scripted_model import ScriptedModel
        from critiqor.lab.runners.openclaw_home import write_openclaw_home
        from critiqor.run.store import RunStore
        from critiqor.testing.recorded_run import RecordedRun

        store = RunStore(self.runs_dir)
        with ExitStack() as opened:
            variables = dict(os.environ)
            if model:
                server = opened.enter_context(ScriptedModel(model))
                variables |= write_openclaw_home(self.home, server.base_url)
            variables |= environment or {}
            turn = ("agent", "--local", "--agent", "main", "--message", message)
            options = ("--timeout", str(timeout_s), "--openclaw-command", command)
            recorded = self._critiqor(variables, "monitor", "openclaw", *options, "--", *turn)
        is_recorded = store.active() is not None
        # The commands run in the folder of the test.
        named = ("--policy", str(policy.absolute())) if policy is not None else ()
        finalized = self._critiqor(variables, "finalize", "--no-dashboard", *named)
        if finalized.returncode != 0:
            problem = "the run could not be finalized" if is_recorded else "nothing was recorded"
            raise CritiqorError(f"{problem}:\n{recorded.stdout}{recorded.stderr}{finalized.stderr}")
        latest = store.runs()[-1]
        return RecordedRun(Run(latest.id, latest.paths), recorded.returncode, recorded.stdout)

    def _critiqor(self, variables: Mapping[str, str], verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Options of `monitor openclaw` come after the name of the program that it records.
        head, rest = ((verb, arguments[0]), arguments[1:]) if verb == "monitor" else ((verb,), arguments)
        return subprocess.run(
            [sys.executable, "-m", "critiqor", *head, "--runs-dir", str(self.runs_dir), *rest],
            env={**variables, "PATH": os.pathsep.join((str(Path(sys.executable).parent), variables.get("PATH", "")))},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def record_agent(tmp_path: Path) -> Callable[..., RecordedRun]:
    """Record an agent run: `record_agent("Fix the test.")` returns a `RecordedRun`. See `AgentRecorder`."""
    return AgentRecorder(tmp_path)
