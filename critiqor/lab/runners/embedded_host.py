"""The embedded loop in one process, with several turns or sessions, scripted tools, helpers or another shell.

    python -m critiqor.lab.runners.embedded_host FILE

runs the task in a JSON file: turns of one session in order, sessions in parallel.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from critiqor.agentloop.entry.runtime import AgentRuntime, open_runtime
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import Text
from critiqor.agentloop.tools.arguments import ValidatedTool
from critiqor.agentloop.tools.shell import ExecTool
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome
from critiqor.lab.scenario import EmbeddedTask, ScriptedTool, Turn, session_key_of

MAX_TURN_SECONDS = 3600.0


class _ReplayTool:
    """A tool that returns scripted results, whatever its arguments are."""

    def __init__(self, script: ScriptedTool) -> None:
        self.parameters: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
        self.name = script.name
        self.description = f"Returns recorded results of {script.name}."
        self._answers = list(script.answers)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Return the next result."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return ToolOutcome(content=[Text(answer.text)], is_error=answer.error)


class _ShellTool(ExecTool):
    """The exec tool with another shell. The command in the recorded call stays unchanged."""

    def __init__(self, shell: str) -> None:
        self._shell = shell

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run the command in that shell."""
        command = shlex.join((self._shell, "-c", arguments["command"]))
        return await super().run({**arguments, "command": f"exec {command}"}, context)


async def run_task(task: EmbeddedTask) -> bool:
    """Run a task to its end and return whether it succeeded; with several turns it always does, like a gateway."""
    sessions: dict[str, list[Turn]] = defaultdict(list)
    for turn in task.turns:
        sessions[turn.session].append(turn)
    # A tool of the same name replaces the loop's own.
    tools: list[Tool] = [_ReplayTool(script) for script in task.tools]
    tools += [ValidatedTool(_ShellTool(task.shell))] if task.shell else []
    async with open_runtime(os.environ, tools=tools) as runtime:
        helpers = [asyncio.ensure_future(_run_helper(runtime, line)) for line in task.helpers]
        ended = await asyncio.gather(*(_run_session(runtime, session, turns) for session, turns in sessions.items()))
        await runtime.drain()
        await asyncio.gather(*helpers)
    return len(task.turns) > 1 or all(ended)


async def _run_helper(runtime: AgentRuntime, line: str) -> None:
    """Run a program that is not a command of the agent, and report how it ended."""
    began = time.perf_counter()
    output = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_shell(line, stdin=output, stdout=output, stderr=output)
    code = await process.wait()
    ended_by = signal.Signals(-code).name if code < 0 else None
    took_ms = (time.perf_counter() - began) * 1000
    runtime.services.diagnostics.child_exited(line, took_ms, None if code < 0 else code, ended_by)


async def _run_session(runtime: AgentRuntime, session: str, turns: list[Turn]) -> bool:
    succeeded = True
    for turn in turns:
        params = AgentParams(message=turn.message, session_key=session_key_of(session))
        accepted = await runtime.agent(params)
        ended = await runtime.wait(accepted.run_id, MAX_TURN_SECONDS)
        succeeded &= ended.status == "ok"
    return succeeded


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(run_task(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=EmbeddedTask))) else 1)
