"""The recorder plugin of OpenClaw and the recorder of the embedded loop write the same records for the same run."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from agentloop import Model, Rig, Say, Waiting, defaults
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import BEGIN, RUN, Recording
from support import BIN

from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.loop.external_agent import ExternalProgress, ExternalRequest
from critiqor.agentloop.models.model_client import Delta, ModelFailureError, ModelRequest, ModelStream
from critiqor.agentloop.recording.recorder import Recorder
from critiqor.agentloop.recording.segments import Segments
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome
from critiqor.storage import paths_for
from critiqor.storage.bounds import MAX_EXCERPT, MAX_PAYLOAD, MAX_TEXT
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

PLUGIN = Path(__file__).parent.parent.parent / "critiqor" / "clawhub" / "critiqor-openclaw"
REPLAYS = Path(__file__).parent.parent / "plugin"
HOOKS = (
    "before_agent_run",
    "llm_input",
    "llm_output",
    "model_call_started",
    "model_call_ended",
    "before_tool_call",
    "after_tool_call",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "session_start",
    "session_end",
    "message_received",
    "message_sent",
    "before_reset",
    "subagent_spawned",
    "subagent_ended",
)
"""Hooks that the plugin listens to, except those of a gateway."""
REPLAY = f"""
import {{ attach, newRun, stopClock }} from {json.dumps(str(REPLAYS / "support" / "harness.mjs"))};
let text = "";
for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
const t = {{ after() {{}} }};
const tick = stopClock(t);
const run = newRun(t);
const openclaw = attach();
let now = 0;
for (const row of text.trim().split("\\n").map((line) => JSON.parse(line))) {{
  if (row.t > now) tick(row.t - now);
  now = row.t;
  if (row.kind === "hook") openclaw.hook(row.name, row.event, row.context);
  else if (row.kind === "agent") openclaw.agent(row.event);
  else openclaw.transcript(row.event);
}}
tick(2000);
run.events();
process.stdout.write(run.text());
"""
SERIALISE = f"""
import {{ serializeRecord }} from {json.dumps(str(PLUGIN / "payload.js"))};
import {{ Redactor }} from {json.dumps(str(PLUGIN / "redact.js"))};
let text = "";
for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
const redactor = new Redactor(Buffer.from("key"));
for (const record of JSON.parse(text)) process.stdout.write(serializeRecord(record, redactor) + "\\n");
"""


def node(source: str, text: str) -> list[dict[str, Any]]:
    command = [str(BIN / "node"), "--input-type=module", "-e", source]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def comparable(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records in order, without what depends on the recorder: ids, and the usage of summaries."""
    ordered = sorted(lines, key=lambda line: str(line["event_id"]))
    kept = [line for line in ordered if line["event_type"] != "recorder_attached"]
    for line in kept:
        if ":compaction:" in line["payload"].get("callId", ""):
            line["payload"].pop("usage", None)
    return [{name: value for name, value in line.items() if name != "event_id"} for line in kept]


