"""The embedded loop with several turns or sessions, scripted tools, helpers or another shell in one process.

    python -m critiqor.lab.runners.embedded_host TALK

plays the talk of a JSON file: turns of one session one after the other, sessions at the same time.
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

from critiqor.agentloop.entry.host import opened_runtime
from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import Text
from critiqor.agentloop.tools.exec_ import ExecTool
from critiqor.agentloop.tools.registry import GuardedTool
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome
from critiqor.lab.scenario import ScriptedTool, Talk, Turn

LONGEST_SECONDS = 3600.0


class AnsweringTool:
    """A tool that only answers, whatever it is asked."""

    def __init__(self, script: ScriptedTool) -> None:
        self.parameters: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
        self.name = script.name
        self.description = f"Answers what was recorded of {script.name}."
        self._answers = list(script.answers)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """The next answer."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return ToolOutcome(content=[Text(answer.text)], is_error=answer.error)


class ShellTool(ExecTool):
    """The tool that runs commands, by a shell of the lab's own. The command of the call stays as it was recorded."""

    def __init__(self, shell: str) -> None:
        self._shell = shell

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run it in that shell."""
        command = shlex.join((self._shell, "-c", arguments["command"]))
        return await super().run({**arguments, "command": f"exec {command}"}, context)


async def hold(talk: Talk) -> bool:
    """Hold a talk to its end; whether it ended well. Of several turns none decides that, as in a gateway."""
    sessions: dict[str, list[Turn]] = defaultdict(list)
    for turn in talk.turns:
        sessions[turn.session].append(turn)
    # A tool of the same name takes the place of the loop's own.
    tools: list[Tool] = [AnsweringTool(script) for script in talk.tools]
    tools += [GuardedTool(ShellTool(talk.shell))] if talk.shell else []
    async with opened_runtime(os.environ, tools=tools) as runtime:
        helpers = [asyncio.ensure_future(_help(runtime, line)) for line in talk.helpers]
        ended = await asyncio.gather(*(_converse(runtime, session, turns) for session, turns in sessions.items()))
        await runtime.drain()
        await asyncio.gather(*helpers)
    return len(talk.turns) > 1 or all(ended)


async def _help(runtime: AgentRuntime, line: str) -> None:
    """Run a program that is no command of the agent, and tell how it ended."""
    began = time.perf_counter()
    output = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_shell(line, stdin=output, stdout=output, stderr=output)
    code = await process.wait()
    ended_by = signal.Signals(-code).name if code < 0 else None
    took_ms = (time.perf_counter() - began) * 1000
    runtime.services.diagnostics.child_exited(line, took_ms, None if code < 0 else code, ended_by)


async def _converse(runtime: AgentRuntime, session: str, turns: list[Turn]) -> bool:
    well = True
    for turn in turns:
        params = AgentParams(message=turn.message, session_key=f"agent:main:{session}")
        accepted = await runtime.agent(params)
        ended = await runtime.wait(accepted.run_id, LONGEST_SECONDS)
        well &= ended.status == "ok"
    return well


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(hold(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Talk))) else 1)
