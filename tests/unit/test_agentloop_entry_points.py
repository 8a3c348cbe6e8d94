"""`agent` and `wait`: accepted at once, waited for without harm, ended in every way there is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from typing import Any

import pytest
from agentloop import ECHO, Echo, Rig, Say, Waiting, configuration, defaults, instantly, roles, unanswered

from critiqor.agentloop.loop.external_agent import ExternalRequest, Progress
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import ToolResultMessage
from critiqor.errors import CritiqorError, UsageError


def test_agent_returns_before_the_model_has_answered_and_the_session_is_on_disk_by_then(tmp_path):
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


def test_wait_only_waits_and_the_run_goes_on(tmp_path):
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


def test_wait_says_what_went_wrong(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path)
        accepted = await rig.runtime.agent(AgentParams(message="go", model="nobody/knows"))
        result = await rig.runtime.wait(accepted.run_id)
        assert result.status == "error"
        assert "nobody/knows" in str(result.error)

    asyncio.run(scenario())


def test_waiting_for_a_run_that_never_was_is_an_error(tmp_path):
    async def scenario() -> None:
        with pytest.raises(UsageError):
            await Rig(tmp_path).runtime.wait("unheard-of")

    asyncio.run(scenario())


def test_asking_twice_under_one_run_id_starts_one_run(tmp_path):
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
def test_what_cannot_be_run_is_refused_at_once(tmp_path, params):
    async def scenario() -> None:
        rig = Rig(tmp_path)
        with pytest.raises(UsageError):
            await rig.runtime.agent(AgentParams(**params))
        assert rig.events == []

    asyncio.run(scenario())


def test_messages_of_one_session_are_answered_one_after_the_other_in_order(tmp_path):
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
        asked = [message.content[0].text for message in rig.transcript() if roles([message]) == ["user"]]  # type: ignore[union-attr]
        assert asked == [f"message {number}" for number in range(5)]

    asyncio.run(scenario())


def test_sessions_do_not_wait_for_each_other_but_the_global_lane_limits_them(tmp_path):
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


def test_a_run_that_waits_for_its_turn_can_be_cancelled(tmp_path):
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


def test_a_run_that_is_cancelled_in_the_moment_in_which_it_is_accepted_ends_as_well(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path)
        await rig.ask("warm up")
        await rig.runtime.agent(AgentParams(message="go", run_id="r"))
        assert rig.runtime.cancel("r")
        assert (await rig.runtime.wait("r", 1)).status == "error"
        assert (await rig.ask("again")).status == "ok"

    asyncio.run(scenario())


def test_a_run_that_takes_too_long_is_aborted_and_its_transcript_is_whole(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("On it.", (("waiting", {}),)), tools=[Waiting()])
        outcome = await rig.ask(timeout_seconds=60)
        assert (outcome.status, outcome.aborted) == ("error", True)
        assert "timed out after 60 seconds" in str(outcome.error)
        assert unanswered(rig.transcript()) == []
        rig.model.says = [Say("done")]
        assert (await rig.ask()).status == "ok"

    instantly(scenario())


def test_a_run_ends_after_48_hours_where_nobody_says_anything(tmp_path):
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


def test_the_limit_of_the_configuration_holds_where_the_caller_says_nothing(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), settings=defaults(timeoutSeconds=3600), tools=[Waiting()])
        assert "timed out after 3600 seconds" in str((await rig.ask()).error)

    instantly(scenario())


def test_the_time_of_a_run_begins_with_its_turn(tmp_path):
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
    """A tool that does not stop when it is told to."""

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


def test_a_run_that_does_not_come_to_its_end_is_left_behind_and_its_lane_and_lock_are_free(tmp_path):
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


def test_a_run_that_was_left_behind_before_it_wrote_anything_asks_and_writes_nothing_later(tmp_path):
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


def test_a_second_cancel_does_not_cut_short_what_the_first_one_has_begun(tmp_path):
    async def scenario() -> None:
        told: list[str] = []

        async def slowly(event: dict[str, Any], context: dict[str, Any]) -> None:
            told.append("begun")
            await asyncio.sleep(1)
            told.append("heard to the end")

        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        rig.runtime.hooks.on("agent_end", slowly)
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r", "first")
        while not told:
            await asyncio.sleep(0)
        rig.runtime.cancel("r", "second")
        assert (await task).error == "first"
        assert told == ["begun", "heard to the end"]

    instantly(scenario())


def test_a_run_ends_and_frees_its_lane_even_where_its_session_cannot_be_remembered(tmp_path):
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


def test_what_an_aborted_run_has_used_is_told(tmp_path):
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r")
        assert (await task).usage.output == 20

    asyncio.run(scenario())


def test_agent_does_not_wait_for_plugins_that_look_at_the_message(tmp_path):
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


def test_a_message_that_comes_in_the_moment_of_closing_is_refused_and_starts_nothing(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path)
        coming = asyncio.create_task(rig.runtime.agent(AgentParams(message="go", run_id="r")))
        await asyncio.sleep(0)
        await rig.runtime.close()
        with pytest.raises(CritiqorError, match="is closing"):
            await coming
        assert rig.events == []

    asyncio.run(scenario())


def test_closing_ends_what_is_under_way_and_refuses_what_comes_after(tmp_path):
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


def test_outcomes_of_old_runs_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("critiqor.agentloop.queue.dispatcher.MAX_KEPT_OUTCOMES", 3)

    async def scenario() -> None:
        rig = Rig(tmp_path)
        outcomes = [await rig.ask(f"{number}") for number in range(5)]
        assert (await rig.runtime.outcome(outcomes[-1].run_id)).status == "ok"
        with pytest.raises(UsageError):
            await rig.runtime.outcome(outcomes[0].run_id)

    asyncio.run(scenario())


def test_new_begins_a_new_transcript_and_answers_what_stands_behind_it(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("ok"))
        told: list[tuple[str, dict[str, Any]]] = []
        for name in ("before_reset", "session_end", "session_start"):
            rig.runtime.hooks.on(name, lambda event, context, name=name: told.append((name, event)))
        first = await rig.ask("remember me")
        second = await rig.ask("/new what do you know?")
        assert first.session_id != second.session_id
        assert [message.content[0].text for message in rig.model.requests[-1].messages] == ["what do you know?"]  # type: ignore[union-attr]
        assert [name for name, _ in told] == ["session_start", "before_reset", "session_end", "session_start"]
        assert told[2][1]["reason"] == "new"
        plain = await rig.ask("/reset")
        assert plain.payloads[0].text
        assert len(rig.model.requests) == 2
        assert (await rig.ask("hello")).session_id == plain.session_id

    asyncio.run(scenario())


def test_a_message_that_waited_behind_new_is_answered_in_the_new_session(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path)
        await rig.ask("old")
        runs = [(await rig.runtime.agent(AgentParams(message=text))).run_id for text in ("/new", "fresh", "fresher")]
        reset, first, second = [await rig.runtime.outcome(run_id) for run_id in runs]
        assert reset.session_id == first.session_id == second.session_id
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]
        assert roles(rig.model.requests[-1].messages) == ["user", "assistant", "user"]

    asyncio.run(scenario())


def test_what_waiting_runs_use_adds_up_in_their_session(tmp_path):
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


def test_stop_ends_the_run_under_way_and_what_waits_behind_it(tmp_path):
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


def test_a_child_session_works_on_its_own_and_its_parent_is_told(tmp_path):
    async def scenario() -> None:
        def script(request: Any) -> Say:
            asked = request.messages[-1]
            text = str(asked.content)
            if "count the files" in text and roles([asked]) == ["user"]:
                return Say("There are 7 files.")
            if roles([asked]) == ["toolResult"]:
                return Say("I have asked a child.")
            if "has finished" in text:
                return Say("The child found 7 files.")
            return Say(tools=(("sessions_spawn", {"task": "count the files", "label": "counter"}),))

        rig = Rig(tmp_path)
        rig.model.script = script
        told: list[tuple[str, dict[str, Any]]] = []
        for name in ("subagent_spawned", "subagent_ended"):
            rig.runtime.hooks.on(name, lambda event, context, name=name: told.append((name, event)))
        outcome = await rig.ask("how many files?")
        await rig.runtime.drain()
        assert outcome.payloads[-1].text == "I have asked a child."
        assert [name for name, _ in told] == ["subagent_spawned", "subagent_ended"]
        spawned, ended = told[0][1], told[1][1]
        assert spawned["childSessionKey"] == ended["targetSessionKey"]
        assert ended["outcome"] == "ok"
        texts = [str(message.content) for message in rig.transcript()]
        assert any("There are 7 files." in text for text in texts)
        assert "The child found 7 files." in texts[-1]
        child = rig.transcript(spawned["childSessionKey"])
        assert roles(child) == ["user", "assistant"]

    asyncio.run(scenario())


def _with_a_child(request: Any) -> Say:
    asked = request.messages[-1]
    if roles([asked]) == ["toolResult"] or "count" in str(asked.content):
        return Say("Yes.")
    return Say(tools=(("sessions_spawn", {"task": "count"}),))


def test_a_child_whose_end_cannot_be_announced_disturbs_nobody(tmp_path, monkeypatch):
    async def scenario() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: complaints.append(told))
        rig = Rig(tmp_path)
        rig.model.script = _with_a_child
        assert (await rig.ask("do it")).status == "ok"
        monkeypatch.setattr("critiqor.agentloop.runs.MAX_MESSAGE_CHARS", 3)
        await rig.runtime.drain()
        gc.collect()
        assert complaints == []

    asyncio.run(scenario())


def test_plugins_that_hear_of_a_child_cannot_keep_the_runtime_from_closing(tmp_path):
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


def test_a_child_has_no_children(tmp_path):
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        await rig.ask("task", session_key="agent:main:subagent:1", trigger="subagent")
        names = [tool["function"]["name"] for tool in rig.model.requests[0].tools]
        assert "sessions_spawn" not in names
        assert "exec" in names

    asyncio.run(scenario())


def test_an_external_turn_is_written_down_and_streamed_like_any_other(tmp_path):
    async def scenario() -> None:
        async def turn(request: ExternalRequest, progress: Progress) -> str:
            progress.add_text("Hello ")
            progress.add_text(request.message)
            return progress.text

        rig = Rig(tmp_path)
        accepted = await rig.runtime.agent(AgentParams(message="Ada"), turn)
        outcome = await rig.runtime.outcome(accepted.run_id)
        assert outcome.payloads[0].text == "Hello Ada"
        assert roles(rig.transcript()) == ["user", "assistant"]
        assert rig.phases("lifecycle") == ["start", "end"]

    asyncio.run(scenario())


def test_an_external_turn_without_progress_is_aborted_and_one_with_progress_is_not(tmp_path):
    async def scenario() -> None:
        stopped: list[bool] = []

        async def stalls(request: ExternalRequest, progress: Progress) -> str:
            progress.report(step=1)
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(True)
            return ""

        async def goes_on(request: ExternalRequest, progress: Progress) -> str:
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


def test_a_result_that_a_stopped_run_left_open_is_there_for_the_model_of_the_next(tmp_path):
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


def test_a_busy_session_of_another_process_is_an_error_of_the_run_and_not_of_the_program(tmp_path):
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
