"""A run of the loop: its events and hooks in order, its transcript, and what plugins can change."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agentloop import ECHO, Echo, Rig, Say, Waiting, configuration, defaults, instantly, roles, unanswered, watch_hooks

from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.replies.channels import MemoryOutbox
from critiqor.agentloop.sessions.messages import AssistantMessage, Text, ToolResultMessage
from critiqor.agentloop.sessions.transcript import ABORTED
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

HOOKS = (
    "before_agent_reply",
    "before_model_resolve",
    "before_prompt_build",
    "before_agent_start",
    "before_agent_run",
    "llm_input",
    "model_call_started",
    "model_call_ended",
    "before_tool_call",
    "after_tool_call",
    "tool_result_persist",
    "agent_end",
    "llm_output",
)


def note(names: list[str], name: str, event: dict[str, Any], context: dict[str, Any]) -> None:
    """A handler that notes the name of its hook."""
    names.append(name)


def test_a_run_with_a_tool_emits_everything_in_the_order_of_a_real_openclaw(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I look.", (ECHO,)), Say("All done."))
        emitted: list[str] = []
        for name in HOOKS:
            rig.runtime.hooks.on(name, partial(note, emitted, name))
        rig.runtime.updates.on_transcript(lambda update: emitted.append(f"saved {update['message']['role']}"))
        rig.runtime.streams.listen(
            lambda event: emitted.append(f"{event.stream}:{event.data.get('phase', '')}".rstrip(":"))
        )
        outcome = await rig.ask()
        assert outcome.status == "ok"
        updates = ("tool:update", "command_output:delta")
        assert [entry for entry in emitted if entry not in updates] == [
            "before_agent_reply",
            "before_model_resolve",
            "before_agent_start",
            "before_prompt_build",
            "before_agent_start",
            "before_agent_run",
            "llm_input",
            "lifecycle:start",
            "saved user",
            "model_call_started",
            "lifecycle:model",
            "assistant",
            "model_call_ended",
            "usage",
            "saved assistant",
            "tool:start",
            "before_tool_call",
            "tool:result",
            "command_output:end",
            "after_tool_call",
            "tool_result_persist",
            "model_call_started",
            "lifecycle:model",
            "assistant",
            "model_call_ended",
            "usage",
            "saved assistant",
            "lifecycle:finishing",
            "agent_end",
            "llm_output",
            "lifecycle:end",
        ]

    asyncio.run(scenario())


def test_hooks_carry_the_fields_of_a_real_openclaw(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I look.", (ECHO,)), Say("All done."))
        calls = watch_hooks(rig.runtime.hooks, *HOOKS)
        outcome = await rig.ask(run_id="run-1")
        emitted = {call.name: (call.event, call.context) for call in calls}
        ended, _ = emitted["model_call_ended"]
        assert ended["callId"] == "run-1:model:2"
        assert (ended["provider"], ended["model"], ended["api"]) == ("lab", "scripted", "openai-completions")
        assert (ended["outcome"], ended["contextTokenBudget"]) == ("completed", 128_000)
        assert {"durationMs", "requestPayloadBytes", "responseStreamBytes", "timeToFirstByteMs"} <= set(ended)
        tool, tool_context = emitted["after_tool_call"]
        assert (tool["toolName"], tool["toolCallId"], tool["params"]) == ("exec", "call_0", {"command": "echo hello"})
        assert tool["result"]["details"]["exitCode"] == 0
        assert "error" not in tool
        assert tool_context == {
            "runId": "run-1",
            "agentId": "main",
            "sessionKey": "agent:main:main",
            "sessionId": outcome.session_id,
            "trigger": "user",
        }
        end, _ = emitted["agent_end"]
        assert end["success"] is True
        assert [message["role"] for message in end["messages"]] == ["user", "assistant", "toolResult", "assistant"]
        output, _ = emitted["llm_output"]
        assert output["usage"]["total"] == 2040
        assert output["usage"]["cost"]["total"] == pytest.approx(0.00208)

    asyncio.run(scenario())


def test_events_of_a_run_are_numbered_without_gaps(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I look.", (ECHO,)), Say("All done."))
        first, second = await asyncio.gather(rig.ask(session_key="a"), rig.ask(session_key="b"))
        for outcome in (first, second):
            numbers = [event.seq for event in rig.events if event.run_id == outcome.run_id]
            assert numbers == list(range(1, len(numbers) + 1))

    asyncio.run(scenario())


def test_a_run_returns_payloads_and_the_usage_of_all_its_model_calls(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I look.", (ECHO,)), Say("All done."))
        outcome = await rig.ask()
        assert [payload.text for payload in outcome.payloads] == ["All done."]
        assert (outcome.usage.input, outcome.usage.output) == (2000, 40)
        assert (outcome.provider, outcome.model, outcome.stop_reason) == ("lab", "scripted", "stop")
        session = rig.runtime.services.sessions.find("main", "agent:main:main")
        assert session is not None
        assert (session.entry.input_tokens, session.entry.model) == (2000, "scripted")

    asyncio.run(scenario())


def test_the_next_run_of_a_session_continues_its_history(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("first answer"), Say("second answer"))
        await rig.ask("first")
        await rig.ask("second")
        sent = rig.model.requests[-1].messages
        assert roles(sent) == ["user", "assistant", "user"]
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]

    asyncio.run(scenario())


def test_reasoning_is_a_separate_stream_and_not_part_of_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("42", thinking="six by seven"))
        outcome = await rig.ask()
        thoughts = [event.data["delta"] for event in rig.events if event.stream == "thinking"]
        assert thoughts == ["six by seven"]
        assert [payload.text for payload in outcome.payloads] == ["42"]

    asyncio.run(scenario())


def test_the_silent_token_is_neither_streamed_nor_replied(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("NO_REPLY", pieces=4))
        outcome = await rig.ask()
        assert outcome.payloads == []
        assert [event for event in rig.events if event.stream == "assistant"] == []

    asyncio.run(scenario())


def test_text_that_only_starts_like_the_silent_token_is_streamed_completely(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("NO, I will not.", pieces=15))
        await rig.ask()
        deltas = [event.data["delta"] for event in rig.events if event.stream == "assistant"]
        assert "".join(deltas) == "NO, I will not."

    asyncio.run(scenario())


def test_the_progress_of_a_tool_is_streamed_between_its_start_and_its_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(("exec", {"command": "echo one; sleep 0.5; echo two"}),)), Say("done"))
        await rig.ask()
        phases = rig.phases("tool")
        assert (phases[0], phases[-1]) == ("start", "result")
        assert phases[1:-1] and set(phases[1:-1]) == {"update"}

    asyncio.run(scenario())


def test_an_unknown_tool_and_invalid_arguments_get_a_result_without_before_tool_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(("frobnicate", {"x": 1}), ("exec", {"cmd": 1}))), Say("done"))
        seen = watch_hooks(rig.runtime.hooks, "before_tool_call", "after_tool_call")
        await rig.ask()
        assert [call.name for call in seen] == ["after_tool_call", "after_tool_call"]
        assert seen[0].event["error"] == "Tool frobnicate not found"
        assert seen[1].event["error"].startswith("Validation failed for tool")
        assert unanswered(rig.transcript()) == []

    asyncio.run(scenario())


def test_a_tool_that_raises_is_a_failed_result_and_not_the_end_of_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo(fail=ValueError("no such luck"))
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "x"}),)), Say("It failed."), tools=[tool])
        outcome = await rig.ask()
        assert outcome.status == "ok"
        [result] = [message for message in rig.transcript() if isinstance(message, ToolResultMessage)]
        assert result.is_error
        assert "no such luck" in result.text

    asyncio.run(scenario())


def test_a_plugin_blocks_a_tool_and_the_model_sees_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "x"}),)), Say("I may not."), tools=[tool])
        rig.runtime.hooks.on("before_tool_call", lambda event, context: {"block": True, "blockReason": "not today"})
        await rig.ask()
        assert tool.seen == []
        [result] = [message for message in rig.transcript() if isinstance(message, ToolResultMessage)]
        assert "not today" in result.text

    asyncio.run(scenario())


def test_an_approval_request_denies_the_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "x"}),)), Say("I may not."), tools=[tool])
        rig.runtime.hooks.on("before_tool_call", lambda event, context: {"requireApproval": {"title": "sure?"}})
        await rig.ask()
        assert tool.seen == []

    asyncio.run(scenario())


def test_a_plugin_changes_the_parameters_of_a_tool_and_not_the_call_in_the_transcript(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "x"}),)), Say("done"), tools=[tool])
        rig.runtime.hooks.on("before_tool_call", lambda event, context: {"params": {"text": "changed"}})
        await rig.ask()
        assert tool.seen == [{"text": "changed"}]
        response = next(message for message in rig.transcript() if isinstance(message, AssistantMessage))
        assert response.tool_calls[0].arguments == {"text": "x"}

    asyncio.run(scenario())


def test_a_plugin_that_mutates_its_event_changes_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "x"}),)), Say("done"), tools=[tool])

        def spoil(event: dict[str, Any], context: dict[str, Any]) -> None:
            event["params"].clear()
            event.clear()

        rig.runtime.hooks.on("before_tool_call", spoil)
        await rig.ask()
        assert tool.seen == [{"text": "x"}]

    asyncio.run(scenario())


def test_a_plugin_can_change_a_saved_tool_result_but_not_its_call_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(("echo", {"text": "secret"}),)), Say("done"), tools=[Echo()])

        def persist(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
            text = [{"type": "text", "text": "[removed]"}]
            return {"message": event["message"] | {"content": text, "toolCallId": "stolen"}}

        rig.runtime.hooks.on("tool_result_persist", persist)
        await rig.ask()
        [result] = [message for message in rig.transcript() if isinstance(message, ToolResultMessage)]
        assert (result.text, result.tool_call_id) == ("[removed]", "call_0")
        assert "secret" not in str(rig.model.requests[-1].messages[-1])

    asyncio.run(scenario())


def test_prompt_hooks_add_context_for_the_model_that_the_transcript_does_not_keep(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        decision = {"prependContext": "It is raining.", "appendSystemContext": "Be brief.", "toolsAllow": ["read"]}
        rig.runtime.hooks.on("before_prompt_build", lambda event, context: decision)
        await rig.ask("What now?")
        [request] = rig.model.requests
        assert request.system_prompt.endswith("Be brief.")
        assert [tool["function"]["name"] for tool in request.tools] == ["read"]
        assert request.messages[-1].content == [Text("It is raining.\n\nWhat now?")]
        [saved, _] = rig.transcript()
        assert saved.content == [Text("What now?")]

    asyncio.run(scenario())


def test_prompt_hooks_see_the_history_and_replace_or_extend_the_system_prompt(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        await rig.ask("first")
        seen = watch_hooks(rig.runtime.hooks, "before_prompt_build")
        decision = {"systemPrompt": "I am another.", "prependSystemContext": "Before.", "appendSystemContext": "After."}
        rig.runtime.hooks.on("before_prompt_build", lambda event, context: decision)
        await rig.ask("second")
        assert rig.model.requests[-1].system_prompt == "Before.\n\nI am another.\n\nAfter."
        assert [message["role"] for message in seen[0].event["messages"]][:2] == ["user", "assistant"]

    asyncio.run(scenario())


def test_a_tool_that_was_not_offered_cannot_be_called(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(ECHO,)), Say("done"))
        rig.runtime.hooks.on("before_prompt_build", lambda event, context: {"toolsAllow": []})
        await rig.ask()
        [result] = [message for message in rig.transcript() if isinstance(message, ToolResultMessage)]
        assert result.text == "Tool exec not found"

    asyncio.run(scenario())


def test_the_legacy_start_hook_adds_to_the_prompt_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        rig.runtime.hooks.on("before_prompt_build", lambda event, context: {"prependSystemContext": "one"})
        rig.runtime.hooks.on("before_agent_start", lambda event, context: {"prependSystemContext": "two"})
        await rig.ask()
        assert rig.model.requests[0].system_prompt.startswith("one\n\ntwo")

    asyncio.run(scenario())


def test_a_plugin_selects_the_model_before_it_is_resolved(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        rig.runtime.hooks.on("before_model_resolve", lambda event, context: {"modelOverride": "lab/other"})
        outcome = await rig.ask()
        assert (outcome.model, rig.model.requests[0].model) == ("other", "other")

    asyncio.run(scenario())


def test_the_legacy_start_hook_selects_the_model_unless_the_explicit_hook_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        events: list[dict[str, Any]] = []

        def start(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
            events.append(event)
            return {"modelOverride": "lab/other", "prependSystemContext": "Be brief."}

        rig.runtime.hooks.on("before_agent_start", start)
        assert (await rig.ask("hello")).model == "other"
        assert events == [{"prompt": "hello"}], "a decision is not asked for twice"
        assert rig.model.requests[0].system_prompt.startswith("Be brief.")
        rig.runtime.hooks.on("before_model_resolve", lambda event, context: {"modelOverride": "lab/scripted"})
        assert (await rig.ask("again")).model == "scripted"

    asyncio.run(scenario())


def test_the_legacy_start_hook_gets_the_history_if_it_decided_nothing_without_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))

        def start(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any] | None:
            return {"prependContext": f"{len(event['messages'])} before"} if "messages" in event else None

        rig.runtime.hooks.on("before_agent_start", start)
        await rig.ask("first")
        await rig.ask("second")
        assert rig.model.requests[1].messages[-1].content == [Text("2 before\n\nsecond")]

    asyncio.run(scenario())


def test_a_plugin_answers_a_message_without_the_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("never sent"))
        rig.runtime.hooks.on("before_agent_reply", lambda event, context: {"handled": True, "reply": {"text": "Mine."}})
        outcome = await rig.ask("hello")
        assert [payload.text for payload in outcome.payloads] == ["Mine."]
        assert rig.model.requests == []
        assert roles(rig.transcript()) == ["user", "assistant"]
        assert rig.phases("lifecycle") == ["start", "end"]

    asyncio.run(scenario())


def test_a_plugin_suppresses_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("never sent"))
        rig.runtime.hooks.on("before_agent_reply", lambda event, context: {"handled": True})
        outcome = await rig.ask("hello")
        assert (outcome.status, outcome.payloads, rig.model.requests) == ("ok", [], [])

    asyncio.run(scenario())


def test_a_plugin_blocks_a_run_and_keeps_the_prompt_out_of_the_transcript(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("never sent"))
        gate = {"outcome": "block", "reason": "policy", "message": "Not this."}
        rig.runtime.hooks.on("before_agent_run", lambda event, context: gate)
        outcome = await rig.ask("forbidden words")
        assert [payload.text for payload in outcome.payloads] == ["Not this."]
        assert outcome.stop_reason == "blocked"
        assert rig.model.requests == []
        assert "forbidden" not in next(Path(tmp_path).rglob("*.jsonl")).read_text()

    asyncio.run(scenario())


def test_a_gate_that_fails_blocks_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("never sent"))

        def broken(event: dict[str, Any], context: dict[str, Any]) -> None:
            raise RuntimeError("oops")

        rig.runtime.hooks.on("before_agent_run", broken)
        outcome = await rig.ask()
        assert outcome.stop_reason == "blocked"
        assert rig.model.requests == []

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["model_call_started", "model_call_ended"])
def test_model_call_observers_cannot_delay_a_run(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async def hang(event: dict[str, Any], context: dict[str, Any]) -> None:
            await asyncio.Event().wait()

        rig = Rig(tmp_path)
        rig.runtime.hooks.on(name, hang)
        clock = asyncio.get_running_loop().time
        began = clock()
        assert (await rig.ask()).status == "ok"
        assert clock() - began < 60

    instantly(scenario())


def test_a_session_starts_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        started: list[str] = []
        rig.runtime.hooks.on("session_start", lambda event, context: started.append(event["sessionKey"]))
        await rig.ask()
        await rig.ask()
        assert started == ["agent:main:main"]

    asyncio.run(scenario())


def test_a_cancelled_tool_leaves_a_result_for_every_call_and_the_run_is_marked(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("On it.", (("waiting", {}), ECHO)), tools=[tool])
        ended: list[dict[str, Any]] = []
        rig.runtime.hooks.on("after_tool_call", lambda event, context: ended.append(event))
        rig.runtime.hooks.on("agent_end", lambda event, context: ended.append(event))
        run = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        assert rig.runtime.cancel("r", "enough")
        outcome = await run
        assert (outcome.status, outcome.aborted, outcome.error) == ("error", True, "enough")
        messages = rig.transcript()
        assert roles(messages) == ["user", "assistant", "toolResult", "toolResult"]
        assert unanswered(messages) == []
        assert [message.text for message in messages if isinstance(message, ToolResultMessage)] == [ABORTED, ABORTED]
        assert ended[0]["error"] == ABORTED
        assert ended[1]["success"] is False
        assert rig.phases("lifecycle")[-2:] == ["finishing", "error"]
        assert rig.events[-1].data["aborted"] is True

    asyncio.run(scenario())


def test_a_cancelled_model_call_keeps_the_partial_text_and_marks_it_as_aborted(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Half of an answ", hold=asyncio.Event()))
        ended: list[dict[str, Any]] = []
        rig.runtime.hooks.on("model_call_ended", lambda event, context: ended.append(event))
        run = asyncio.create_task(rig.ask(run_id="r"))
        while not [event for event in rig.events if event.stream == "assistant"]:
            await asyncio.sleep(0)
        rig.runtime.cancel("r")
        await run
        _, partial = rig.transcript()
        assert isinstance(partial, AssistantMessage)
        assert (partial.text, partial.stop_reason) == ("Half of an answ", "aborted")
        assert (ended[0]["outcome"], ended[0]["errorCategory"]) == ("error", "aborted")
        rig.model.says = [Say("Whole.")]
        assert (await rig.ask("again")).status == "ok"

    asyncio.run(scenario())


def test_an_incomplete_tool_call_of_a_cancelled_model_call_is_not_saved(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hm.", (ECHO,), hold=asyncio.Event()))
        run = asyncio.create_task(rig.ask(run_id="r"))
        while not [event for event in rig.events if event.stream == "assistant"]:
            await asyncio.sleep(0)
        rig.runtime.cancel("r")
        await run
        assert unanswered(rig.transcript()) == []

    asyncio.run(scenario())


def test_an_exception_in_the_loop_ends_the_lifecycle_and_the_next_run_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)

        def explode(request: Any) -> Say:
            raise KeyError("a bug")

        rig.model.script = explode
        outcome = await rig.ask()
        assert outcome.status == "error"
        assert "a bug" in str(outcome.error)
        assert rig.phases("lifecycle")[-1] == "error"
        rig.model.script = None
        assert (await rig.ask("again")).status == "ok"

    asyncio.run(scenario())


def test_a_run_that_cannot_be_prepared_ends_with_start_and_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        outcome = await rig.ask(model="nobody/knows")
        assert outcome.status == "error"
        assert rig.phases("lifecycle") == ["start", "error"]

    asyncio.run(scenario())


def test_a_full_disk_ends_the_run_with_an_error_and_the_next_run_repairs_the_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("On it.", (("echo", {"text": "x"}),)), Say("done"), tools=[Echo()])
        from critiqor.agentloop.sessions.transcript import Transcript

        append = Transcript._append

        def full(self: Transcript, data: bytes) -> None:
            if b"toolResult" in data:
                raise OSError(28, "No space left on device")
            append(self, data)

        with monkeypatch.context() as patch:
            patch.setattr(Transcript, "_append", full)
            outcome = await rig.ask()
        assert outcome.status == "error"
        assert "No space left" in str(outcome.error)
        assert (await rig.ask("again")).status == "ok"
        assert unanswered(rig.transcript()) == []

    asyncio.run(scenario())


def test_replies_are_delivered_and_plugins_can_change_or_cancel_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        rig = Rig(tmp_path, Say("Hello."), outbox=outbox)
        sent: list[dict[str, Any]] = []
        received: list[str] = []
        rig.runtime.hooks.on("message_received", lambda event, context: received.append(event["content"]))
        rig.runtime.hooks.on("message_sent", lambda event, context: sent.append(event))
        remove = rig.runtime.hooks.on("message_sending", lambda event, context: {"content": event["content"] + "!"})
        await rig.ask("hi", channel="telegram", to="ada", deliver=True)
        assert [(message.text, message.channel, message.target) for message in outbox.sent] == [
            ("Hello.!", "telegram", "ada")
        ]
        assert (sent[0]["success"], sent[0]["content"]) == (True, "Hello.!")
        assert received == ["hi"]
        remove()
        rig.runtime.hooks.on("message_sending", lambda event, context: {"cancel": True})
        await rig.ask("hi", channel="telegram", to="ada", deliver=True)
        assert len(outbox.sent) == 1

    asyncio.run(scenario())


def test_a_sandboxed_session_has_its_own_folder_and_the_main_session_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        where: dict[str, tuple[Path, bool]] = {}

        class Where(Echo):
            name = "where"

            async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
                where[context.session_key] = context.workspace, context.sandboxed
                return ToolOutcome(content=[Text("here")])

        settings = defaults(sandbox={"mode": "non-main"})
        rig = Rig(tmp_path, Say(tools=(("where", {}),)), Say("done"), settings=settings, tools=[Where()])
        await rig.ask()
        rig.model.says = [Say(tools=(("where", {}),)), Say("done")]
        await rig.ask(session_key="guest")
        assert where["agent:main:main"] == (tmp_path / "state" / "workspace", False)
        folder, sandboxed = where["agent:main:guest"]
        assert sandboxed
        assert folder.is_relative_to(tmp_path / "state" / "critiqor" / "sandboxes")

    asyncio.run(scenario())


def test_skills_bootstrap_files_and_the_extra_prompt_of_the_caller_are_in_the_prompt(tmp_path: Path) -> None:
    async def scenario() -> None:
        workspace = tmp_path / "state" / "workspace"
        (workspace / "skills" / "brew").mkdir(parents=True)
        (workspace / "skills" / "brew" / "SKILL.md").write_text("---\nname: brew\ndescription: Make tea.\n---\n")
        (workspace / "AGENTS.md").write_text("Always be kind.")
        settings = configuration(skills={"entries": {"brew": {"env": {"KETTLE": "on"}}}})
        tool = Echo()
        rig = Rig(
            tmp_path, Say(tools=(("exec", {"command": "echo $KETTLE"}),)), Say("done"), settings=settings, tools=[tool]
        )
        await rig.ask(extra_system_prompt="The user is in a hurry.")
        prompt = rig.model.requests[0].system_prompt
        for words in ("Make tea.", "Always be kind.", "The user is in a hurry."):
            assert words in prompt
        [result] = [message for message in rig.transcript() if isinstance(message, ToolResultMessage)]
        assert result.text == "on"

    asyncio.run(scenario())


def test_levels_come_from_the_caller_then_the_session_then_the_defaults(tmp_path: Path) -> None:
    async def scenario() -> None:
        models = {
            "providers": {"lab": {"models": [{"id": "scripted", "reasoning": True}], "baseUrl": "http://127.0.0.1:9"}}
        }
        rig = Rig(tmp_path, settings=configuration(models=models))
        await rig.ask()
        await rig.ask(thinking="high")
        await rig.ask()
        assert [request.thinking for request in rig.model.requests] == ["off", "high", "high"]

    asyncio.run(scenario())


def test_verbose_and_trace_have_defaults_and_a_session_keeps_what_was_requested(tmp_path: Path) -> None:
    async def shown(rig: Rig, **params: Any) -> tuple[int, int]:
        """Return the number of payloads, which include tool summaries if verbose, and of reports on prompts."""
        rig.events.clear()
        rig.model.says = [Say("I look.", (ECHO,)), Say("All done.")]
        outcome = await rig.ask(**params)
        return len(outcome.payloads), len(rig.phases("run_status"))

    async def scenario() -> None:
        rig = Rig(tmp_path / "off", Say())
        assert await shown(rig) == (1, 0)
        assert await shown(rig, verbose="on", trace="on") == (2, 1)
        assert await shown(rig) == (2, 1)
        rig = Rig(tmp_path / "on", Say(), settings=defaults(verboseDefault="on", traceDefault="on"))
        assert await shown(rig) == (2, 1)
        assert await shown(rig, verbose="off", trace="off") == (1, 0)

    asyncio.run(scenario())


def test_a_traced_run_reports_the_parts_of_its_prompt(tmp_path: Path) -> None:
    async def scenario() -> None:
        workspace = tmp_path / "state" / "workspace"
        workspace.mkdir(parents=True)
        (workspace / "AGENTS.md").write_text("Always be kind.")
        rig = Rig(tmp_path)
        await rig.ask()
        assert rig.phases("run_status") == []
        await rig.ask(trace="on")
        [report] = [event.data["report"] for event in rig.events if event.stream == "run_status"]
        assert report["model"] == "lab/scripted"
        assert {"name": "AGENTS.md", "missing": False, "chars": 15} in report["bootstrapFiles"]
        assert "exec" in report["tools"]

    asyncio.run(scenario())


def test_verbose_runs_list_their_tools_in_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(tools=(("read", {"path": "notes.txt"}),)), Say("done"))
        outcome = await rig.ask(verbose="on")
        texts = [payload.text for payload in outcome.payloads]
        assert "notes.txt" in texts[0]
        assert texts[-1] == "done"

    asyncio.run(scenario())


def test_max_tokens_never_exceeds_the_model_or_its_context_window(tmp_path: Path) -> None:
    async def scenario() -> None:
        small = [{"id": "scripted", "contextWindow": 12_000, "maxTokens": 4_096}]
        models = {"providers": {"lab": {"baseUrl": "http://127.0.0.1:9", "models": small}}}
        settings = configuration(models=models, agents={"defaults": {"compaction": {"enabled": False}}})
        rig = Rig(tmp_path, settings=settings)
        await rig.ask("short")
        await rig.ask("x" * 32_000)
        first, second = (request.max_tokens for request in rig.model.requests)
        assert first == 4_096
        assert second < 4_096

    asyncio.run(scenario())


def test_two_runtimes_on_one_session_do_not_interleave_their_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = Rig(tmp_path, Say("a", (ECHO,)), Say("a done")), Rig(tmp_path, Say("b", (ECHO,)), Say("b done"))
        await asyncio.gather(first.ask("for a", session_id="shared"), second.ask("for b", session_id="shared"))
        texts = [message.content[0].text for message in first.transcript("agent:main:explicit:shared")]  # type: ignore[union-attr]
        runs = [text[-1] if text.startswith("for") else text[0] for text in texts if text != "hello"]
        assert runs in (["a", "a", "a", "b", "b", "b"], ["b", "b", "b", "a", "a", "a"])

    asyncio.run(scenario())


def test_a_missing_key_of_a_remote_provider_is_a_failed_model_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        models = {"providers": {"lab": {"baseUrl": "https://api.example.com/v1", "models": [{"id": "scripted"}]}}}
        rig = Rig(tmp_path, settings=configuration(models=models))
        ended: list[dict[str, Any]] = []
        rig.runtime.hooks.on("model_call_ended", lambda event, context: ended.append(event))
        outcome = await rig.ask()
        assert rig.model.requests == []
        assert ended[0]["errorCategory"] == "auth"
        assert 'No API key found for provider "lab"' in str(outcome.error)
        assert outcome.payloads[-1].is_error

    asyncio.run(scenario())


def test_a_session_keeps_the_provider_whose_key_its_last_run_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        await rig.ask()
        session = rig.runtime.services.sessions.find("main", "agent:main:main")
        assert session is not None
        assert session.entry.auth_profile == "lab:default"

    asyncio.run(scenario())


def test_a_response_that_the_provider_ends_with_an_error_is_a_failed_model_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I think", failure=ModelFailureError("blocked by a filter", "rejected")))
        outcome = await rig.ask()
        assert (outcome.status, outcome.error) == ("error", "blocked by a filter")
        _, failed = rig.transcript()
        assert isinstance(failed, AssistantMessage)
        assert (failed.stop_reason, failed.error_message) == ("error", "blocked by a filter")

    asyncio.run(scenario())
