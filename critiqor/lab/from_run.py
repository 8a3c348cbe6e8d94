"""A recorded run made into a scenario: what the model did becomes its script, what tools answered becomes the world.

Commands are answered by a replay shell, so nothing is deployed, sent or deleted again. Files that were read are put
into the workspace; tools that read, write and look into memory really work there. What any other tool answered is
answered again by a scripted one, which only the embedded loop can offer. What cannot be played back is noted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec

from critiqor.diagnosis.detectors.provider_failure import cause_of
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

MOST_STEPS = 500
"""Steps of a script; a longer run is cut."""
HANGS_SECONDS = 600.0
TIMEOUT_SECONDS = 5.0
"""The time limit of a run that was ended by one: what it hung in hangs again, so that more would only be waiting."""
_COMMANDS = frozenset(("exec", "bash"))
_WORKING = frozenset(("write", "edit", "memory_search", "memory_get", "message", "sessions_spawn"))
"""Tools that work by themselves in any workspace."""
_WRAPPER = "tool_call"
"""The tool of OpenClaw that calls another one."""
_SUMMARISES = ":compaction:"
"""In the id of a model call that is made for a compaction."""
_UNKNOWN = re.compile(r"^(?:Tool \S+ not found|Validation failed for tool)")
"""What is said of a call without running it."""
_EXITED = re.compile(r"\n*\(Command exited with code \d+\)\s*$")
_STAMP = re.compile(r"^\[[^\]\n]{10,60}\] ")
"""The time that OpenClaw puts before a message."""
_SIGNALS: dict[int, Literal["KILL", "TERM", "INT", "HUP"]] = {129: "HUP", 130: "INT", 137: "KILL", 143: "TERM"}
"""What ends a program with such an exit code."""
_ENDS = frozenset(("completed", "failed", "interrupted", "timed_out"))
"""Outcomes that a run has of itself, and not because somebody looked at it too early."""
_ANSWERS: dict[str, dict[str, Any]] = {
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
"""What a provider does that fails for such a cause."""


class Drafted(NamedTuple):
    """A scenario as far as it could be made of a run."""

    scenario: Scenario
    notes: list[str]
    """What it is, and what could not be made part of it."""


def scenario_from_run(run_id: str, runs_dir: str | Path) -> Drafted:
    """Make a scenario of a run that was diagnosed."""
    run = Run.load(run_id, runs_dir)
    diagnosis = run.diagnosis()
    story = _Story()
    for event in run.events():
        story.observe(event)
    story.end()
    turns = story.turns()
    if not turns:
        raise CritiqorError(f"{run_id} holds no model call of an agent", fix=f"critiqor show {run_id}")
    notes = ["Made by critiqor lab from-run. [expect] is what was found then.", *dict.fromkeys(story.notes)]
    scenario = Scenario(
        name=re.sub(r"[^a-z0-9_-]", "-", run_id.lower()),
        description=f"Recorded as {run_id}: {diagnosis.headline}",
        on=("embedded",) if story.answers else PLATFORMS,
        because="OpenClaw cannot be given tools that only answer." if story.answers else "",
        turns=turns,
        summary=story.summary,
        world=World(
            files=story.files,
            commands=tuple(story.commands),
            tools=story.tools(),
            kill=story.kill(),
            timeout_s=TIMEOUT_SECONDS if story.timed_out else None,
        ),
        config={"tools": {"toolSearch": False}} if story.searched else {},
        provider=Provider(timeout_s=1.0) if story.stalls else Provider(),
        expect=_expectation(diagnosis),
    )
    return Drafted(scenario, notes)


def _expectation(diagnosis: Diagnosis) -> Expectation:
    types = tuple(dict.fromkeys(finding.type for finding in diagnosis.failure_analysis.findings))
    state = diagnosis.outcome.state
    return Expectation(
        primary=types[0] if types else None,
        findings=types[1:],
        absent=("*",) if types else (),
        outcome=state if state in _ENDS else None,
    )


class _Call(NamedTuple):
    """A tool call, without the wrapper behind which OpenClaw keeps most tools."""

    tool: str
    arguments: dict[str, Any]


class _Run:
    """One agent run on the way to a turn."""

    def __init__(self, session_key: str) -> None:
        self.session_key = session_key
        self.message = ""
        self.steps: list[ModelStep] = []
        self.spoken = True
        """Whether the last step has its words already."""

    def ask(self, step: ModelStep) -> None:
        self.steps.append(step)
        self.spoken = step.status != 200

    def change(self, **fields: Any) -> None:
        self.steps[-1] = msgspec.structs.replace(self.steps[-1], **fields)


class _Story:
    """Everything of a run that a scenario can play back."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.commands: list[Command] = []
        self.answers: dict[str, list[ToolAnswer]] = {}
        """What tools answered that neither the loop nor the world can answer for."""
        self.notes: list[str] = []
        self.summary: str | None = None
        """What a compaction is answered with, if there was one."""
        self.stalls = False
        self.searched = False
        """Whether tools were called through OpenClaw's search for tools."""
        self._runs: dict[str, _Run] = {}
        self._calls: dict[str | None, _Call] = {}
        self._written: set[str] = set()
        self._cut_off: list[int] = []
        """Which commands ended without an exit code: ended from outside, if the run was."""
        self._requests = 0
        self._exit_code = 0
        self.timed_out = False

    def observe(self, event: Event) -> None:
        if event.source_layer == "supervisor":
            if event.event_type == "process_end":
                code = event.payload.get("exit_code")
                self._exit_code = code if isinstance(code, int) else 0
            self.timed_out |= event.payload.get("reason") == "timeout"
            return
        run = self._runs.setdefault(event.agent_run_id or "", _Run(event.session_key or ""))
        match event.event_type:
            case "input":
                run.message = _STAMP.sub("", self._text(event.payload.get("text"), "a message")).strip()
            case "before_provider_request":
                self._requests += 1
            case "token_usage" if _SUMMARISES in str(event.payload.get("callId")):
                self.summary = "What was said before."
                self.notes.append("What the summary of a compaction said is not recorded: put it into `summary`.")
            case "token_usage":
                run.ask(self._answer(event))
            case "message_end":
                self._spoke(run, event)
            case "tool_call" if not event.payload.get("parent_tool_call_id"):
                self._called(run, event)
            case "tool_output":
                self._answered(event)

    def end(self) -> None:
        """Everything was observed: commands that never came back hang again, and are not run either."""
        if self._cut_off and (self.timed_out or self._exit_code in _SIGNALS):
            last = self._cut_off.pop()
            self.commands[last] = msgspec.structs.replace(self.commands[last], delay_s=HANGS_SECONDS)
        for place in self._cut_off:
            line = " ".join(self.commands[place].line.split())[:100]
            self.notes.append(f"A command that ended without an exit code exits with 1: {line}")
        for call in self._calls.values():
            line = _line_of(call.arguments)
            if call.tool in _COMMANDS and line:
                self.commands.append(Command(line=line, delay_s=HANGS_SECONDS))

    def turns(self) -> tuple[Turn, ...]:
        turns: list[Turn] = []
        for run in self._runs.values():
            if not run.steps:
                continue
            if len(run.steps) > MOST_STEPS:
                self.notes.append(f"Only the first {MOST_STEPS} of {len(run.steps)} steps are played.")
            message = self._unlike(run.message or "Go on.", turns)
            name = re.sub(r"[^a-z0-9-]", "-", run.session_key.rsplit(":", 1)[-1].lower())[:40]
            session = sys.intern(name or "main")
            spawned = ":subagent:" in run.session_key
            turns.append(Turn(message=message, session=session, spawned=spawned, steps=tuple(run.steps[:MOST_STEPS])))
        return tuple(turns)

    def tools(self) -> tuple[ScriptedTool, ...]:
        return tuple(ScriptedTool(name=name, answers=tuple(answers)) for name, answers in self.answers.items())

    def kill(self) -> Kill | None:
        """The signal by which it ended."""
        ended_by = _SIGNALS.get(self._exit_code)
        if ended_by is None or self.timed_out or not self._requests:
            return None
        hangs = self._calls or (self.commands and self.commands[-1].delay_s)
        during: Literal["model", "tool"] = "tool" if hangs else "model"
        return Kill(request=self._requests, during=during, signal=ended_by)

    def _unlike(self, message: str, turns: list[Turn]) -> str:
        """The model knows a turn by what the user says: those who say the same are told apart by a number."""
        same = sum(turn.message == message or turn.message.startswith(f"{message} (") for turn in turns)
        return f"{message} ({same + 1})" if same else message

    def _answer(self, event: Event) -> ModelStep:
        usage = event.payload.get("usage")
        tokens = usage if isinstance(usage, dict) else {}
        if event.status != "error":
            read = sum(as_count(tokens.get(name)) or 0 for name in ("input", "cacheRead", "cacheWrite"))
            return ModelStep(input_tokens=read, output_tokens=as_count(tokens.get("output")) or 0)
        error = event.error or ""
        category = str(event.payload.get("errorCategory") or "")
        cause = cause_of(ModelCall(order=0, event_id="", error=error, category=category))
        self.stalls |= cause == "stall"
        return ModelStep(error=error, **_ANSWERS.get(cause, {"status": 500}))

    def _spoke(self, run: _Run, event: Event) -> None:
        payload = event.payload
        text = self._text(payload.get("text"), "an answer")
        is_broken = payload.get("stop_reason") in ("error", "aborted")
        if payload.get("role") != "assistant" or (not text and not payload.get("tool_calls")):
            return
        if is_broken and run.spoken:
            return  # how a call failed is told by the call
        if run.spoken:
            run.ask(ModelStep())
        run.spoken = True
        if run.steps[-1].ends != "done":
            run.change(text=2 * text)  # of a broken answer half comes through
        else:
            run.change(text=text, finish="length" if payload.get("stop_reason") == "length" else "")

    def _called(self, run: _Run, event: Event) -> None:
        if not run.steps:
            run.ask(ModelStep())
        told = event.payload.get("arguments")
        call = _Call(event.tool_name or "unknown", told if isinstance(told, dict) else {})
        inner, arguments = call.arguments.get("id"), call.arguments.get("args")
        if call.tool == _WRAPPER and isinstance(inner, str) and isinstance(arguments, dict):
            call = _Call(inner, arguments)
            self.searched = True
        run.change(tools=(*run.steps[-1].tools, ToolUse(name=call.tool, arguments=call.arguments)))
        self._calls[event.tool_call_id] = call

    def _answered(self, event: Event) -> None:
        call = self._calls.pop(event.tool_call_id, None)
        if call is None or _UNKNOWN.search(event.error or ""):
            return
        result = event.payload.get("result")
        output = self._text(_words(result), f"what {call.tool} answered")
        if call.tool in _COMMANDS:
            self._ran(call.arguments, event, output, result)
        elif call.tool == "read":
            self._was_read(str(call.arguments.get("path") or ""), event, output)
        elif call.tool in _WORKING:
            self._written.add(str(call.arguments.get("path") or ""))
        else:
            answer = ToolAnswer(text=output or event.error or "", error=event.status == "error")
            self.answers.setdefault(call.tool, []).append(answer)

    def _ran(self, arguments: dict[str, Any], event: Event, output: str, result: Any) -> None:
        line = _line_of(arguments)
        if not line:
            return
        details = result.get("details") if isinstance(result, dict) else None
        code = details.get("exitCode") if isinstance(details, dict) else None
        told = code if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= 255 else None
        printed = _EXITED.sub("\n", output)
        silent = printed.strip() == "(no output)"
        if told is None and event.status == "error":
            self._cut_off.append(len(self.commands))
            told = 1
        self.commands.append(Command(line=line, output="" if silent else printed, exit_code=told or 0))

    def _was_read(self, path: str, event: Event, output: str) -> None:
        if event.status == "error" or path in self.files or path in self._written:
            return
        parts = PurePosixPath(path)
        if not path or parts.is_absolute() or ".." in parts.parts:
            self.notes.append(f"A file outside the workspace is read again where it is: {path}")
        else:
            self.files[path] = output

    def _text(self, value: Any, what: str) -> str:
        if isinstance(value, dict):
            self.notes.append(f"The recorder kept only the beginning of {what}.")
            value = value.get("excerpt")
        return value if isinstance(value, str) else ""


def _line_of(arguments: dict[str, Any]) -> str:
    return str(arguments.get("command") or arguments.get("cmd") or "")


def _words(result: Any) -> Any:
    """What a tool answered, as text; one that was too long is kept as an object."""
    content = result.get("content") if isinstance(result, dict) else result
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return texts[0] if len(texts) == 1 else "\n".join(text for text in texts if isinstance(text, str))
