"""Make a scenario from a recorded run: the model's responses become its script, tool results become its world.

Commands are answered by a replay shell, so nothing is deployed, sent or deleted again. Files that were read are put
into the workspace, where the tools for files and memory really work. Results of other tools are replayed by a scripted
tool, which only the embedded loop can offer. What cannot be replayed is noted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec

from critiqor.diagnosis.signals.provider_errors import provider_failure_cause
from critiqor.errors import CritiqorError
from critiqor.importers.values import as_count
from critiqor.lab.model.model_script import ToolUse
from critiqor.lab.scenario import (
    PLATFORMS,
    Command,
    Expectation,
    Kill,
    ModelStep,
    Provider,
    Scenario,
    ScriptedTool,
    ToolAnswer,
    Turn,
    World,
)
from critiqor.model import Diagnosis, Event
from critiqor.run.store import Run
from critiqor.spans.calls import ModelCall
from critiqor.spans.pairing import Pairing, SpanPairer
from critiqor.spans.tool_results import tool_outcome

MAX_STEPS = 500
"""Steps of a script; a longer run is cut."""
HANG_SECONDS = 600.0
TIMEOUT_SECONDS = 5.0
"""The time limit of a run that timed out. Whatever hung will hang again, so a longer limit would only waste time."""
_COMMAND_TOOLS = frozenset(("exec", "bash"))
_WORKSPACE_TOOLS = frozenset(("write", "edit", "memory_search", "memory_get", "message", "sessions_spawn"))
"""Tools that work in any workspace and need no script."""
_WRAPPER = "tool_call"
"""OpenClaw's tool that calls another tool."""
_COMPACTION_CALL = ":compaction:"
"""Part of the id of a model call that writes the summary of a compaction."""
_NOT_EXECUTED = re.compile(r"^(?:Tool \S+ not found|Validation failed for tool)")
"""Errors of tool calls that were rejected before execution."""
_EXIT_NOTE = re.compile(r"\n*\(Command exited with code \d+\)\s*$")
_TIME_PREFIX = re.compile(r"^\[[^\]\n]{10,60}\] ")
"""The time that OpenClaw puts before a message."""
_SIGNALS: dict[int, Literal["KILL", "TERM", "INT", "HUP"]] = {129: "HUP", 130: "INT", 137: "KILL", 143: "TERM"}
"""Signals by the exit code of a process that they ended."""
_FINAL_OUTCOMES = frozenset(("completed", "failed", "interrupted", "timed_out"))
"""Outcomes that do not depend on when the recording was finalized."""
_FAILURES: dict[str, dict[str, Any]] = {
    "auth": {"status": 401},
    "billing": {"status": 402},
    "rate_limit": {"status": 429},
    "server": {"status": 500},
    "context": {"status": 400},
    "rejected": {"status": 400},
    "malformed": {"ends": "malformed", "text": "…"},
    "network": {"ends": "disconnect", "text": "…"},
    "stall": {"ends": "stall", "text": "…"},
}
"""How the scripted provider fails, by the cause of a failed model call."""


class DraftedScenario(NamedTuple):
    """A scenario made from a run."""

    scenario: Scenario
    notes: list[str]
    """Where it comes from, and what could not be replayed."""


def scenario_from_run(run_id: str, runs_dir: str | Path) -> DraftedScenario:
    """Make a scenario from a diagnosed run."""
    run = Run.load(run_id, runs_dir)
    diagnosis = run.diagnosis
    replay = _Replay()
    for event in run.events():
        replay.observe(event)
    replay.finish()
    turns = replay.turns()
    if not turns:
        raise CritiqorError(f"{run_id} contains no model call of an agent", fix=f"critiqor show {run_id}")
    notes = [
        "Made by critiqor lab from-run. [expect] contains the findings of the recorded run.",
        *dict.fromkeys(replay.notes),
    ]
    scenario = Scenario(
        name=re.sub(r"[^a-z0-9_-]", "-", run_id.lower()),
        description=f"Recorded as {run_id}: {diagnosis.headline}",
        on=("embedded",) if replay.results else PLATFORMS,
        because="Scripted tools work on the embedded agent loop only." if replay.results else "",
        turns=turns,
        summary=replay.summary,
        world=World(
            files=replay.files,
            commands=tuple(replay.commands),
            tools=replay.tools(),
            kill=replay.kill(),
            timeout_s=TIMEOUT_SECONDS if replay.timed_out else None,
        ),
        config={"tools": {"toolSearch": False}} if replay.uses_tool_search else {},
        provider=Provider(timeout_s=1.0) if replay.stalls else Provider(),
        expect=_expectation(diagnosis),
    )
    return DraftedScenario(scenario, notes)


def _expectation(diagnosis: Diagnosis) -> Expectation:
    types = tuple(dict.fromkeys(finding.type for finding in diagnosis.failure_analysis.own_findings))
    state = diagnosis.outcome.state
    return Expectation(
        primary=types[0] if types else None,
        findings=types[1:],
        absent=("*",) if types else (),
        outcome=state if state in _FINAL_OUTCOMES else None,
    )


