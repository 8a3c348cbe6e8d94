"""Compaction: when history is summarised, what is kept, and what is reported."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agentloop import Echo, Rig, Say, configuration, instantly, roles, unanswered, watch_hooks

from critiqor.agentloop.context.compaction import find_cut
from critiqor.agentloop.context.token_budget import message_tokens, used_tokens
from critiqor.agentloop.models.model_client import ModelFailureError, ModelRequest
from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from critiqor.agentloop.sessions.transcript_entries import Entry
from critiqor.agentloop.sessions.write_lock import lock_path

OVERFLOW = ModelFailureError("maximum context length exceeded", "context", 400)


def user(text: str) -> UserMessage:
    return UserMessage(content=[Text(text)], timestamp=0)


def assistant(*parts: Any, total: int = 0) -> AssistantMessage:
    return AssistantMessage(
        content=list(parts), provider="p", model="m", usage=Usage(total_tokens=total), stop_reason="stop", timestamp=0
    )


def result(call_id: str, text: str = "ok") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="exec", content=[Text(text)], timestamp=0)


def entries(*messages: Message) -> list[Entry]:
    return [Entry(str(number), None, message) for number, message in enumerate(messages)]


def window(tokens: int, **compaction: Any) -> Any:
    """A configuration whose model sees so many tokens."""
    model = {"id": "scripted", "contextWindow": tokens, "maxTokens": 500}
    return configuration(
        models={"providers": {"lab": {"baseUrl": "http://127.0.0.1:9", "models": [model]}}},
        agents={"defaults": {"compaction": compaction}},
    )


def is_summary(request: ModelRequest) -> bool:
    return not request.tools


class Talk:
    """A model that summarises on request, and answers otherwise."""

    def __init__(self, rig: Rig, *says: Say, summary: Say | None = None) -> None:
        self.says = list(says)
        self.summary = summary or Say("THE SUMMARY")
        rig.model.script = self

    def __call__(self, request: ModelRequest) -> Say:
        if is_summary(request):
            return self.summary
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


def test_a_cut_keeps_tool_results_with_the_message_that_called_the_tools() -> None:
    history = entries(
        user("old " * 100),
        assistant(ToolCall("a", "exec"), ToolCall("b", "exec")),
        result("a", "x" * 400),
        result("b", "x" * 400),
        assistant(Text("so")),
        user("now"),
    )
    for keep in range(0, 400, 10):
        place = find_cut(history, keep)
        assert place is not None
        assert not isinstance(history[place].message, ToolResultMessage)
        assert unanswered([entry.message for entry in history[place:] if entry.message is not None]) == []


def test_a_cut_keeps_the_last_message_however_long_it_is() -> None:
    history = entries(user("first"), assistant(Text("answer")), user("x" * 10_000))
    assert find_cut(history, 10) == 2


def test_there_is_nothing_to_cut_in_a_single_message_or_behind_a_summary_alone() -> None:
    assert find_cut(entries(user("only")), 0) is None
    assert find_cut([], 0) is None
    assert find_cut([Entry("c", None, None, "summary", "1", 1), Entry("1", None, user("next"))], 0) is None


def test_reported_usage_counts_if_it_exceeds_the_estimate() -> None:
    history = entries(user("hi"), assistant(Text("hello"), total=5_000), user("x" * 400))
    assert used_tokens(history, 0) == 5_000 + message_tokens(user("x" * 400))


def test_usage_reported_before_a_compaction_is_ignored() -> None:
    kept = Entry("1", None, assistant(Text("kept"), total=50_000))
    history = [Entry("c", "1", None, "summary", "1", 2), kept]
    assert used_tokens(history, 0) < 100
    later = [*history, Entry("2", "c", assistant(Text("new"), total=900))]
    assert used_tokens(later, 0) == 900


def test_a_history_that_no_longer_fits_is_summarised_before_the_next_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        Talk(rig, Say("noted"))
        reported = watch_hooks(rig.runtime.hooks, "before_compaction", "after_compaction")
        await rig.ask("remember: " + "x" * 44_000)
        assert reported == []
        outcome = await rig.ask("and now?")
        assert outcome.status == "ok"
        assert [call.name for call in reported] == ["before_compaction", "after_compaction"]
        before, after = reported[0].event, reported[1].event
        assert before["tokenCount"] == after["tokensBefore"] > 10_000 > after["tokensAfter"]
        assert after["compactedCount"] >= 1
        assert rig.phases("compaction") == ["start", "end"]
        request = rig.model.requests[-1]
        assert "THE SUMMARY" in str(request.messages[0].content)
        assert "x" * 1000 not in str(request.messages)
        session = rig.runtime.services.sessions.find("main", "agent:main:main")
        assert session is not None
        assert session.entry.compaction_count == 1

    asyncio.run(scenario())


def test_the_reserve_decides_how_much_of_the_window_the_history_may_fill(tmp_path: Path) -> None:
    async def compactions(folder: Path, reserve: int) -> list[str]:
        settings = window(20_000, keepRecentTokens=100, reserveTokens=reserve, reserveTokensFloor=0)
        rig = Rig(folder, settings=settings)
        Talk(rig, Say("noted"))
        await rig.ask("remember: " + "x" * 44_000)
        await rig.ask("and now?")
        return rig.phases("compaction")

    assert asyncio.run(compactions(tmp_path / "small", 1_000)) == []
    assert asyncio.run(compactions(tmp_path / "large", 10_000)) == ["start", "end"]


def test_the_lock_of_the_transcript_is_held_while_a_model_is_called_and_the_history_is_compacted(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        talk, holders = Talk(rig, Say("noted")), list[str]()

        def note_holder(*_: Any) -> None:
            session = rig.runtime.services.sessions.find("main", "agent:main:main")
            assert session is not None
            holders.append(json.loads(lock_path(session.transcript).read_bytes())["holder"])

        def answer(request: ModelRequest) -> Say:
            note_holder()
            return talk(request)

        rig.model.script = answer
        rig.runtime.hooks.on("before_compaction", note_holder)
        rig.runtime.hooks.on("after_compaction", note_holder)
        await rig.ask("remember: " + "x" * 44_000, run_id="first")
        await rig.ask("and now?", run_id="second")
        assert holders == ["first", *["second"] * 4]

    asyncio.run(scenario())


def test_the_transcript_keeps_everything_that_was_summarised(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        Talk(rig, Say("noted"))
        await rig.ask("remember: " + "x" * 44_000)
        await rig.ask("and now?")
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]
        await rig.ask("still there?")
        assert "THE SUMMARY" in str(rig.model.requests[-1].messages[0].content)

    asyncio.run(scenario())


def test_a_context_overflow_leads_to_a_compaction_and_a_retry_without_repeated_text(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        talk = Talk(rig, Say("first answer"))
        await rig.ask("first")
        talk.says = [Say("I beg", failure=OVERFLOW), Say("Now it fits.")]
        outcome = await rig.ask("second")
        assert [payload.text for payload in outcome.payloads] == ["Now it fits."]
        ends = [event.data for event in rig.events if event.stream == "compaction" and event.data["phase"] == "end"]
        assert [(end["completed"], end["willRetry"], end["reason"]) for end in ends] == [(True, True, "overflow")]
        replaced = [event for event in rig.events if event.stream == "assistant" and event.data.get("replace")]
        assert len(replaced) == 1
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]
        assert outcome.usage.input == 2_000  # of the summary and of the answer

    asyncio.run(scenario())


def test_tools_that_ran_before_an_overflow_are_not_run_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(tmp_path, tools=[tool], settings=window(100_000, keepRecentTokens=10))
        Talk(rig, Say("x", (("echo", {"text": "once"}),)), Say(failure=OVERFLOW), Say("done"))
        outcome = await rig.ask()
        assert outcome.status == "ok"
        assert tool.seen == [{"text": "once"}]
        assert unanswered(rig.transcript()) == []
        assert unanswered([*rig.model.requests[-1].messages]) == []

    asyncio.run(scenario())


def test_a_history_that_cannot_be_shortened_ends_the_run_with_the_error_of_the_provider(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        Talk(rig, Say(failure=OVERFLOW))
        outcome = await rig.ask()
        assert (outcome.status, outcome.error) == ("error", str(OVERFLOW))
        assert rig.phases("compaction") == []

    asyncio.run(scenario())


def test_a_run_does_not_compact_forever(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(100_000, keepRecentTokens=20_000))
        talk = Talk(rig, Say("first"))
        for number in range(16):
            await rig.ask(f"message {number} " + "x" * 200)
        talk.says = [Say(failure=OVERFLOW)]
        outcome = await rig.ask("last")
        assert outcome.status == "error"
        assert rig.phases("compaction") == ["start", "end"] * 2

    asyncio.run(scenario())


@pytest.mark.parametrize("summary", [Say(failure=ModelFailureError("down", "server", 500)), Say("")])
def test_a_summary_that_fails_leaves_the_history_as_it_was(tmp_path: Path, summary: Say) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        Talk(rig, Say("noted"), summary=summary)
        await rig.ask("remember: " + "x" * 44_000)
        outcome = await rig.ask("and now?")
        assert outcome.status == "ok"
        assert "x" * 1000 in str(rig.model.requests[-1].messages)
        ends = [event.data for event in rig.events if event.data.get("phase") == "end" and event.stream == "compaction"]
        assert [end["completed"] for end in ends] == [False]

    asyncio.run(scenario())


def test_a_summary_call_times_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        Talk(rig, Say("noted"), summary=Say("The", hold=asyncio.Event()))
        await rig.ask("remember: " + "x" * 44_000)
        assert (await rig.ask("and now?")).status == "ok"

    instantly(scenario())


def test_the_context_is_checked_between_model_calls_only_if_enabled(tmp_path: Path) -> None:
    async def scenario(enabled: bool) -> list[str]:
        settings = window(30_000, keepRecentTokens=100, midTurnPrecheck={"enabled": enabled})
        rig = Rig(tmp_path / str(enabled), settings=settings, tools=[Echo()])
        Talk(rig, Say("x", (("echo", {"text": "y" * 50_000}),)), Say("done"))
        assert (await rig.ask("go")).status == "ok"
        assert unanswered(rig.transcript()) == []
        return rig.phases("compaction")

    assert asyncio.run(scenario(False)) == []
    assert asyncio.run(scenario(True)) == ["start", "end"]


def test_disabled_compaction_still_handles_a_context_overflow(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100, enabled=False))
        talk = Talk(rig, Say("noted"))
        await rig.ask("remember: " + "x" * 44_000)
        await rig.ask("and now?")
        assert rig.phases("compaction") == []
        talk.says = [Say(failure=OVERFLOW), Say("ok")]
        assert (await rig.ask("more")).status == "ok"
        assert rig.phases("compaction") == ["start", "end"]

    asyncio.run(scenario())


def test_a_long_history_is_summarised_in_chunks_each_with_the_summary_so_far(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(6_000, keepRecentTokens=10, enabled=False))
        talk = Talk(rig, Say("noted"))
        for number in range(6):
            await rig.ask(f"part {number}: " + "x" * 4_000)
        talk.says = [Say(failure=OVERFLOW), Say("ok")]
        await rig.ask("now")
        requests = [str(request.messages) for request in rig.model.requests if is_summary(request)]
        assert len(requests) > 1
        assert "THE SUMMARY" not in requests[0]
        assert all("THE SUMMARY" in text for text in requests[1:])

    asyncio.run(scenario())


def test_another_model_can_be_configured_for_summaries(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = configuration(
            agents={"defaults": {"compaction": {"model": "lab/other", "keepRecentTokens": 10}}},
        )
        rig = Rig(tmp_path, settings=settings)
        talk = Talk(rig, Say("noted"))
        await rig.ask("first")
        talk.says = [Say(failure=OVERFLOW), Say("ok")]
        await rig.ask("second")
        assert [request.model for request in rig.model.requests if is_summary(request)] == ["other"]

    asyncio.run(scenario())


def test_the_model_call_of_a_summary_is_reported_to_hooks_and_not_streamed(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        Talk(rig, Say("noted"), summary=Say("THE SUMMARY", usage=(9_000, 70)))
        names = ("before_compaction", "model_call_started", "model_call_ended", "after_compaction")
        reported = watch_hooks(rig.runtime.hooks, *names)
        await rig.ask("remember: " + "x" * 44_000, run_id="first")
        reported.clear()
        outcome = await rig.ask("and now?", run_id="r")
        call = ("model_call_started", "model_call_ended")
        assert [one.name for one in reported] == ["before_compaction", *call, "after_compaction", *call]
        assert [one.event["callId"] for one in reported if one.name in call] == [
            *["r:compaction:1:model:1"] * 2,
            *["r:model:1"] * 2,
        ]
        summarised, answered = (call.event for call in reported if call.name == "model_call_ended")
        assert (summarised["usage"]["input"], summarised["usage"]["output"]) == (9_000, 70)
        assert "usage" not in answered
        assert outcome.usage.output == 70 + 20
        spoken = [event.data for event in rig.events if event.run_id == "r" and event.stream in ("assistant", "usage")]
        assert spoken == [{"text": "noted", "delta": "noted"}, {"outputTokens": 20}]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_aborted", [False, True])
def test_a_failed_summary_is_reported_with_its_reason(tmp_path: Path, is_aborted: bool) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(20_000, keepRecentTokens=100))
        hold = asyncio.Event()
        failed = Say("The", failure=ModelFailureError("503 busy", "server", 503))
        Talk(rig, Say("noted"), summary=Say("The", hold=hold) if is_aborted else failed)
        ended: list[dict[str, Any]] = []
        await rig.ask("remember: " + "x" * 44_000)
        rig.runtime.hooks.on("model_call_ended", lambda event, context: ended.append(event))
        task = asyncio.create_task(rig.ask("and now?", run_id="r"))
        if is_aborted:
            while "start" not in rig.phases("compaction"):
                await asyncio.sleep(0)
            rig.runtime.cancel("r")
        outcome = await task
        assert (ended[0]["outcome"], ended[0]["errorCategory"]) == ("error", "aborted" if is_aborted else "server")
        assert ended[0].get("error") == (None if is_aborted else "503 busy")
        assert outcome.status == ("error" if is_aborted else "ok")
        assert rig.phases("compaction") == ["start", "end"]

    asyncio.run(scenario())


def test_the_context_window_of_the_answering_model_decides_how_much_is_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        models = [{"id": "scripted", "contextWindow": 8_000, "maxTokens": 500}, {"id": "vast"}]
        settings = configuration(
            models={"providers": {"lab": {"baseUrl": "http://127.0.0.1:9", "models": models}}},
            agents={"defaults": {"compaction": {"model": "lab/vast"}}},
        )
        rig = Rig(tmp_path, settings=settings)
        Talk(rig, Say("noted"))
        for number in range(6):
            await rig.ask(f"part {number}: " + "x" * 4_000)
        assert any(is_summary(request) for request in rig.model.requests)

    asyncio.run(scenario())


def test_compact_summarises_on_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=window(100_000, keepRecentTokens=10))
        talk = Talk(rig, Say("noted"))
        assert (await rig.ask("/compact")).payloads[0].text == "There is nothing to summarise yet."
        await rig.ask("one")
        await rig.ask("two")
        outcome = await rig.ask("/compact")
        assert outcome.payloads[0].text == "The history was summarised."
        assert outcome.usage.output == 20
        await rig.ask("three")
        assert "THE SUMMARY" in str(rig.model.requests[-1].messages[0].content)
        talk.summary = Say(failure=ModelFailureError("503 busy", "server", 503))
        assert (await rig.ask("/compact")).payloads[0].text.startswith("The model could not summarise the history")

    asyncio.run(scenario())
