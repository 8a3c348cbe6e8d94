"""What reaches a channel: every text of an agent run once, in order, whatever happened in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agentloop import Echo, Rig, Say, Waiting, configuration, defaults, instantly, watch_hooks
from test_agentloop_internal_hooks import write_hook

from critiqor.agentloop.loop.external_agent import ExternalProgress, ExternalRequest
from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.replies.channels import MemoryOutbox
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.agentloop.tools.messaging import Delivery, OutgoingMessage

TO_ADA: dict[str, Any] = {"channel": "chat", "to": "ada", "deliver": True}
BLOCKS: dict[str, Any] = {"blockStreamingDefault": "on", "blockStreamingChunk": {"minChars": 5, "maxChars": 20}}
BROKEN = ("echo", {"text": "x"})


def failure(kind: FailureKind = "network") -> ModelFailureError:
    return ModelFailureError(f"scripted {kind}", kind)


def message(text: str, **arguments: str) -> tuple[str, dict[str, Any]]:
    """A call of the message tool."""
    return "message", {"action": "send", "message": text, **arguments}


def texts(outbox: MemoryOutbox) -> list[str]:
    return [message.text for message in outbox.sent]


def delivered(folder: Path, *says: Say, outbox: MemoryOutbox | None = None, **over: Any) -> list[str]:
    """Return what an agent run with these responses of the model delivers."""
    outbox = outbox or MemoryOutbox()
    tools = over.pop("tools", [Echo()])
    params = TO_ADA | over.pop("params", {})

    async def scenario() -> None:
        rig = Rig(folder, *says, settings=defaults(**over), outbox=outbox, tools=tools)
        await rig.ask(**params)

    instantly(scenario())
    return texts(outbox)


def payloads(outcome: RunOutcome) -> list[str]:
    return [payload.text for payload in outcome.payloads]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_message_to_a_channel_that_is_not_configured_fails_and_the_user_learns_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(message("It is done.", channel="telegram", target="ada"),)), Say("NO_REPLY"))
        calls = watch_hooks(rig.runtime.hooks, "message_sent", "after_tool_call")
        outcome = await rig.ask()
        sent, ended = calls
        assert (sent.name, sent.event["success"]) == ("message_sent", False)
        assert "telegram" in sent.event["error"]
        assert "channels.telegram" in sent.event["error"]
        assert ended.event["error"] == sent.event["error"]
        assert [payload.is_error for payload in outcome.payloads] == [True]

    run(scenario())


def test_a_message_without_a_channel_fails_where_none_is_configured(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(message("It is done."),)), Say("NO_REPLY"))
        calls = watch_hooks(rig.runtime.hooks, "after_tool_call")
        outcome = await rig.ask()
        assert "no channel" in calls[0].event["error"]
        assert outcome.payloads[0].is_error

    run(scenario())


def test_a_reply_to_a_channel_that_is_not_configured_is_kept_and_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hello."))
        calls = watch_hooks(rig.runtime.hooks, "message_sent")
        outcome = await rig.ask(channel="telegram", to="ada", deliver=True)
        assert [call.event["success"] for call in calls] == [False]
        assert payloads(outcome) == ["Hello."]
        assert outcome.delivery is not None
        assert (outcome.delivery.status, outcome.delivery.sent) == ("failed", 0)
        assert "telegram" in str(outcome.delivery.error)

    run(scenario())


def test_equal_blocks_of_a_reply_all_arrive(tmp_path: Path) -> None:
    row = "| same | same |"
    table = "\n".join([row] * 120)
    chunk = {"minChars": 10, "maxChars": 40, "breakPreference": "newline"}
    sent = delivered(tmp_path, Say(table, pieces=200), blockStreamingDefault="on", blockStreamingChunk=chunk)
    assert "\n".join(sent).count(row) == 120


def test_a_text_sent_by_a_tool_before_a_retry_is_not_sent_again_after_it(tmp_path: Path) -> None:
    text = "The report is ready."
    says = (Say(tools=(message(text),)), Say(failure=failure()), Say(text))
    assert delivered(tmp_path, *says) == [text]


def test_a_tool_that_failed_before_a_retry_is_reported_if_nothing_else_is(tmp_path: Path) -> None:
    says = (Say(tools=(BROKEN,)), Say(failure=failure()), Say("NO_REPLY"))
    assert delivered(tmp_path, *says, tools=[Echo(fail=ValueError("no"))]) == ["⚠️ 🧩 Echo failed"]


def test_a_failed_tool_is_not_reported_if_a_message_was_sent_before_the_retry(tmp_path: Path) -> None:
    says = (Say(tools=(BROKEN, message("It failed, sorry."))), Say(failure=failure()), Say("NO_REPLY"))
    assert delivered(tmp_path, *says, tools=[Echo(fail=ValueError("no"))]) == ["It failed, sorry."]


@pytest.mark.parametrize("when", ["text_end", "message_end"])
def test_a_text_sent_by_a_tool_is_not_repeated_in_blocks(tmp_path: Path, when: str) -> None:
    text = "The report is ready. See the folder of the project."
    says = (Say(tools=(message(text),)), Say(text, pieces=20))
    assert delivered(tmp_path, *says, **BLOCKS, blockStreamingBreak=when) == [text]


def test_an_answer_that_only_begins_like_a_sent_text_arrives_whole(tmp_path: Path) -> None:
    says = (Say(tools=(message("The report is ready. See the folder."),)), Say("The report is late.", pieces=9))
    assert delivered(tmp_path, *says, **BLOCKS)[1:] == ["The report is late."]


def test_a_message_to_somebody_else_does_not_replace_the_answer(tmp_path: Path) -> None:
    text = "The report is ready."
    says = (Say(tools=(message(text, target="bob"),)), Say(text))
    assert delivered(tmp_path, *says) == [text, text]


def test_a_message_to_somebody_else_does_not_hide_that_a_tool_failed(tmp_path: Path) -> None:
    says = (Say(tools=(BROKEN, message("Hello Bob.", target="bob"))), Say("NO_REPLY"))
    sent = delivered(tmp_path, *says, tools=[Echo(fail=ValueError("no"))])
    assert sent == ["Hello Bob.", "⚠️ 🧩 Echo failed"]


def test_reasoning_is_sent_before_the_answer_that_it_belongs_to(tmp_path: Path) -> None:
    says = (Say("I look.", (BROKEN,), thinking="where?"), Say("It is here.\n\nAnd there.", thinking="aha", pieces=9))
    sent = delivered(tmp_path, *says, **BLOCKS, reasoningDefault="on")
    assert sent == ["Reasoning:\nwhere?", "I look.", "Reasoning:\naha", "It is here.", "And there."]


def test_tool_summaries_are_sent_between_the_blocks_where_the_tools_ran(tmp_path: Path) -> None:
    says = (Say("I look.", (BROKEN,)), Say("It is here."))
    sent = delivered(tmp_path, *says, **BLOCKS, verboseDefault="on")
    assert sent == ["I look.", "🧩 Echo", "It is here."]


def test_a_block_is_sent_before_the_message_of_a_tool_that_runs_after_it(tmp_path: Path) -> None:
    class Slow(MemoryOutbox):
        async def send(self, message: OutgoingMessage) -> Delivery:
            await asyncio.sleep(0.01)
            return await super().send(message)

    says = (Say("I write to Bob.", (message("Hi Bob.", target="bob"),)), Say("NO_REPLY"))
    assert delivered(tmp_path, *says, outbox=Slow(), **BLOCKS) == ["I write to Bob.", "Hi Bob."]


@pytest.mark.parametrize("lost", range(4))
def test_what_a_channel_refused_once_is_sent_at_the_end_in_order(tmp_path: Path, lost: int) -> None:
    class Flaky(MemoryOutbox):
        number = 0

        async def send(self, message: OutgoingMessage) -> Delivery:
            self.number += 1
            return Delivery(error="busy") if self.number == lost + 1 else await super().send(message)

    text = "First one.\n\nSecond one.\n\nThird one."
    sent = delivered(tmp_path, Say(text, pieces=30), outbox=Flaky(), **BLOCKS)
    assert sent == ["First one.", "Second one.", "Third one."]


def test_a_retry_with_another_answer_sends_only_what_was_not_said_yet(tmp_path: Path) -> None:
    before = "First one.\n\nSecond one.\n\nThi"
    after = "First one.\n\nAnother one.\n\nThe end."
    says = (Say(before, pieces=30, failure=failure()), Say(after, pieces=7))
    sent = delivered(tmp_path, *says, **BLOCKS)
    assert sent == ["First one.", "Second one.", "Another one.", "The end."]


def test_the_reply_of_a_command_and_the_messages_of_internal_hooks_are_delivered(tmp_path: Path) -> None:
    write_hook(tmp_path / "state" / "hooks" / "one", ["command"])

    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, settings=configuration(hooks={"internal": {"enabled": True}}), outbox=outbox)
        for command in ("/new", "/stop", "/new and say hello"):
            await rig.ask(command, **TO_ADA)
        assert texts(outbox) == [
            "command:new was seen",
            "Stopped.",
            "command:stop was seen",
            "command:new was seen",
            "done",
        ]

    run(scenario())


def test_the_reply_of_new_is_delivered_without_hooks(tmp_path: Path) -> None:
    assert delivered(tmp_path, params={"message": "/new"}) == ["A new session has begun."]
    assert delivered(tmp_path, params={"message": "/compact"}) == ["There is nothing to summarise yet."]


def test_a_run_that_timed_out_says_so_on_its_channel(tmp_path: Path) -> None:
    says = (Say("I look into it.", (("waiting", {}),)),)

    def reply(**settings: Any) -> list[str]:
        return delivered(tmp_path, *says, tools=[Waiting()], params={"timeout_seconds": 5.0}, **settings)

    timed_out = "⚠️ the agent run timed out after 5 seconds"
    assert reply() == ["I look into it.", timed_out]
    assert reply(**BLOCKS) == ["I look into it.", timed_out]


def test_a_run_that_was_cancelled_says_nothing_on_its_channel(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox, tool = MemoryOutbox(), Waiting()
        rig = Rig(tmp_path, Say("I look.", (("waiting", {}),)), outbox=outbox, tools=[tool])
        task = asyncio.create_task(rig.ask(run_id="r", **TO_ADA))
        await tool.started.wait()
        rig.runtime.cancel("r")
        await task
        assert texts(outbox) == []

    run(scenario())


def test_a_run_that_could_not_begin_says_why_on_its_channel(tmp_path: Path) -> None:
    [sent] = delivered(tmp_path, params={"model": "nobody/knows"})
    assert sent.startswith("⚠️ there is no model 'nobody/knows'")


async def external_turn(rig: Rig, answer: str, *pieces: str) -> RunOutcome:
    async def agent(request: ExternalRequest, progress: ExternalProgress) -> str:
        for piece in pieces:
            progress.add_text(piece)
        return answer

    accepted = await rig.runtime.agent(AgentParams(message="hi", **TO_ADA), agent)
    return await rig.runtime.outcome(accepted.run_id)


def test_the_answer_of_an_external_agent_is_delivered_and_its_silence_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, outbox=outbox)
        assert payloads(await external_turn(rig, "Hello Ada.", "Hello ", "Ada.")) == ["Hello Ada."]
        assert payloads(await external_turn(rig, "NO_REPLY", "NO_", "REPLY")) == []
        assert texts(outbox) == ["Hello Ada."]
        assert [event.data["text"] for event in rig.events if event.stream == "assistant"] == ["Hello ", "Hello Ada."]

    run(scenario())


def test_the_answer_of_an_external_agent_is_sent_in_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, outbox=outbox, settings=defaults(**BLOCKS))
        text = "First one.\n\nSecond one."
        await external_turn(rig, text, *text)
        await external_turn(rig, text)
        assert texts(outbox) == ["First one.", "Second one."] * 2

    run(scenario())


def test_an_external_turn_runs_the_hooks_of_any_other_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hello Ada."), outbox=MemoryOutbox())
        names = ["session_start", "before_agent_reply", "before_prompt_build", "before_agent_start", "before_agent_run"]
        names += ["llm_input", "agent_end", "llm_output", "message_received", "message_sending", "message_sent"]
        calls = watch_hooks(rig.runtime.hooks, *names)
        await rig.ask("hi", session_key="other", **TO_ADA)
        own = [call.name for call in calls]
        calls.clear()
        await external_turn(rig, "Hello Ada.", "Hello Ada.")
        assert [call.name for call in calls] == own
        assert sorted(own) == sorted(names)
        ended = next(call.event for call in calls if call.name == "agent_end")
        assert ended["success"] is True

    run(scenario())


def test_plugins_can_block_answer_and_add_context_to_an_external_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, outbox=outbox)
        hooks, seen = rig.runtime.hooks, []

        async def agent(request: ExternalRequest, progress: ExternalProgress) -> str:
            seen.append(request.message)
            return "by the agent"

        async def ask() -> RunOutcome:
            accepted = await rig.runtime.agent(AgentParams(message="hi", **TO_ADA), agent)
            return await rig.runtime.outcome(accepted.run_id)

        remove = hooks.on("before_prompt_build", lambda event, context: {"prependContext": "It is Monday."})
        await ask()
        remove()
        remove = hooks.on("before_agent_run", lambda event, context: {"outcome": "block", "message": "not today"})
        assert (await ask()).stop_reason == "blocked"
        remove()
        hooks.on("before_agent_reply", lambda event, context: {"handled": True, "reply": {"text": "by a plugin"}})
        await ask()
        assert seen == ["It is Monday.\n\nhi"]
        assert texts(outbox) == ["by the agent", "not today", "by a plugin"]

    run(scenario())


def test_a_tool_of_an_external_agent_passes_the_tool_hooks(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, outbox=MemoryOutbox())
        answers: list[str | None] = []

        async def agent(request: ExternalRequest, progress: ExternalProgress) -> str:
            for name in ("shell", "forbidden"):
                denied = await progress.tool_started(f"call_{name}", name, {"command": "ls"})
                answers.append(denied)
                if denied is None:
                    await progress.tool_ended(f"call_{name}", "a file")
            return "done"

        def gate(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any] | None:
            return {"block": True, "blockReason": "not this one"} if event["toolName"] == "forbidden" else None

        rig.runtime.hooks.on("before_tool_call", gate)
        calls = watch_hooks(rig.runtime.hooks, "after_tool_call")
        accepted = await rig.runtime.agent(AgentParams(message="hi"), agent)
        await rig.runtime.outcome(accepted.run_id)
        assert answers == [None, "not this one"]
        assert [(call.event["toolName"], call.event.get("error")) for call in calls] == [
            ("shell", None),
            ("forbidden", "not this one"),
        ]
        assert rig.phases("tool") == ["start", "result", "start", "result"]

    run(scenario())


def test_the_file_of_a_channel_has_one_line_for_each_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "out" / "messages.jsonl"
        settings = configuration(channels={"log": {"outbox": "file", "path": str(path)}})
        rig = Rig(tmp_path, Say("Hello."), settings=settings)
        outcome = await rig.ask(channel="log", to="ada", deliver=True)
        assert outcome.delivery is not None
        assert outcome.delivery.status == "sent"
        [line] = path.read_text().splitlines()
        saved = json.loads(line)
        assert (saved["text"], saved["channel"], saved["target"]) == ("Hello.", "log", "ada")

    run(scenario())


def test_an_abandoned_run_sends_nothing_more(tmp_path: Path) -> None:
    async def stubborn(request: ExternalRequest, progress: ExternalProgress) -> str:
        progress.add_text("First one.\n\nSecond")
        clock = asyncio.get_running_loop().time
        until = clock() + 30
        while (rest := until - clock()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(rest)
        progress.add_text(" one.\n\nThird one.\n\n")
        return progress.text

    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, settings=defaults(**BLOCKS), outbox=outbox)
        accepted = await rig.runtime.agent(AgentParams(message="hi", timeout_seconds=5.0, **TO_ADA), stubborn)
        await rig.runtime.outcome(accepted.run_id)
        await asyncio.sleep(60)
        first, error = texts(outbox)
        assert first == "First one."
        assert "abandoned" in error

    instantly(scenario())
