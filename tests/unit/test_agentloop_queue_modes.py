"""Queue modes: messages that arrive while their session is busy are steered, queued, collected or interrupt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agentloop import Echo, Rig, Say, configuration, instantly, roles, unanswered

from critiqor.agentloop.loop.tool_batch import SKIPPED
from critiqor.agentloop.queue.inbox import QueueFullError
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import Message, ToolResultMessage, UserMessage
from critiqor.agentloop.settings import QueueMode
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome


class Gate(Echo):
    """A tool that runs until it is released."""

    name = "gate"

    def __init__(self) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        self.entered.set()
        await self.go.wait()
        return await super().run(arguments, context)


def user_texts(messages: list[Message]) -> list[str]:
    """Return the texts of user messages."""
    return [message.content[0].text for message in messages if isinstance(message, UserMessage)]  # type: ignore[union-attr]


class Busy:
    """A session whose first run waits in a tool."""

    def __init__(self, folder: Any, *says: Say, queue: dict[str, Any] | None = None) -> None:
        self.gate = Gate()
        settings = configuration(messages={"queue": {"debounceMs": 500, **(queue or {})}})
        first = Say("On it.", (("gate", {}), ("echo", {"text": "x"})), ids=("call_a", "call_b"))
        self.rig = Rig(folder, first, *(says or (Say("done"),)), settings=settings, tools=[self.gate, Echo()])

    async def begin(self) -> None:
        await self.send("first", run_id="first")
        await self.gate.entered.wait()

    async def send(self, message: str, **params: Any) -> str:
        accepted = await self.rig.runtime.agent(AgentParams(message=message, channel="chat", **params))
        return accepted.run_id


def test_a_steered_message_reaches_the_model_before_its_next_call_and_pending_tools_are_skipped(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("Changed course."))
        await busy.begin()
        second = await busy.send("no, do it in green")
        busy.gate.go.set()
        host = await busy.rig.runtime.outcome("first")
        joined = await busy.rig.runtime.outcome(second)
        assert (joined.status, joined.joined, joined.payloads) == ("ok", "first", [])
        assert host.payloads[-1].text == "Changed course."
        messages = busy.rig.transcript()
        assert roles(messages) == ["user", "assistant", "toolResult", "toolResult", "user", "assistant"]
        assert isinstance(messages[3], ToolResultMessage)
        assert messages[3].text == SKIPPED
        assert unanswered(messages) == []
        assert len(busy.rig.model.requests) == 2
        ends = [event for event in busy.rig.events if event.run_id == second]
        assert [event.data["phase"] for event in ends] == ["end"]
        assert ends[0].data["joinedRunId"] == "first"

    asyncio.run(scenario())


def test_a_message_steered_while_the_model_answers_is_answered_in_the_same_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()
        rig = Rig(tmp_path, Say("First answer.", hold=hold), Say("Second answer."))
        await rig.runtime.agent(AgentParams(message="one", channel="chat", run_id="one"))
        while rig.phases("lifecycle")[-1:] != ["model"]:
            await asyncio.sleep(0)
        await rig.runtime.agent(AgentParams(message="two", channel="chat", run_id="two"))
        hold.set()
        assert (await rig.runtime.outcome("two")).joined == "one"
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]

    asyncio.run(scenario())


def test_a_message_too_late_for_steering_gets_its_own_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("first"), Say("second"))
        sent: list[str] = []

        async def at_the_end(event: dict[str, Any], context: dict[str, Any]) -> None:
            if not sent:
                sent.append("two")
                await rig.runtime.agent(AgentParams(message="two", channel="chat", run_id="two"))

        rig.runtime.hooks.on("agent_end", at_the_end)
        await rig.ask("one", channel="chat")
        outcome = await rig.runtime.outcome("two")
        assert (outcome.joined, outcome.payloads[0].text) == (None, "second")

    instantly(scenario())


def test_a_steered_message_that_never_reached_the_model_gets_its_own_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("answer of its own"))
        await busy.begin()
        second = await busy.send("steer me")
        busy.rig.runtime.cancel("first")
        assert (await busy.rig.runtime.outcome("first")).aborted
        outcome = await busy.rig.runtime.outcome(second)
        assert (outcome.joined, outcome.payloads[0].text) == (None, "answer of its own")
        assert user_texts(busy.rig.transcript()) == ["first", "steer me"]

    asyncio.run(scenario())


def test_a_steered_message_can_be_cancelled_before_it_reaches_the_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path)
        await busy.begin()
        second = await busy.send("never mind")
        assert busy.rig.runtime.cancel(second)
        assert (await busy.rig.runtime.outcome(second)).aborted
        busy.gate.go.set()
        assert (await busy.rig.runtime.outcome("first")).status == "ok"
        assert user_texts(busy.rig.transcript()) == ["first"]

    asyncio.run(scenario())


def test_followups_get_a_run_each_after_the_quiet_window(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("b"), Say("c"), queue={"mode": "followup", "debounceMs": 60_000})
        await busy.begin()
        clock = asyncio.get_running_loop().time
        began = clock()
        runs = [await busy.send(text) for text in ("second", "third")]
        busy.gate.go.set()
        outcomes = [await busy.rig.runtime.outcome(run_id) for run_id in ("first", *runs)]
        assert [outcome.joined for outcome in outcomes] == [None, None, None]
        assert user_texts(busy.rig.transcript()) == ["first", "second", "third"]
        assert clock() - began >= 60

    instantly(scenario())


def test_collected_messages_are_answered_by_one_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("all of it"), queue={"mode": "collect"})
        await busy.begin()
        runs = [await busy.send(text) for text in ("second", "third", "fourth")]
        busy.gate.go.set()
        outcomes = [await busy.rig.runtime.outcome(run_id) for run_id in runs]
        assert [outcome.joined for outcome in outcomes] == [None, runs[0], runs[0]]
        assert outcomes[0].payloads[0].text == "all of it"
        texts = user_texts(busy.rig.transcript())
        assert len(texts) == 2
        assert all(word in texts[1] for word in ("second", "third", "fourth"))

    instantly(scenario())


def test_a_message_within_the_quiet_window_is_still_collected(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("both"), queue={"mode": "collect", "debounceMs": 2_000})
        await busy.begin()
        second = await busy.send("second")
        busy.gate.go.set()
        await busy.rig.runtime.outcome("first")
        await asyncio.sleep(1)
        third = await busy.send("third")
        assert (await busy.rig.runtime.outcome(third)).joined == second

    instantly(scenario())


def test_messages_of_different_recipients_are_not_collected_into_one_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("b"), Say("c"), queue={"mode": "collect"})
        await busy.begin()
        ada, bob = await busy.send("for ada", to="ada"), await busy.send("for bob", to="bob")
        busy.gate.go.set()
        assert [(await busy.rig.runtime.outcome(run_id)).joined for run_id in (ada, bob)] == [None, None]

    instantly(scenario())


def test_an_interrupt_aborts_active_and_waiting_runs_and_runs_the_newest(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("newest"), queue={"mode": "interrupt"})
        await busy.begin()
        waiting = await busy.send("waiting", queue_mode="followup")
        newest = await busy.send("newest")
        first = await busy.rig.runtime.outcome("first")
        assert (first.aborted, first.error) == (True, "interrupted by a newer message")
        assert (await busy.rig.runtime.outcome(waiting)).aborted
        assert (await busy.rig.runtime.outcome(newest)).payloads[0].text == "newest"
        assert unanswered(busy.rig.transcript()) == []
        assert user_texts(busy.rig.transcript()) == ["first", "newest"]

    instantly(scenario())


def test_a_channel_has_its_own_mode_and_messages_without_a_channel_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("b"), queue={"mode": "steer", "byChannel": {"chat": "followup"}})
        await busy.begin()
        second = await busy.send("second")
        third = (await busy.rig.runtime.agent(AgentParams(message="third"))).run_id
        busy.gate.go.set()
        assert [(await busy.rig.runtime.outcome(run_id)).joined for run_id in (second, third)] == [None, None]

    instantly(scenario())


def test_a_full_queue_rejects_the_newest_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, queue={"mode": "followup", "cap": 2, "drop": "new"})
        await busy.begin()
        for text in ("second", "third"):
            await busy.send(text)
        with pytest.raises(QueueFullError):
            await busy.send("fourth")
        busy.gate.go.set()
        await busy.rig.runtime.drain()
        assert user_texts(busy.rig.transcript()) == ["first", "second", "third"]

    instantly(scenario())


def test_messages_without_a_channel_do_not_count_towards_the_cap(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, queue={"mode": "followup", "cap": 1, "drop": "old"})
        await busy.begin()
        for number in range(3):
            await busy.rig.runtime.agent(AgentParams(message=f"plain {number}"))
        await busy.send("second")
        busy.gate.go.set()
        await busy.rig.runtime.drain()
        assert user_texts(busy.rig.transcript()) == ["first", "plain 0", "plain 1", "plain 2", "second"]

    instantly(scenario())


def test_a_full_queue_drops_the_oldest_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, queue={"mode": "followup", "cap": 2, "drop": "old"})
        await busy.begin()
        runs = [await busy.send(text) for text in ("second", "third", "fourth")]
        busy.gate.go.set()
        await busy.rig.runtime.drain()
        dropped = await busy.rig.runtime.outcome(runs[0])
        assert (dropped.status, "too many" in str(dropped.error)) == ("error", True)
        assert user_texts(busy.rig.transcript()) == ["first", "third", "fourth"]

    instantly(scenario())


@pytest.mark.parametrize("mode", ["followup", "collect"])
def test_a_full_queue_keeps_a_summary_line_of_dropped_messages(tmp_path: Path, mode: QueueMode) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, queue={"mode": mode, "cap": 2})
        await busy.begin()
        for text in ("second\nwith two lines", "third", "fourth", "fifth"):
            await busy.send(text)
        busy.gate.go.set()
        await busy.rig.runtime.drain()
        text = user_texts(busy.rig.transcript())[1]
        assert "- second with two lines" in text
        assert "- third" in text
        both = "\n".join(user_texts(busy.rig.transcript())[1:])
        assert both.index("fourth") < both.index("fifth")
        assert both.count("second") == 1

    instantly(scenario())


def test_messages_that_joined_a_cancelled_run_get_their_own_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = Busy(tmp_path, Say("a"), Say("third's own"), queue={"mode": "collect"})
        await busy.begin()
        second, third = await busy.send("second"), await busy.send("third")
        assert busy.rig.runtime.cancel(second)
        busy.gate.go.set()
        assert (await busy.rig.runtime.outcome(second)).aborted
        assert (await busy.rig.runtime.outcome(third)).payloads[0].text == "third's own"
        assert user_texts(busy.rig.transcript()) == ["first", "third"]

    instantly(scenario())
