"""Whole turns of the embedded loop, recorded and timed: the evidence is complete however a run ends."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agentloop import Model, Rig, Say, defaults
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import RUN
from timelines import summary_of

from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.loop.external_agent import ExternalProgress, ExternalRequest
from critiqor.agentloop.models.model_client import ModelFailureError, ModelRequest
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import attach_recorder
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import UserMessage
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.model.timeline import TimelineSummary
from critiqor.storage import paths_for

Event = dict[str, Any]
Work = Callable[[Rig], Awaitable[object]]
TURN = ["turn_start", "before_provider_request", "after_provider_response", "message_end"]
TOOL = ["tool_call", "tool_result"]


class Played:
    """What was recorded of some work."""

    def __init__(self, folder: Path) -> None:
        lines = paths_for(folder / "runs").journal_path(RUN).read_bytes().splitlines()
        self.lines: list[Event] = [json.loads(line) for line in lines]
        self.events = sorted(self.lines, key=lambda event: str(event["event_id"]))
        self.timeline: TimelineSummary = summary_of((folder / "timeline.jsonl").read_bytes())

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["event_type"] == kind]

    def runs(self) -> dict[str, list[str]]:
        """The names of events, run by run."""
        kinds: dict[str, list[str]] = {}
        for event in self.events:
            if event["agent_run_id"] is not None and event["event_type"] != "session_start":
                kinds.setdefault(event["agent_run_id"], []).append(event["event_type"])
        return kinds


def play(folder: Path, work: Work, *says: Say, **parts: Any) -> Played:
    """Do some work on a runtime that is recorded."""
    hooks, streams, updates = parts.pop("hooks", None) or PluginHooks(), EventStreams(), TranscriptUpdates()
    environment = {
        "CRITIQOR_RUN_ID": RUN,
        "CRITIQOR_RUNS_DIR": str(folder / "runs"),
        "OPENCLAW_DIAGNOSTICS": "timeline",
        "OPENCLAW_DIAGNOSTICS_RUN_ID": RUN,
        "OPENCLAW_DIAGNOSTICS_TIMELINE_PATH": str(folder / "timeline.jsonl"),
        "OPENCLAW_DIAGNOSTICS_EVENT_LOOP": "1",
    }
    recorder = attach_recorder(hooks, updates, environment)
    diagnostics = Diagnostics.from_environment(environment)

    async def run() -> None:
        rig = Rig(
            folder,
            *says,
            hooks=hooks,
            streams=streams,
            updates=updates,
            diagnostics=diagnostics,
            recorder=recorder,
            **parts,
        )
        try:
            await work(rig)
        finally:
            await rig.runtime.close()

    asyncio.run(run())
    diagnostics.close()
    recorder.close()
    assert recorder.lost == 0
    assert streams.listener_errors == updates.listener_errors == 0
    return Played(folder)


async def one(rig: Rig) -> None:
    await rig.ask()


def test_a_turn_with_tools_is_recorded_in_the_order_of_openclaw(tmp_path: Path) -> None:
    says = (
        Say("I start.", tools=(("exec", {"command": "echo hello"}), ("exec", {"command": "exit 3"}))),
        Say(tools=(("frobnicate", {"x": 1}),)),
        Say("Done."),
    )
    played = play(tmp_path, one, *says)
    (kinds,) = played.runs().values()
    turns = [*TURN, *TOOL, *TOOL, "turn_end", *TURN, *TOOL, "turn_end", *TURN, "turn_end"]
    assert kinds == ["agent_start", "input", *turns, "agent_end"]
    assert [event["error"] for event in played.of("tool_result")] == [None, "exit code 3", "Tool frobnicate not found"]
    assert all(event["payload"]["usage"]["input"] == 1000 for event in played.of("after_provider_response"))
    (end,) = played.of("agent_end")
    assert (end["status"], end["payload"]["usage_total"]["input"]) == ("ok", 3000)


def test_many_sessions_at_once_are_kept_apart(tmp_path: Path) -> None:
    async def many(rig: Rig) -> None:
        async def talk(number: int) -> None:
            for _ in range(3):
                await rig.ask(session_key=f"agent:main:{number}")

        await asyncio.gather(*(talk(number) for number in range(20)))

    def answer(request: ModelRequest) -> Say:
        is_question = isinstance(request.messages[-1], UserMessage)
        return Say(tools=(("exec", {"command": "true"}),)) if is_question else Say("done")

    played = play(tmp_path, many, clients=lambda provider, key: Model(script=answer))
    runs = played.runs()
    assert len(runs) == 60
    assert set(map(tuple, runs.values())) == {
        ("agent_start", "input", *TURN, *TOOL, "turn_end", *TURN, "turn_end", "agent_end")
    }
    keys = {(event["agent_run_id"], event["session_key"]) for event in played.events if event["agent_run_id"]}
    assert len(keys) == 60
    assert played.timeline.turns_total == 60
    assert played.timeline.parse_errors == 0


def test_a_failed_model_call_and_its_retry_are_each_recorded(tmp_path: Path) -> None:
    failure = ModelFailureError("500 no luck", "server", 500)
    played = play(tmp_path, one, Say(failure=failure), Say("Done."))
    assert [event["status"] for event in played.of("after_provider_response")] == ["error", "ok"]
    assert played.of("after_provider_response")[0]["error"] == "500 no luck"
    assert [event["status"] for event in played.of("agent_end")] == ["error", "ok"]
    assert [event["payload"]["attempt"] for event in played.of("agent_start")] == [1, 2]
    assert len(played.of("provider_retry")) == 1
    (turn,) = played.timeline.turns
    assert (turn.requests, turn.failed_requests) == (2, 1)


def test_text_before_a_failure_is_kept(tmp_path: Path) -> None:
    failure = ModelFailureError("the key is wrong", "auth", 401)
    played = play(tmp_path, one, Say("Half of an", failure=failure))
    assert "Half of an" in [event["payload"]["text"] for event in played.of("message_end")]
    assert played.of("agent_end")[0]["status"] == "error"


def test_output_tokens_are_recorded_call_by_call(tmp_path: Path) -> None:
    says = (Say(tools=(("exec", {"command": "true"}),), usage=(1000, 20)), Say("Done.", usage=(1000, 30)))
    played = play(tmp_path, one, *says)
    assert [event["payload"]["outputTokens"] for event in played.of("after_provider_response")] == [20, 30]


def test_text_of_a_failed_external_turn_is_kept(tmp_path: Path) -> None:
    async def turn(request: ExternalRequest, progress: ExternalProgress) -> str:
        progress.add_text("half of a")
        raise RuntimeError("gone")

    async def work(rig: Rig) -> None:
        accepted = await rig.runtime.agent(AgentParams(message="go"), turn)
        await rig.runtime.outcome(accepted.run_id)

    played = play(tmp_path, work)
    (kinds,) = played.runs().values()
    assert kinds == ["agent_start", "input", "message_end", "agent_end"]
    (partial,) = played.of("message_end")
    assert (partial["payload"]["text"], partial["payload"]["partial"]) == ("half of a", True)
    assert played.of("agent_end")[0]["error"] == "RuntimeError: gone"


def test_a_client_with_a_programming_error_leaves_no_request_open(tmp_path: Path) -> None:
    class Broken(Model):
        def ask(self, request: ModelRequest) -> Any:
            raise ZeroDivisionError("oops")

    played = play(tmp_path, one, clients=lambda provider, key: Broken())
    (response,) = played.of("after_provider_response")
    assert response["payload"]["outcome"] == "unobserved"
    assert played.of("agent_end")[0]["error"] == "ZeroDivisionError: oops"


async def cancelled(rig: Rig, kind: str) -> None:
    accepted = await rig.runtime.agent(AgentParams(message="go"))
    while kind not in [event.stream for event in rig.events if event.data.get("phase") != "finishing"]:
        await asyncio.sleep(0.005)
    rig.runtime.cancel(accepted.run_id)
    await rig.runtime.outcome(accepted.run_id)


def test_a_run_that_is_cancelled_in_a_tool_has_an_end_and_so_has_its_tool(tmp_path: Path) -> None:
    says = (Say(tools=(("exec", {"command": "sleep 60"}),)), Say("Done."))
    played = play(tmp_path, lambda rig: cancelled(rig, "tool"), *says)
    (result,) = played.of("tool_result")
    assert result["status"] == "error"
    (end,) = played.of("agent_end")
    assert end["status"] == "error"
    assert len(played.of("turn_end")) == len(played.of("turn_start")) == 1


def test_a_run_that_is_cancelled_during_an_answer_has_an_end(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        rig.model.says = [Say("I think", hold=asyncio.Event())]
        await cancelled(rig, "assistant")

    played = play(tmp_path, work)
    assert len(played.of("after_provider_response")) == len(played.of("agent_end")) == 1
    assert played.of("agent_end")[0]["status"] == "error"
    assert played.of("message_end")[-1]["payload"]["text"] == "I think"


def test_a_tool_that_a_plugin_blocks_is_a_failed_call(tmp_path: Path) -> None:
    hooks = PluginHooks()
    hooks.on("before_tool_call", lambda event, context: {"block": True, "blockReason": "not today"})
    played = play(tmp_path, one, Say(tools=(("exec", {"command": "true"}),)), Say("Done."), hooks=hooks)
    (result,) = played.of("tool_result")
    assert (result["status"], result["error"]) == ("error", "not today")


def test_a_compaction_is_recorded_once(tmp_path: Path) -> None:
    async def long(rig: Rig) -> None:
        for _ in range(3):
            await rig.ask("tell me more " * 400)

    full = Say("word " * 3000, usage=(120_000, 4000))
    played = play(tmp_path, long, full, settings=defaults(compaction={"keepRecentTokens": 2000}))
    starts, ends = played.of("compaction_start"), played.of("compaction_end")
    assert 0 < len(starts) == len(ends)
    for start, end in zip(starts, ends, strict=True):
        assert start["event_id"] < end["event_id"]
        inside = [event for event in played.events if start["event_id"] < event["event_id"] < end["event_id"]]
        requests = [event for event in inside if event["event_type"] == "before_provider_request"]
        answered = [event for event in inside if event["event_type"] == "after_provider_response"]
        assert 0 < len(requests) == len(answered)
        assert all(event["payload"]["usage"]["cost"]["total"] > 0 for event in answered)


def test_every_request_to_a_model_is_in_the_evidence_with_what_it_cost(tmp_path: Path) -> None:
    outcomes = []

    async def long(rig: Rig) -> None:
        for _ in range(3):
            outcomes.append(await rig.ask("tell me more " * 400))
        assert len(rig.model.requests) > 3

    full = Say("word " * 3000, usage=(120_000, 4000))
    played = play(tmp_path, long, full, settings=defaults(compaction={"keepRecentTokens": 2000}))
    cost = sum(event["payload"]["usage"]["cost"]["total"] for event in played.of("after_provider_response"))
    assert cost == pytest.approx(sum(outcome.usage.cost.total for outcome in outcomes))
    assert {event["payload"].get("outputTokens") for event in played.of("after_provider_response")} <= {None, 4000}
    assert sum(turn.requests for turn in played.timeline.turns) == len(played.of("before_provider_request"))


FAILURE = ModelFailureError("503 busy", "server", 503)
TOOLS = st.sampled_from(
    [
        ("exec", {"command": "echo hello"}),
        ("exec", {"command": "exit 4"}),
        ("exec", {"command": 5}),
        ("read", {"path": "missing.txt"}),
        ("frobnicate", {}),
        ("memory_search", {"query": "plan"}),
        ("write", {"path": "a.txt", "content": "x"}),
    ]
)
SAYS = st.builds(
    lambda text, tools, fails: Say(text, tools=tuple(tools), failure=FAILURE if fails else None),
    st.sampled_from(["", "I go on."]),
    st.lists(TOOLS, min_size=1, max_size=3),
    st.integers(0, 9).map(lambda number: number == 0),
)


@settings(max_examples=25)
@given(steps=st.lists(SAYS, max_size=6))
def test_however_a_run_goes_its_evidence_is_complete_and_in_order(
    steps: list[Say], tmp_path_factory: pytest.TempPathFactory
) -> None:
    played = play(tmp_path_factory.mktemp("run"), one, *steps, Say("Done."))
    counts = Counter(event["event_type"] for event in played.events)
    assert counts["tool_call"] == counts["tool_result"] == sum(len(say.tools) for say in steps if not say.failure)
    assert counts["before_provider_request"] == counts["after_provider_response"] == counts["turn_start"]
    assert counts["turn_start"] == counts["turn_end"]
    assert counts["agent_start"] == counts["agent_end"]
    assert counts["input"] == 1
    (kinds,) = played.runs().values()
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
    for before, after in pairwise(played.events):
        assert before["event_id"] < after["event_id"]
        assert before["timestamp"] <= after["timestamp"]
    inside = False
    for kind in kinds:
        inside = kind == "turn_start" or (inside and kind != "turn_end")
        assert inside or not kind.startswith("tool_"), "a tool outside every turn"
    assert played.timeline.parse_errors == 0
    assert (played.timeline.irregular, played.timeline.open_spans_total) == ([], 0)
    (turn,) = played.timeline.turns
    assert turn.ended and turn.requests == counts["before_provider_request"]
