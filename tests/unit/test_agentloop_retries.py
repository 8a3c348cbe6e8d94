"""Failed model calls: tried again after a pause, answered by another model, or given up; no text is repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agentloop import Echo, Rig, Say, configuration, defaults, instantly, roles, unanswered, watch_hooks

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.models.retries import Fallback, Retries, Retry
from critiqor.agentloop.replies.channels import MemoryOutbox
from critiqor.agentloop.replies.chat_messages import ChatFeed, ChatMessage
from critiqor.agentloop.sessions.messages import AssistantMessage
from critiqor.agentloop.settings import ModelEntry, Provider, RetrySettings


def failure(kind: FailureKind, status: int | None = None, retry_after: float | None = None) -> ModelFailureError:
    return ModelFailureError(f"scripted {kind}", kind, status, retry_after)


def retries(models: int = 1, **settings: Any) -> Retries:
    known = [ResolvedModel(Provider(id="lab"), ModelEntry(id=f"m{number}")) for number in range(models)]
    return Retries(RetrySettings(**settings), known, random_number=lambda: 0.5)


def test_delays_double_up_to_the_longest() -> None:
    steps = retries(max_delay_ms=5_000)
    delays = [step.delay_ms for step in (steps.after(failure("server")) for _ in range(5)) if isinstance(step, Retry)]
    assert delays == [1_000, 2_000, 4_000, 5_000, 5_000]


def test_delays_have_jitter() -> None:
    early = Retries(RetrySettings(jitter=0.1), retries()._models, random_number=lambda: 0.0).after(failure("server"))
    late = Retries(RetrySettings(jitter=0.1), retries()._models, random_number=lambda: 1.0).after(failure("server"))
    assert isinstance(early, Retry)
    assert isinstance(late, Retry)
    assert [early.delay_ms, late.delay_ms] == pytest.approx([900, 1_100])


def test_retry_after_is_respected_up_to_a_limit() -> None:
    step = retries().after(failure("rate_limit", 429, retry_after=7))
    assert isinstance(step, Retry)
    assert step.delay_ms == 7_000
    assert retries().after(failure("rate_limit", 429, retry_after=61)) is None
    assert isinstance(retries(2).after(failure("rate_limit", 429, retry_after=61)), Fallback)


@pytest.mark.parametrize("kind", ["auth", "billing", "rejected"])
def test_permanent_failures_are_not_retried(kind: FailureKind) -> None:
    assert retries().after(failure(kind)) is None
    assert isinstance(retries(2).after(failure(kind)), Fallback)


@pytest.mark.parametrize("kind", ["aborted", "context", "malformed"])
def test_failures_that_end_a_run_in_openclaw_end_it_here(kind: FailureKind) -> None:
    assert retries().after(failure(kind)) is None
    assert retries(2).after(failure(kind)) is None


def test_a_timeout_is_retried_only_once() -> None:
    steps = retries()
    assert isinstance(steps.after(failure("timeout")), Retry)
    assert steps.after(failure("timeout")) is None


def test_each_model_has_its_own_retries() -> None:
    steps = retries(2, max_retries=1)
    kinds = [type(steps.after(failure("server"))).__name__ for _ in range(4)]
    assert kinds == ["Retry", "Fallback", "Retry", "NoneType"]


def test_a_failed_call_is_tried_again_with_the_events_of_a_real_openclaw(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(failure=failure("server", 500)), Say("everything went well"))
        names = ("before_agent_run", "model_call_started", "model_call_ended", "agent_end", "llm_output")
        reported = watch_hooks(rig.runtime.hooks, *names)
        outcome = await rig.ask(run_id="r")
        assert outcome.status == "ok"
        assert [call.name for call in reported] == [
            *("before_agent_run", "model_call_started", "model_call_ended", "agent_end", "llm_output") * 2
        ]
        assert [call.event["callId"] for call in reported if call.name == "model_call_started"] == [
            "r:model:1",
            "r:model:1",
        ]
        first, second = (call.event for call in reported if call.name == "model_call_ended")
        assert (first["outcome"], first["errorCategory"], second["outcome"]) == ("error", "server", "completed")
        assert rig.phases("lifecycle") == ["start", "finishing", "start", "model", "finishing", "end"]
        failed = next(event.data for event in rig.events if event.data.get("phase") == "finishing")
        assert failed["errorObservation"]["failoverReason"] == "server_error"
        [status] = [event.data for event in rig.events if event.stream == "run_status"]
        assert (status["phase"], status["retryAttempt"], status["reason"]) == ("retrying", 1, "server_error")
        assert roles(rig.transcript()) == ["user", "assistant"]

    asyncio.run(scenario())


def test_the_delays_of_the_configuration_are_waited_for(tmp_path: Path) -> None:
    async def scenario() -> float:
        rig = Rig(
            tmp_path,
            *(Say(failure=failure("rate_limit", 429)) for _ in range(3)),
            Say("at last"),
            settings=defaults(retry={"minDelayMs": 1_000, "maxDelayMs": 30_000, "jitter": 0}),
        )
        clock = asyncio.get_running_loop().time
        began = clock()
        assert (await rig.ask()).status == "ok"
        return clock() - began

    assert instantly(scenario()) == pytest.approx(7, abs=0.5)


def test_tools_that_have_run_are_not_run_again_by_a_retry(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Echo()
        rig = Rig(
            tmp_path,
            Say("I begin.", (("echo", {"text": "once"}),)),
            Say(failure=failure("server", 500)),
            Say("done"),
            tools=[tool],
        )
        outcome = await rig.ask()
        assert tool.seen == [{"text": "once"}]
        assert roles(rig.model.requests[-1].messages) == ["user", "assistant", "toolResult"]
        assert unanswered(rig.transcript()) == []
        assert outcome.usage.output == 40

    asyncio.run(scenario())


def test_text_of_a_failed_attempt_is_withdrawn_from_the_chat_and_not_part_of_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("I thi", failure=failure("network")), Say("I think so."))
        chat: list[ChatMessage] = []
        ChatFeed(rig.runtime.streams, chat.append, interval=0)
        outcome = await rig.ask()
        assert [payload.text for payload in outcome.payloads] == ["I think so."]
        assert [message.text for message in chat] == ["I thi", "", "I think so.", "I think so."]
        assert chat[-1].state == "final"
        assert roles(rig.transcript()) == ["user", "assistant"]

    asyncio.run(scenario())


def test_tool_summaries_of_a_failed_attempt_are_not_part_of_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(
            tmp_path,
            Say("x", (("echo", {"text": "a"}),)),
            Say(failure=failure("server", 500)),
            Say("done"),
            tools=[Echo()],
        )
        outcome = await rig.ask(verbose="on")
        assert [payload.text for payload in outcome.payloads] == ["done"]

    asyncio.run(scenario())


def test_the_fallback_model_answers_if_the_first_one_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = defaults(model={"primary": "lab/scripted", "fallbacks": ["lab/other"]})
        rig = Rig(tmp_path, Say(failure=failure("auth", 401)), Say("I am the other one."), settings=settings)
        outcome = await rig.ask()
        assert (outcome.status, outcome.model) == ("ok", "other")
        step = next(event.data for event in rig.events if event.data.get("phase") == "fallback_step")
        assert step["fallbackStepToModel"] == "lab/other"
        rig.model.says = [Say("first again")]
        assert (await rig.ask()).model == "scripted"

    asyncio.run(scenario())


def test_a_model_that_the_caller_names_has_no_fallback(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = defaults(model={"primary": "lab/other", "fallbacks": ["lab/other"]})
        rig = Rig(tmp_path, Say(failure=failure("auth", 401)), settings=settings)
        outcome = await rig.ask(model="lab/scripted")
        assert (outcome.status, outcome.model) == ("error", "scripted")
        assert len(rig.model.requests) == 1

    asyncio.run(scenario())


def test_a_run_that_gives_up_says_why_and_marks_its_transcript(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Let me", failure=failure("server", 500)), settings=defaults(retry={"maxRetries": 2}))
        outcome = await rig.ask()
        assert (outcome.status, outcome.error, outcome.stop_reason) == ("error", "scripted server", "error")
        assert len(rig.model.requests) == 3
        assert outcome.payloads[-1].is_error
        assert rig.phases("lifecycle")[-1] == "error"
        _, last = rig.transcript()
        assert isinstance(last, AssistantMessage)
        assert (last.text, last.stop_reason, last.error_message) == ("Let me", "error", "scripted server")

    instantly(scenario())


def test_a_run_can_be_cancelled_while_it_waits_for_its_next_try(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(
            tmp_path,
            Say(failure=failure("server", 500)),
            settings=defaults(retry={"minDelayMs": 1e6, "maxDelayMs": 1e6}),
        )
        task = asyncio.create_task(rig.ask(run_id="r"))
        while "retrying" not in rig.phases("run_status"):
            await asyncio.sleep(0)
        rig.runtime.cancel("r", "no more")
        assert (await task).error == "no more"
        assert roles(rig.transcript()) == ["user"]

    asyncio.run(scenario())


def test_blocks_that_went_out_before_a_retry_do_not_go_out_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        text = "First paragraph of it.\n\nSecond paragraph of it."
        chunk = {"minChars": 10, "maxChars": 60}
        settings = configuration(agents={"defaults": {"blockStreamingDefault": "on", "blockStreamingChunk": chunk}})
        rig = Rig(
            tmp_path,
            Say(text + " Th", failure=failure("network"), pieces=40),
            Say(text + " Third.", pieces=40),
            settings=settings,
            outbox=outbox,
        )
        await rig.ask(channel="chat", to="ada", deliver=True)
        assert [message.text for message in outbox.sent] == [
            "First paragraph of it.",
            "Second paragraph of it. Third.",
        ]

    asyncio.run(scenario())