class Clock:
    """Time that passes only where a model or a tool takes some."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


class Capture:
    """Everything that the loop emits for plugins, in order: rows that the plugin's test harness can replay."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: list[bytes] = []

    def attach(self, hooks: PluginHooks, streams: EventStreams, updates: TranscriptUpdates) -> None:
        for name in HOOKS:
            hooks.on(name, self._handler(name))
        streams.listen(lambda event: self._add(kind="agent", event=event))
        updates.on_transcript(lambda update: self._add(kind="transcript", event=update))

    def _handler(self, name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda event, context: self._add(kind="hook", name=name, event=event, context=context)

    def _add(self, **row: Any) -> None:
        self.rows.append(msgspec.json.encode({**row, "t": self._clock.now - BEGIN}))


class Slow:
    """A model that takes 5 ms before each piece of an answer."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model = model
        self._clock = clock

    def ask(self, request: ModelRequest) -> ModelStream:
        return _SlowStream(self._model.ask(request), self._clock)


class _SlowStream:
    def __init__(self, stream: ModelStream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self.request_bytes = 100
        self.response_bytes = 7

    async def __aiter__(self) -> AsyncIterator[Delta]:
        async for delta in self._stream:
            self._clock.now += 5
            yield delta


class Work:
    """A tool that takes 3 ms, reports progress and fails where its arguments say so."""

    name = "work"
    description = "Work."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"code": {"type": "integer"}}}

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        context.update("half")
        self._clock.now += 3
        if arguments.get("raise"):
            raise RuntimeError("broken tool")
        return ToolOutcome(content=[], details={"exitCode": arguments.get("code", 0), "durationMs": 3})


class Stage:
    """The embedded loop, recorded by its own recorder and captured for the plugin at the same time."""

    def __init__(self, folder: Path, says: tuple[Say, ...], configuration: Any) -> None:
        self.clock = Clock()
        self.hooks, streams, updates = PluginHooks(), EventStreams(), TranscriptUpdates()
        self.capture = Capture(self.clock)
        self.capture.attach(self.hooks, streams, updates)
        self.paths = paths_for(folder / "runs")
        segments = Segments(self.paths, RUN, {}, clock=self.clock)
        self.journal = segments.current.journal
        self.recorder = Recorder(segments)
        self.recorder.attach(self.hooks, updates)
        self.waiting = Waiting()
        self.rig: Rig = Rig(
            folder,
            *says,
            settings=configuration,
            clients=lambda provider, key: Slow(self.rig.model, self.clock),
            hooks=self.hooks,
            streams=streams,
            updates=updates,
            recorder=self.recorder,
            tools=(Work(self.clock), self.waiting),
        )

    async def ask(self, message: str = "do the thing", **params: Any) -> None:
        await self.rig.ask(message, **params)
        self.tick()

    def tick(self) -> None:
        """Let a millisecond pass: what the plugin holds back then has an earlier time than what follows."""
        self.clock.now += 1

    def records(self) -> list[dict[str, Any]]:
        assert self.journal.lost == 0
        return [json.loads(line) for line in self.paths.journal_path(RUN).read_bytes().splitlines()]


async def one(stage: Stage) -> None:
    await stage.ask()


async def two_sessions(stage: Stage) -> None:
    for key in ("agent:main:a", "agent:main:b", "agent:main:a"):
        await stage.ask(session_key=key)
    await stage.rig.runtime.end_sessions("shutdown")


async def cancel_in_tool(stage: Stage) -> None:
    accepted = await stage.rig.runtime.agent(AgentParams(message="go"))
    await stage.waiting.started.wait()
    stage.clock.now += 50
    stage.rig.runtime.cancel(accepted.run_id)
    await stage.rig.runtime.outcome(accepted.run_id)


async def cancel_in_answer(stage: Stage) -> None:
    stage.rig.model.says = [Say("I think", hold=asyncio.Event())]
    accepted = await stage.rig.runtime.agent(AgentParams(message="go"))
    while "assistant" not in [event.stream for event in stage.rig.events]:
        await asyncio.sleep(0)
    stage.rig.runtime.cancel(accepted.run_id)
    await stage.rig.runtime.outcome(accepted.run_id)


async def long_history(stage: Stage) -> None:
    # The plugin holds the response of a summary back, because no message tells its usage.
    stage.hooks.on("model_call_ended", lambda event, context: stage.tick())
    for _ in range(3):
        await stage.ask("tell me more " * 400)
    await stage.ask("/compact")


async def subagent(stage: Stage) -> None:
    await stage.ask()
    await stage.rig.runtime.drain()


async def blocked_tool(stage: Stage) -> None:
    stage.hooks.on("before_tool_call", lambda event, context: {"block": True, "blockReason": "not today"})
    await stage.ask()


async def blocked_run(stage: Stage) -> None:
    stage.hooks.on("before_agent_run", lambda event, context: {"outcome": "block", "message": "no"})
    await stage.ask()


async def claimed_reply(stage: Stage) -> None:
    stage.hooks.on("before_agent_reply", lambda event, context: {"handled": True, "reply": {"text": "by a plugin"}})
    await stage.ask()


async def new_session(stage: Stage) -> None:
    await stage.ask()
    await stage.ask("/new")
    await stage.ask("/reset go on")
    await stage.ask("/stop")


async def delivered(stage: Stage) -> None:
    await stage.ask(deliver=True, channel="test", to="me")


async def external_turns(stage: Stage) -> None:
    async def turn(request: ExternalRequest, progress: ExternalProgress) -> str:
        progress.add_text("half ")
        return "half and whole"

    for _ in range(2):
        accepted = await stage.rig.runtime.agent(AgentParams(message="go"), turn)
        await stage.rig.runtime.outcome(accepted.run_id)
        stage.tick()


async def steered(stage: Stage) -> None:
    async def steer(event: dict[str, Any], context: dict[str, Any]) -> None:
        if not sent:
            sent.append(await stage.rig.runtime.agent(AgentParams(message="also this", queue_mode="steer")))

    sent: list[Any] = []
    stage.hooks.on("after_tool_call", steer)
    await stage.ask()


class Case(NamedTuple):
    play: Callable[[Stage], Awaitable[None]]
    says: tuple[Say, ...] = ()
    configuration: Any = None


def work(**arguments: Any) -> tuple[str, dict[str, Any]]:
    return ("work", arguments)


TWO_TOOLS = Say("I start.", tools=(work(), work(code=2)))
SERVER_ERROR = ModelFailureError("503 busy", "server", 503)
CASES = {
    "tools": Case(
        one, (TWO_TOOLS, Say(tools=(("nope", {"x": 1}), work(code="x"), work(**{"raise": True}))), Say("Done."))
    ),
    "memory": Case(one, (Say(tools=(("memory_search", {"query": "plan"}),)), Say("Done."))),
    "sessions": Case(two_sessions, (Say(tools=(work(),)), Say("Done."))),
    "retry": Case(one, (Say("Half of an", failure=SERVER_ERROR), TWO_TOOLS, Say("Done."))),
    "failure": Case(one, (TWO_TOOLS, Say("Half of an", failure=ModelFailureError("the key is wrong", "auth", 401)))),
    "cancelled tool": Case(cancel_in_tool, (Say(tools=(("waiting", {}), work())), Say("Done."))),
    "cancelled answer": Case(cancel_in_answer),
    "compaction": Case(
        long_history, (Say("word " * 3000, usage=(120_000, 4000)),), defaults(compaction={"keepRecentTokens": 2000})
    ),
    "subagent": Case(subagent, (Say(tools=(("sessions_spawn", {"task": "look"}),)), Say("Done."))),
    "blocked tool": Case(blocked_tool, (Say(tools=(work(),)), Say("Done."))),
    "blocked run": Case(blocked_run, (Say("never"),)),
    "claimed reply": Case(claimed_reply, (Say("never"),)),
    "new session": Case(new_session, (Say("Done."),)),
    "delivered": Case(delivered, (Say("Done."),)),
    "external turns": Case(external_turns),
    "steered": Case(steered, (Say(tools=(work(), work())), Say("Done."))),
}


@pytest.mark.parametrize("name", CASES)
def test_both_recorders_write_the_same_records(name: str, tmp_path: Path) -> None:
    case = CASES[name]

    async def play() -> Stage:
        stage = Stage(tmp_path, case.says, case.configuration)
        try:
            await case.play(stage)
        finally:
            await stage.rig.runtime.close()
        return stage

    stage = asyncio.run(play())
    stage.recorder.close()
    by_plugin = comparable(node(REPLAY, b"\n".join(stage.capture.rows).decode()))
    assert len(by_plugin) > 2
    assert comparable(stage.records()) == by_plugin


# Beyond these characters the two languages count differently, or see other white space.
PLAIN = st.characters(min_codepoint=1, max_codepoint=0x2FF, exclude_characters="\x1c\x1d\x1e\x1f\x85\xa0")
SECRET = "sk-" + "a1B2" * 6
FIELDS = st.text(PLAIN, max_size=30) | st.sampled_from(["password", "set-cookie", SECRET])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53) + 1, (1 << 53) - 1)
    | st.text(PLAIN, max_size=100)
    | st.builds(
        lambda text, times, edge: (text + edge) * times,
        st.text(PLAIN, min_size=1, max_size=20),
        st.sampled_from([1, 5, 80, 700, 3000]),
        st.sampled_from(["", " ", SECRET, f" {SECRET} ", "API_KEY=hunter2hunter2"]),
    )
    | st.sampled_from([SECRET, "x" * MAX_TEXT, "y" * (MAX_TEXT + 1), "z " * MAX_EXCERPT, "w" * MAX_PAYLOAD]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)
ENVELOPE = {"event_id": "e", "event_type": "tool_result", "session_key": "agent:main:main"}
RECORDS = st.builds(
    lambda payload, name, error: {
        **ENVELOPE,
        "tool_name": name,
        "tool_call_id": "c",
        "status": "ok",
        "error": error,
        "duration_ms": 1,
        "payload": payload,
    },
    st.dictionaries(st.text(PLAIN, max_size=30), VALUES, max_size=5),
    st.none() | st.text(PLAIN, max_size=90),
    st.none() | st.sampled_from(["no", SECRET, "n" * 5000, f"{'n ' * 1020}{SECRET} more"]),
)


@settings(max_examples=30)
@given(records=st.lists(RECORDS, min_size=1, max_size=20))
def test_payloads_are_bounded_and_redacted_alike(records: list[dict[str, Any]]) -> None:
    redactor = Redactor(b"key")
    by_loop = [json.loads(RecordFilter(redactor).journal_line(record)) for record in records]
    assert by_loop == node(SERIALISE, json.dumps(records))


ROW = json.dumps({"kind": "hook", "name": "message_received", "event": {}, "context": {}, "t": 0})


def test_the_announcement_has_the_fields_of_the_plugin_and_the_python_version(tmp_path: Path) -> None:
    (by_plugin,) = [line for line in node(REPLAY, ROW) if line["event_type"] == "recorder_attached"]
    (by_loop,) = Recording(tmp_path / RUN).lines()
    assert list(by_loop) == list(by_plugin)
    assert by_loop["payload"].keys() - by_plugin["payload"].keys() == {"python_version"}
    assert by_plugin["payload"].keys() <= by_loop["payload"].keys()
