"""`agent`, `wait` and `cancel` of the runtime, time limits, commands, subagents and external agents."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from agentloop import ECHO, Echo, Rig, Say, Waiting, configuration, defaults, instantly, roles, unanswered, watch_hooks

from critiqor.agentloop.loop.external_agent import ExternalProgress, ExternalRequest
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import ToolResultMessage
from critiqor.errors import CritiqorError, UsageError


def test_agent_returns_before_the_model_answers_and_after_the_session_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()
        rig = Rig(tmp_path, Say("late", hold=hold))
        accepted = await rig.runtime.agent(AgentParams(message="go"))
        assert accepted.run_id
        assert accepted.accepted_at > 0
        [store] = tmp_path.rglob("sessions.json")
        assert "agent:main:main" in json.loads(store.read_text())
        hold.set()
        assert (await rig.runtime.wait(accepted.run_id)).status == "ok"

    asyncio.run(scenario())


def test_a_timeout_of_wait_does_not_stop_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()
        rig = Rig(tmp_path, Say("late", hold=hold))
        accepted = await rig.runtime.agent(AgentParams(message="go"))
        clock = asyncio.get_running_loop().time
        began = clock()
        first = await rig.runtime.wait(accepted.run_id)
        assert 30 <= clock() - began < 31
        assert (first.status, first.ended_at, first.error) == ("timeout", None, None)
        hold.set()
        second = await rig.runtime.wait(accepted.run_id, 5)
        assert second.status == "ok"
        assert second.started_at is not None
        assert second.ended_at is not None
        assert second.started_at <= second.ended_at
        assert await rig.runtime.wait(accepted.run_id, 0) == second

    instantly(scenario())


def test_wait_returns_the_error_of_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        accepted = await rig.runtime.agent(AgentParams(message="go", model="nobody/knows"))
        result = await rig.runtime.wait(accepted.run_id)
        assert result.status == "error"
        assert "nobody/knows" in str(result.error)

    asyncio.run(scenario())


def test_waiting_for_an_unknown_run_is_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError):
            await Rig(tmp_path).runtime.wait("unheard-of")

    asyncio.run(scenario())


def test_two_calls_with_the_same_run_id_start_one_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        params = AgentParams(message="go", run_id="mine")
        both = await asyncio.gather(rig.runtime.agent(params), rig.runtime.agent(params))
        assert [accepted.status for accepted in both] == ["accepted", "in_flight"]
        await rig.runtime.wait("mine")
        assert (await rig.runtime.agent(params)).status == "in_flight"
        assert len(rig.model.requests) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "params",
    [
        {"message": "  "},
        {"message": "x", "timeout_seconds": -1},
        {"message": "x", "timeout_seconds": float("nan")},
        {"message": "x" * (4 * 1024 * 1024 + 1)},
        {"message": "x", "agent_id": "no/such"},
        {"message": "x", "session_key": "agent:ops:x", "agent_id": "main"},
    ],
)
def test_invalid_parameters_are_rejected_at_once(tmp_path: Path, params: dict[str, Any]) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        with pytest.raises(UsageError):
            await rig.runtime.agent(AgentParams(**params))
        assert rig.events == []

    asyncio.run(scenario())


def test_messages_of_one_session_are_answered_one_after_the_other_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("ok", pieces=2))
        accepted = await asyncio.gather(
            *(rig.runtime.agent(AgentParams(message=f"message {number}")) for number in range(5))
        )
        for one in accepted:
            await rig.runtime.wait(one.run_id)
        phases = [(event.run_id, event.data["phase"]) for event in rig.events if event.stream == "lifecycle"]
        expected = [(one.run_id, phase) for one in accepted for phase in ("start", "model", "finishing", "end")]
        assert phases == expected
        texts = [message.content[0].text for message in rig.transcript() if roles([message]) == ["user"]]  # type: ignore[union-attr]
        assert texts == [f"message {number}" for number in range(5)]

    asyncio.run(scenario())


def test_sessions_do_not_wait_for_each_other_but_the_global_lane_limits_them(tmp_path: Path) -> None:
    async def scenario(limit: int) -> int:
        rig = Rig(tmp_path / str(limit), settings=defaults(maxConcurrent=limit))
        most = inside = 0
        gate = asyncio.Event()

        async def slow(event: dict[str, Any], context: dict[str, Any]) -> None:
            nonlocal most, inside
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.002)
            inside -= 1

        rig.runtime.hooks.on("model_call_started", slow)
        gate.set()
        await asyncio.gather(*(rig.ask(session_key=f"s{number}") for number in range(8)))
        return most

    assert asyncio.run(scenario(3)) == 3
    assert asyncio.run(scenario(8)) == 8


def test_a_queued_run_can_be_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say(tools=(("waiting", {}),)), tools=[tool])
        await rig.runtime.agent(AgentParams(message="first", run_id="first"))
        await rig.runtime.agent(AgentParams(message="second", run_id="second"))
        await tool.started.wait()
        assert rig.runtime.cancel("second")
        result = await rig.runtime.wait("second")
        assert (result.status, result.started_at) == ("error", None)
        assert not rig.runtime.cancel("second")
        assert rig.runtime.cancel("first")
        await rig.runtime.wait("first")
        assert "second" not in str(rig.transcript())

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_right_after_its_acceptance_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        await rig.ask("warm up")
        await rig.runtime.agent(AgentParams(message="go", run_id="r"))
        assert rig.runtime.cancel("r")
        assert (await rig.runtime.wait("r", 1)).status == "error"
        assert (await rig.ask("again")).status == "ok"

    asyncio.run(scenario())


def test_a_run_that_times_out_is_aborted_and_its_transcript_is_consistent(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("On it.", (("waiting", {}),)), tools=[Waiting()])
        outcome = await rig.ask(timeout_seconds=60)
        assert (outcome.status, outcome.aborted) == ("error", True)
        assert "timed out after 60 seconds" in str(outcome.error)
        assert unanswered(rig.transcript()) == []
        rig.model.says = [Say("done")]
        assert (await rig.ask()).status == "ok"

    instantly(scenario())


def test_a_run_without_a_configured_limit_ends_after_48_hours(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(
            tmp_path,
            Say("On it.", (("waiting", {}),)),
            tools=[Waiting()],
            settings=configuration(diagnostics={"enabled": False}),
        )
        outcome = await rig.ask()
        assert "timed out after 172800 seconds" in str(outcome.error)

    instantly(scenario())


def test_the_configured_limit_applies_if_the_caller_gives_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), settings=defaults(timeoutSeconds=3600), tools=[Waiting()])
        assert "timed out after 3600 seconds" in str((await rig.ask()).error)

    instantly(scenario())


def test_the_time_limit_starts_when_the_run_leaves_the_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), Say("quick"), tools=[tool])
        await rig.runtime.agent(AgentParams(message="slow", run_id="slow"))
        await tool.started.wait()
        await rig.runtime.agent(AgentParams(message="next", run_id="next", timeout_seconds=5))
        await asyncio.sleep(7)
        rig.runtime.cancel("slow")
        assert (await rig.runtime.wait("next")).status == "ok"

    instantly(scenario())


class Stubborn(Echo):
    """A tool that ignores cancellation."""

    name = "stubborn"

    def __init__(self) -> None:
        super().__init__()
        self.freed = asyncio.Event()
        self.stopped = False

    async def run(self, arguments: Any, context: Any) -> Any:
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except asyncio.CancelledError:
                self.stopped = True
        return await super().run(arguments, context)


def test_a_run_that_does_not_stop_is_abandoned_and_frees_its_lane_and_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Stubborn()
        rig = Rig(tmp_path, Say("x", (("stubborn", {}),)), Say("second"), tools=[tool])
        outcome = await rig.ask("first", trigger="cron", timeout_seconds=300)
        assert tool.stopped
        assert "was abandoned" in str(outcome.error)
        assert (await rig.ask("second")).status == "ok"
        before = len(rig.transcript())
        tool.freed.set()
        await asyncio.sleep(0.01)
        messages = rig.transcript()
        assert len(messages) == before
        assert unanswered(messages) == []

    instantly(scenario())


def test_a_run_abandoned_before_its_first_write_calls_no_model_and_writes_nothing_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        freed = asyncio.Event()

        async def stubborn(event: dict[str, Any], context: dict[str, Any]) -> None:
            while context["runId"] == "r" and not freed.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await freed.wait()

        rig = Rig(tmp_path, Say("second"))
        rig.runtime.hooks.on("before_agent_reply", stubborn)
        outcome = await rig.ask("first", run_id="r", timeout_seconds=300)
        assert "was abandoned" in str(outcome.error)
        freed.set()
        assert (await rig.ask("second")).status == "ok"
        await asyncio.sleep(100)
        assert len(rig.model.requests) == 1
        assert roles(rig.transcript()) == ["user", "assistant"]

    instantly(scenario())


def test_a_second_cancel_does_not_shorten_the_grace_period(tmp_path: Path) -> None:
    async def scenario() -> None:
        steps: list[str] = []

        async def slowly(event: dict[str, Any], context: dict[str, Any]) -> None:
            steps.append("started")
            await asyncio.sleep(1)
            steps.append("finished")

        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        rig.runtime.hooks.on("agent_end", slowly)
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r", "first")
        while not steps:
            await asyncio.sleep(0)
        rig.runtime.cancel("r", "second")
        assert (await task).error == "first"
        assert steps == ["started", "finished"]

    instantly(scenario())


def test_a_run_ends_and_frees_its_lane_even_if_its_session_cannot_be_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), Say("again"), tools=[tool])
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        [store] = tmp_path.rglob("sessions.json")
        aside = store.rename(store.with_name("aside"))
        store.mkdir()
        rig.runtime.cancel("r")
        async with asyncio.timeout(5):
            assert (await task).aborted
        store.rmdir()
        aside.rename(store)
        async with asyncio.timeout(5):
            assert (await rig.ask("next")).status == "ok"
        assert rig.phases("lifecycle").count("error") == 1

    asyncio.run(scenario())


def test_an_aborted_run_reports_its_usage(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r")
        assert (await task).usage.output == 20

    asyncio.run(scenario())


def test_agent_does_not_wait_for_message_received_handlers(tmp_path: Path) -> None:
    async def scenario() -> None:
        freed = asyncio.Event()
        looked: list[str] = []

        async def slow(event: dict[str, Any], context: dict[str, Any]) -> None:
            await freed.wait()
            looked.append(event["content"])

        rig = Rig(tmp_path)
        rig.runtime.hooks.on("message_received", slow)
        async with asyncio.timeout(5):
            assert (await rig.ask("hi", channel="chat")).status == "ok"
        assert looked == []
        freed.set()
        await rig.runtime.drain()
        assert looked == ["hi"]

    asyncio.run(scenario())


def test_a_message_that_arrives_during_close_is_rejected_and_starts_no_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        coming = asyncio.create_task(rig.runtime.agent(AgentParams(message="go", run_id="r")))
        await asyncio.sleep(0)
        await rig.runtime.close()
        with pytest.raises(CritiqorError, match="is closing"):
            await coming
        assert rig.events == []

    asyncio.run(scenario())


def test_close_aborts_active_runs_and_rejects_later_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        await rig.runtime.agent(AgentParams(message="go", run_id="r"))
        await rig.runtime.agent(AgentParams(message="behind it", run_id="q"))
        await tool.started.wait()
        await rig.runtime.close()
        assert (await rig.runtime.wait("r", 0)).status == "error"
        assert (await rig.runtime.wait("q", 0)).status == "error"
        assert unanswered(rig.transcript()) == []
        with pytest.raises(CritiqorError):
            await rig.runtime.agent(AgentParams(message="too late"))

    asyncio.run(scenario())


def test_the_number_of_kept_outcomes_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("critiqor.agentloop.queue.dispatcher.MAX_KEPT_OUTCOMES", 3)

    async def scenario() -> None:
        rig = Rig(tmp_path)
        outcomes = [await rig.ask(f"{number}") for number in range(5)]
        assert (await rig.runtime.outcome(outcomes[-1].run_id)).status == "ok"
        with pytest.raises(UsageError):
            await rig.runtime.outcome(outcomes[0].run_id)

    asyncio.run(scenario())


def test_new_starts_a_new_transcript_and_answers_the_text_after_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("ok"))
        hook_calls = watch_hooks(rig.runtime.hooks, "before_reset", "session_end", "session_start")
        first = await rig.ask("remember me")
        second = await rig.ask("/new what do you know?")
        assert first.session_id != second.session_id
        assert [message.content[0].text for message in rig.model.requests[-1].messages] == ["what do you know?"]  # type: ignore[union-attr]
        assert [call.name for call in hook_calls] == ["session_start", "before_reset", "session_end", "session_start"]
        assert hook_calls[2].event["reason"] == "new"
        plain = await rig.ask("/reset")
        assert plain.payloads[0].text
        assert len(rig.model.requests) == 2
        assert (await rig.ask("hello")).session_id == plain.session_id

    asyncio.run(scenario())


def test_a_message_queued_behind_new_is_answered_in_the_new_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        await rig.ask("old")
        runs = [(await rig.runtime.agent(AgentParams(message=text))).run_id for text in ("/new", "fresh", "fresher")]
        reset, first, second = [await rig.runtime.outcome(run_id) for run_id in runs]
        assert reset.session_id == first.session_id == second.session_id
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]
        assert roles(rig.model.requests[-1].messages) == ["user", "assistant", "user"]

    asyncio.run(scenario())


def test_the_usage_of_queued_runs_adds_up_in_their_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        accepted = [await rig.runtime.agent(AgentParams(message=f"{number}")) for number in range(4)]
        for one in accepted:
            await rig.runtime.wait(one.run_id)
        session = rig.runtime.services.sessions.find("main", "agent:main:main")
        assert session is not None
        assert session.entry.input_tokens == 4_000
        text = session.transcript.read_text()
        assert text.count('"model_change"') == 1
        assert text.count('"thinking_level_change"') == 1

    asyncio.run(scenario())


def test_stop_aborts_the_active_run_and_the_queued_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        await rig.runtime.agent(AgentParams(message="go", run_id="r"))
        await rig.runtime.agent(AgentParams(message="behind", run_id="q"))
        await tool.started.wait()
        stopped = await rig.ask("/stop")
        assert stopped.status == "ok"
        assert "/stop" in str((await rig.runtime.wait("r")).error)
        assert (await rig.runtime.wait("q")).status == "error"

    asyncio.run(scenario())


def test_a_subagent_runs_separately_and_its_result_is_announced_to_the_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        def script(request: Any) -> Say:
            last = request.messages[-1]
            text = str(last.content)
            if "count the files" in text and roles([last]) == ["user"]:
                return Say("There are 7 files.")
            if roles([last]) == ["toolResult"]:
                return Say("I have started a subagent.")
            if "has finished" in text:
                return Say("The child found 7 files.")
            return Say(tools=(("sessions_spawn", {"task": "count the files", "label": "counter"}),))

        rig = Rig(tmp_path)
        rig.model.script = script
        hook_calls = watch_hooks(rig.runtime.hooks, "subagent_spawned", "subagent_ended")
        outcome = await rig.ask("how many files?")
        await rig.runtime.drain()
        assert outcome.payloads[-1].text == "I have started a subagent."
        assert [call.name for call in hook_calls] == ["subagent_spawned", "subagent_ended"]
        spawned, ended = hook_calls[0].event, hook_calls[1].event
        assert spawned["childSessionKey"] == ended["targetSessionKey"]
        assert ended["outcome"] == "ok"
        texts = [str(message.content) for message in rig.transcript()]
        assert any("There are 7 files." in text for text in texts)
        assert "The child found 7 files." in texts[-1]
        child = rig.transcript(spawned["childSessionKey"])
        assert roles(child) == ["user", "assistant"]

    asyncio.run(scenario())


def _with_a_child(request: Any) -> Say:
    last = request.messages[-1]
    if roles([last]) == ["toolResult"] or "count" in str(last.content):
        return Say("Yes.")
    return Say(tools=(("sessions_spawn", {"task": "count"}),))


def test_a_subagent_whose_result_cannot_be_announced_causes_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, problem: complaints.append(problem))
        rig = Rig(tmp_path)
        rig.model.script = _with_a_child
        assert (await rig.ask("do it")).status == "ok"
        monkeypatch.setattr("critiqor.agentloop.runs.MAX_MESSAGE_CHARS", 3)
        await rig.runtime.drain()
        gc.collect()
        assert complaints == []

    asyncio.run(scenario())


def test_subagent_hooks_that_hang_cannot_keep_the_runtime_from_closing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def hang(event: dict[str, Any], context: dict[str, Any]) -> None:
            await asyncio.Event().wait()

        rig = Rig(tmp_path)
        rig.model.script = _with_a_child
        rig.runtime.hooks.on("subagent_ended", hang)
        await rig.ask("do it")
        async with asyncio.timeout(60):
            await rig.runtime.close()

    instantly(scenario())


def test_a_subagent_cannot_spawn_subagents(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        await rig.ask("task", session_key="agent:main:subagent:1", trigger="subagent")
        names = [tool["function"]["name"] for tool in rig.model.requests[0].tools]
        assert "sessions_spawn" not in names
        assert "exec" in names

    asyncio.run(scenario())


def test_the_answer_of_an_external_agent_is_saved_and_streamed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def turn(request: ExternalRequest, progress: ExternalProgress) -> str:
            progress.add_text("Hello ")
            progress.add_text(request.message)
            return progress.text

        rig = Rig(tmp_path)
        accepted = await rig.runtime.agent(AgentParams(message="Ada"), turn)
        outcome = await rig.runtime.outcome(accepted.run_id)
        assert outcome.payloads[0].text == "Hello Ada"
        assert roles(rig.transcript()) == ["user", "assistant"]
        assert rig.phases("lifecycle") == ["start", "finishing", "end"]

    asyncio.run(scenario())


def test_an_external_agent_without_progress_is_aborted_and_one_with_progress_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        stopped: list[bool] = []

        async def stalls(request: ExternalRequest, progress: ExternalProgress) -> str:
            progress.report(step=1)
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(True)
            return ""

        async def goes_on(request: ExternalRequest, progress: ExternalProgress) -> str:
            for step in range(6):
                await asyncio.sleep(50)
                progress.report(step=step)
            return "made it"

        rig = Rig(tmp_path)
        stalled = await rig.runtime.agent(AgentParams(message="one"), stalls)
        outcome = await rig.runtime.outcome(stalled.run_id)
        assert outcome.status == "error"
        assert "no progress" in str(outcome.error)
        assert stopped == [True]
        accepted = await rig.runtime.agent(AgentParams(message="two"), goes_on)
        assert (await rig.runtime.outcome(accepted.run_id)).payloads[0].text == "made it"

    instantly(scenario())


def test_the_next_run_sees_a_result_for_the_open_call_of_an_aborted_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}), ECHO)), Say("done"), tools=[tool])
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r")
        await task
        await rig.ask("and now?")
        sent = rig.model.requests[-1].messages
        assert unanswered(sent) == []
        assert sum(isinstance(message, ToolResultMessage) for message in sent) == 2

    asyncio.run(scenario())


def test_a_session_locked_by_another_process_is_an_error_of_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        from critiqor.agentloop.sessions.write_lock import acquire

        settings = configuration(session={"writeLock": {"acquireTimeoutMs": 10}})
        rig = Rig(tmp_path, settings=settings)
        first = await rig.ask()
        session = rig.runtime.services.sessions.find("main", first.session_key)
        assert session is not None
        lock = await acquire(session.transcript, "somebody else")
        outcome = await rig.ask("again")
        assert outcome.status == "error"
        assert "another writer holds the session" in str(outcome.error)
        lock.release()
        assert (await rig.ask("once more")).status == "ok"

    asyncio.run(scenario())
