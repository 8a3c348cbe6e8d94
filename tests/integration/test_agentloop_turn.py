"""Whole turns of the embedded loop: a message in, a model over HTTP, real tools, a reply, a transcript on disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from critiqor.agentloop.configuration import parse_configuration
from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.importers import read_traces
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse

Changes = dict[str, Any]


def configuration(base_url: str, defaults: Changes | None = None, provider: Changes | None = None) -> Changes:
    model = {"id": "scripted", "name": "Scripted", "contextWindow": 128_000, "maxTokens": 4096}
    prices = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
    return {
        "models": {
            "providers": {
                "lab": {
                    "baseUrl": base_url,
                    "apiKey": "key",
                    "api": "openai-completions",
                    "models": [model | {"cost": prices}],
                }
                | (provider or {})
            }
        },
        "agents": {
            "defaults": {
                "model": {"primary": "lab/scripted"},
                "retry": {"maxRetries": 2, "minDelayMs": 1, "maxDelayMs": 5},
            }
            | (defaults or {})
        },
        "channels": {"chat": {"outbox": "memory"}},
    }


class Rig:
    """A runtime, its model, and what was seen of its events."""

    def __init__(self, runtime: AgentRuntime, model: ScriptedModel, state: Path) -> None:
        self.runtime = runtime
        self.model = model
        self.state = state
        self.workspace = state / "workspace"
        self.events: list[AgentEvent] = []
        runtime.streams.listen(self.events.append)

    async def turn(self, message: str = "do the thing", **params: Any) -> RunOutcome:
        accepted = await self.runtime.agent(AgentParams(message=message, **params))
        return await asyncio.wait_for(self.runtime.outcome(accepted.run_id), 30)

    def transcript(self) -> Path:
        [file] = (self.state / "critiqor").rglob("*.jsonl")
        return file

    def saved(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.transcript().read_text().splitlines()]
        return [line["message"] for line in lines if line["type"] == "message"]

    def data_of(self, stream: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.stream == stream]


def play(
    tmp_path: Path,
    steps: Sequence[Step],
    scene: Callable[[Rig], Awaitable[None]],
    defaults: Changes | None = None,
    provider: Changes | None = None,
) -> None:
    async def main() -> None:
        with ScriptedModel(steps) as model:
            async with opened(tmp_path, model, defaults, provider) as rig:
                await scene(rig)

    asyncio.run(main())


@asynccontextmanager
async def opened(
    state: Path, model: ScriptedModel, defaults: Changes | None, provider: Changes | None
) -> AsyncIterator[Rig]:
    document = configuration(model.base_url, defaults, provider)
    runtime = AgentRuntime(parse_configuration(document), state_folder=state, home=state)
    try:
        yield Rig(runtime, model, state)
    finally:
        await runtime.close()


STEPS = (
    Step(text="I start.", tools=(ToolUse("call_0", "exec", {"command": "echo hello > a.txt; cat a.txt"}),)),
    Step(tools=(ToolUse("call_0", "read", {"path": "missing/file.txt"}),)),
    Step(tools=(ToolUse("call_2", "exec", {"command": "echo bad >&2; exit 3"}),)),
    Step(tools=(ToolUse("call_3", "frobnicate", {"x": 1}), ToolUse("call_4", "read", {}))),
    Step(text="All done."),
)


def test_a_message_becomes_model_calls_tools_a_reply_and_a_transcript(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert outcome.status == "ok"
        assert [payload.text for payload in outcome.payloads] == ["All done."]
        assert outcome.usage.input == 5 * 1000
        assert outcome.usage.cost.total == pytest.approx(5 * (0.001 + 0.00004))
        assert (rig.workspace / "a.txt").read_text() == "hello\n"
        roles = [message["role"] for message in rig.saved()]
        asked = ["assistant", "toolResult"]
        assert roles == ["user", *asked, *asked, *asked, *asked, "toolResult", "assistant"]
        results = [message for message in rig.saved() if message["role"] == "toolResult"]
        texts = [result["content"][0]["text"] for result in results]
        assert texts[0] == "hello"
        assert "ENOENT: no such file or directory, access" in texts[1]
        assert texts[2] == "bad\n\n(Command exited with code 3)"
        assert texts[3] == "Tool frobnicate not found"
        assert texts[4].startswith('Validation failed for tool "read"')
        assert [result["isError"] for result in results] == [False, True, False, True, True]
        assert results[2]["details"]["exitCode"] == 3

    play(tmp_path, STEPS, scene)


def test_the_model_receives_the_results_of_its_tools_in_order(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        await rig.turn("what is the time?")
        first, last = rig.model.requests[0], rig.model.requests[-1]
        assert first["messages"][0]["role"] == "system"
        assert first["messages"][1] == {"role": "user", "content": [{"type": "text", "text": "what is the time?"}]}
        assert {"exec", "read", "write", "edit"} <= {tool["function"]["name"] for tool in first["tools"]}
        history = [(m["role"], m.get("tool_call_id")) for m in last["messages"][2:]]
        assert history == [
            ("assistant", None),
            ("tool", "call_0"),
            ("assistant", None),
            ("tool", "call_0"),
            ("assistant", None),
            ("tool", "call_2"),
            ("assistant", None),
            ("tool", "call_3"),
            ("tool", "call_4"),
        ]

    play(tmp_path, STEPS, scene)


def test_the_transcript_is_read_back_by_the_importers(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        await rig.turn()
        await rig.turn("and again")

    play(tmp_path, STEPS, scene)
    [file] = (tmp_path / "critiqor").rglob("*.jsonl")
    [trace] = read_traces(file)
    kinds = [event.event_type for event in trace.events]
    assert trace.notes == []
    assert kinds.count("tool_call") == kinds.count("tool_output") == 5
    assert kinds.count("before_provider_request") == kinds.count("token_usage") == 6
    assert kinds.count("agent_start") == kinds.count("agent_end") == 2
    calls = [event for event in trace.events if event.event_type == "tool_call"]
    assert calls[0].payload["arguments"] == {"command": "echo hello > a.txt; cat a.txt"}


def test_everybody_who_watches_sees_the_turn_in_order_and_without_holes(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert [event.seq for event in rig.events] == list(range(1, len(rig.events) + 1))
        assert {event.run_id for event in rig.events} == {outcome.run_id}
        phases = [data["phase"] for data in rig.data_of("lifecycle")]
        assert phases[0] == "start"
        assert phases[-1] == "end"
        assert phases.count("end") == 1
        tools = [(data["phase"], data["toolCallId"]) for data in rig.data_of("tool") if data["phase"] != "update"]
        ids = ["call_0", "call_0", "call_2", "call_3", "call_4"]
        assert tools == [(phase, one) for one in ids for phase in ("start", "result")]
        outputs = rig.data_of("command_output")
        assert [data["exitCode"] for data in outputs if data["phase"] == "end"] == [0, 3]
        assert any(data["phase"] == "delta" and data["output"] == "hello" for data in outputs)
        assert rig.data_of("assistant")[-1]["text"] == "All done."

    play(tmp_path, STEPS, scene)


def test_a_second_turn_remembers_the_first(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        await rig.turn("my name is Ada")
        await rig.turn("what is my name?")
        said = [message["content"] for message in rig.model.requests[-1]["messages"] if message["role"] == "user"]
        assert [parts[0]["text"] for parts in said] == ["my name is Ada", "what is my name?"]

    play(tmp_path, [Step(text="Hello.")], scene)


def test_a_provider_that_fails_once_is_asked_again_and_nothing_is_said_twice(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert [payload.text for payload in outcome.payloads] == ["Done."]
        assert len(rig.model.requests) == 3
        assert [message["role"] for message in rig.saved()] == ["user", "assistant", "toolResult", "assistant"]
        assert (rig.workspace / "count").read_text() == "x\n"

    steps = [
        Step(text="I work.", tools=(ToolUse("call_0", "exec", {"command": "echo x >> count"}),)),
        Step(status=500),
        Step(text="Done."),
    ]
    play(tmp_path, steps, scene)


@pytest.mark.parametrize(("status", "words"), [(401, "key"), (402, "billing"), (400, "rejected")])
def test_a_request_that_the_provider_refuses_is_reported_and_ends_the_run_with_an_error(
    tmp_path: Path, status: int, words: str
) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert outcome.status == "error"
        assert len(rig.model.requests) == 1
        [payload] = outcome.payloads
        assert payload.is_error
        assert words in payload.text
        assert f"{status} scripted HTTP {status}" in payload.text
        assert rig.data_of("lifecycle")[-1]["phase"] == "error"

    play(tmp_path, [Step(status=status)], scene)


def test_cancelling_ends_the_command_and_leaves_a_transcript_that_the_next_turn_can_use(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        accepted = await rig.runtime.agent(AgentParams(message="wait"))
        pid_file = rig.workspace / "pid"
        while not (pid_file.exists() and pid_file.read_text().strip()):
            await asyncio.sleep(0.01)
        assert rig.runtime.cancel(accepted.run_id)
        outcome = await asyncio.wait_for(rig.runtime.outcome(accepted.run_id), 30)
        assert outcome.aborted
        assert not psutil.pid_exists(int(pid_file.read_text()))
        assert [message["role"] for message in rig.saved()] == ["user", "assistant", "toolResult"]
        assert [payload.text for payload in (await rig.turn("again")).payloads] == ["Done."]
        messages = rig.model.requests[-1]["messages"]
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]

    command = "echo $$ > pid; exec sleep 600"
    play(tmp_path, [Step(tools=(ToolUse("call_0", "exec", {"command": command}),)), Step(text="Done.")], scene)


def test_a_model_that_answers_too_late_is_given_up(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert outcome.status == "error"
        assert "did not answer in time" in outcome.payloads[-1].text

    defaults = {"retry": {"maxRetries": 0}}
    play(tmp_path, [Step(text="late", delay_s=2)], scene, defaults, {"timeoutSeconds": 0.2})


def test_a_sandboxed_run_stays_in_its_own_folder(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        rig.workspace.mkdir()
        (rig.workspace / "secret.txt").write_text("secret")
        await rig.turn()
        results = [message for message in rig.saved() if message["role"] == "toolResult"]
        assert "escapes sandbox root" in results[0]["content"][0]["text"]
        assert results[1]["isError"] is False
        assert list(rig.workspace.iterdir()) == [rig.workspace / "secret.txt"]

    steps = [
        Step(tools=(ToolUse("call_0", "read", {"path": str(tmp_path / "workspace" / "secret.txt")}),)),
        Step(tools=(ToolUse("call_1", "write", {"path": "a.txt", "content": "x"}),)),
        Step(text="Done."),
    ]
    play(tmp_path, steps, scene, {"sandbox": {"mode": "all"}})


def test_what_the_agent_sent_as_a_message_is_not_said_again(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        assert (await rig.turn(channel="chat", to="ada")).payloads == []

    arguments = {"action": "send", "target": "ada", "message": "The report is ready."}
    play(tmp_path, [Step(tools=(ToolUse("call_0", "message", arguments),)), Step(text="The report is ready.")], scene)


def test_a_silent_turn_says_nothing_to_anybody(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        outcome = await rig.turn()
        assert outcome.status == "ok"
        assert outcome.payloads == []
        assert rig.data_of("assistant") == []

    play(tmp_path, [Step(text="NO_REPLY")], scene)