class _Call(NamedTuple):
    """A tool call, without the wrapper that OpenClaw puts around most tools."""

    tool: str
    arguments: dict[str, Any]


class _TurnDraft:
    """One agent run that becomes a turn of the scenario."""

    def __init__(self, session_key: str) -> None:
        self.session_key = session_key
        self.message = ""
        self.steps: list[ModelStep] = []
        self.has_reply = True
        """Whether the last step has its text already."""

    def add_step(self, step: ModelStep) -> None:
        self.steps.append(step)
        self.has_reply = step.status != 200

    def change_last_step(self, **fields: Any) -> None:
        self.steps[-1] = msgspec.structs.replace(self.steps[-1], **fields)


class _Replay:
    """Everything of a run that a scenario can replay."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.commands: list[Command] = []
        self.results: dict[str, list[ToolAnswer]] = {}
        """Results of tools that neither the loop nor the workspace has."""
        self.notes: list[str] = []
        self.summary: str | None = None
        """The summary that a compaction gets, if there was a compaction."""
        self.stalls = False
        self.uses_tool_search = False
        """Whether tools were called through OpenClaw's tool search."""
        self.timed_out = False
        self._turns: dict[str, _TurnDraft] = {}
        self._pairer = SpanPairer[_Call](("tool",))
        self._open_calls: list[_Call] = []
        """Tool calls without a result, when all events were observed."""
        self._written: set[str] = set()
        self._without_exit_code: list[int] = []
        """Indexes of commands that ended without an exit code: they were killed, if the run was."""
        self._requests = 0
        self._exit_code = 0

    def observe(self, event: Event) -> None:
        """Add one event."""
        if event.source_layer == "supervisor":
            if event.event_type == "process_end":
                code = event.payload.get("exit_code")
                self._exit_code = code if isinstance(code, int) else 0
            self.timed_out |= event.payload.get("reason") == "timeout"
            return
        turn = self._turns.setdefault(event.agent_run_id or "", _TurnDraft(event.session_key or ""))
        if (pairing := self._pairer.observe(event)) is not None:
            self._add_tool_event(turn, pairing, event)
            return
        match event.event_type:
            case "input":
                turn.message = _TIME_PREFIX.sub("", self._text(event.payload.get("text"), "a message")).strip()
            case "before_provider_request":
                self._requests += 1
            case "token_usage" if _COMPACTION_CALL in str(event.payload.get("callId")):
                self.summary = "What was said before."
                self.notes.append("The summary of a compaction is not recorded: put it into `summary`.")
            case "token_usage":
                turn.add_step(self._model_step(event))
            case "message_end":
                self._add_reply(turn, event)

    def finish(self) -> None:
        """Complete the commands after the last event: those without a result hang again in the replay."""
        if self._without_exit_code and (self.timed_out or self._exit_code in _SIGNALS):
            last = self._without_exit_code.pop()
            self.commands[last] = msgspec.structs.replace(self.commands[last], delay_s=HANG_SECONDS)
        for index in self._without_exit_code:
            line = " ".join(self.commands[index].line.split())[:100]
            self.notes.append(f"This command had no recorded exit code; the scenario uses 1: {line}")
        open_spans = (span for pairing in self._pairer.finish() for span in pairing.cut)
        self._open_calls = [span.data for span in open_spans if span.data is not None]
        for call in self._open_calls:
            line = _command_line(call.arguments)
            if call.tool in _COMMAND_TOOLS and line:
                self.commands.append(Command(line=line, delay_s=HANG_SECONDS))

    def turns(self) -> tuple[Turn, ...]:
        """Return one turn for each agent run with a model call."""
        turns: list[Turn] = []
        for draft in self._turns.values():
            if not draft.steps:
                continue
            if len(draft.steps) > MAX_STEPS:
                self.notes.append(f"Only the first {MAX_STEPS} of {len(draft.steps)} steps are played.")
            message = _unique_message(draft.message or "Go on.", turns)
            name = re.sub(r"[^a-z0-9-]", "-", draft.session_key.rsplit(":", 1)[-1].lower())[:40]
            session = sys.intern(name or "main")
            spawned = ":subagent:" in draft.session_key
            steps = tuple(draft.steps[:MAX_STEPS])
            turns.append(Turn(message=message, session=session, spawned=spawned, steps=steps))
        return tuple(turns)

    def tools(self) -> tuple[ScriptedTool, ...]:
        """Return the tools that replay recorded results."""
        return tuple(ScriptedTool(name=name, answers=tuple(results)) for name, results in self.results.items())

    def kill(self) -> Kill | None:
        """Return the signal that ended the run, and when."""
        signal = _SIGNALS.get(self._exit_code)
        if signal is None or self.timed_out or not self._requests:
            return None
        hangs = self._open_calls or (self.commands and self.commands[-1].delay_s)
        during: Literal["model", "tool"] = "tool" if hangs else "model"
        return Kill(request=self._requests, during=during, signal=signal)

    def _model_step(self, event: Event) -> ModelStep:
        usage = event.payload.get("usage")
        tokens = usage if isinstance(usage, dict) else {}
        if event.status != "error":
            read = sum(as_count(tokens.get(name)) or 0 for name in ("input", "cacheRead", "cacheWrite"))
            return ModelStep(input_tokens=read, output_tokens=as_count(tokens.get("output")) or 0)
        error = event.error or ""
        category = str(event.payload.get("errorCategory") or "")
        cause = provider_failure_cause(ModelCall(order=0, event_id="", error=error, category=category))
        self.stalls |= cause == "stall"
        return ModelStep(error=error, **_FAILURES.get(cause, {"status": 500}))

    def _add_reply(self, turn: _TurnDraft, event: Event) -> None:
        payload = event.payload
        text = self._text(payload.get("text"), "an answer")
        is_broken = payload.get("stop_reason") in ("error", "aborted")
        if payload.get("role") != "assistant" or (not text and not payload.get("tool_calls")):
            return
        if is_broken and turn.has_reply:
            return  # the failure is in the step of the model call already
        if turn.has_reply:
            turn.add_step(ModelStep())
        turn.has_reply = True
        if turn.steps[-1].ends != "done":
            turn.change_last_step(text=2 * text)  # only half of a broken answer is sent
        else:
            turn.change_last_step(text=text, finish="length" if payload.get("stop_reason") == "length" else "")

    def _add_tool_event(self, turn: _TurnDraft, pairing: Pairing[_Call], event: Event) -> None:
        if pairing.opened is not None and not pairing.opened.is_inner:
            pairing.opened.data = self._add_call(turn, event)
        elif pairing.closed is not None and pairing.closed.data is not None:
            self._add_result(pairing.closed.data, event)

    def _add_call(self, turn: _TurnDraft, event: Event) -> _Call:
        if not turn.steps:
            turn.add_step(ModelStep())
        arguments = event.payload.get("arguments")
        call = _Call(event.tool_name or "unknown", arguments if isinstance(arguments, dict) else {})
        inner_tool, inner_arguments = call.arguments.get("id"), call.arguments.get("args")
        if call.tool == _WRAPPER and isinstance(inner_tool, str) and isinstance(inner_arguments, dict):
            call = _Call(inner_tool, inner_arguments)
            self.uses_tool_search = True
        use = ToolUse(name=call.tool, arguments=call.arguments)
        turn.change_last_step(tools=(*turn.steps[-1].tools, use))
        return call

    def _add_result(self, call: _Call, event: Event) -> None:
        if _NOT_EXECUTED.search(event.error or ""):
            return
        result = event.payload.get("result")
        output = self._text(_result_text(result), f"the output of {call.tool}")
        if call.tool in _COMMAND_TOOLS:
            self._add_command(call.arguments, event, output)
        elif call.tool == "read":
            self._add_file(str(call.arguments.get("path") or ""), event, output)
        elif call.tool in _WORKSPACE_TOOLS:
            self._written.add(str(call.arguments.get("path") or ""))
        else:
            answer = ToolAnswer(text=output or event.error or "", error=event.status == "error")
            self.results.setdefault(call.tool, []).append(answer)

    def _add_command(self, arguments: dict[str, Any], event: Event, output: str) -> None:
        line = _command_line(arguments)
        if not line:
            return
        exit_code = tool_outcome(event.payload.get("result")).exit_code
        if exit_code is not None and not 0 <= exit_code <= 255:
            exit_code = None
        printed = _EXIT_NOTE.sub("\n", output)
        is_silent = printed.strip() == "(no output)"
        if exit_code is None and event.status == "error":
            self._without_exit_code.append(len(self.commands))
            exit_code = 1
        self.commands.append(Command(line=line, output="" if is_silent else printed, exit_code=exit_code or 0))

    def _add_file(self, path: str, event: Event, output: str) -> None:
        if event.status == "error" or path in self.files or path in self._written:
            return
        parts = PurePosixPath(path)
        if not path or parts.is_absolute() or ".." in parts.parts:
            self.notes.append(f"This file is outside the workspace and is read from its real path: {path}")
        else:
            self.files[path] = output

    def _text(self, value: Any, what: str) -> str:
        if isinstance(value, dict):
            self.notes.append(f"The recorder kept only the beginning of {what}.")
            value = value.get("excerpt")
        return value if isinstance(value, str) else ""


def _unique_message(message: str, turns: list[Turn]) -> str:
    """Number messages that are the same: the scripted model recognizes a turn by its message."""
    same = sum(turn.message == message or turn.message.startswith(f"{message} (") for turn in turns)
    return f"{message} ({same + 1})" if same else message


def _command_line(arguments: dict[str, Any]) -> str:
    return str(arguments.get("command") or arguments.get("cmd") or "")


def _result_text(result: Any) -> Any:
    """Return the text of a tool result; the recorder replaces a text that is too long with an object."""
    content = result.get("content") if isinstance(result, dict) else result
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return texts[0] if len(texts) == 1 else "\n".join(text for text in texts if isinstance(text, str))
