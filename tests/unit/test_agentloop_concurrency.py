"""Many concurrent sessions: every run ends, each lane keeps its order, and no transcript contains text of another."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from agentloop import Echo, Rig, Say, defaults, read_messages, roles, unanswered

from critiqor.agentloop.models.model_client import ModelFailureError, ModelRequest
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import UserMessage

SESSIONS, TURNS = 100, 5


def script(request: ModelRequest) -> Say:
    """Call a tool and then answer, with the text of the session's own message."""
    last = request.messages[-1]
    user_messages = [message for message in request.messages if isinstance(message, UserMessage)]
    words = user_messages[-1].content[0].text  # type: ignore[union-attr]
    if isinstance(last, UserMessage):
        return Say(f"{words}: I look.", (("echo", {"text": words}),), pieces=3)
    return Say(f"{words}: done.", pieces=3)


def test_a_hundred_sessions_with_five_runs_each_end_in_order_and_do_not_mix(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=defaults(maxConcurrent=32), tools=[Echo()])
        rig.model.script, rig.model.keep = script, False
        accepted = await asyncio.gather(
            *(
                rig.runtime.agent(AgentParams(message=f"s{session} t{turn}", session_key=f"s{session}"))
                for turn in range(TURNS)
                for session in range(SESSIONS)
            )
        )
        outcomes = await asyncio.gather(*(rig.runtime.outcome(one.run_id) for one in accepted))
        assert {outcome.status for outcome in outcomes} == {"ok"}
        order: dict[str, list[str]] = defaultdict(list)
        for event in rig.events:
            if event.stream == "lifecycle" and event.data["phase"] in ("start", "end"):
                order[event.session_key].append(f"{event.run_id} {event.data['phase']}")
        for session in range(SESSIONS):
            runs = [one.run_id for number, one in enumerate(accepted) if number % SESSIONS == session]
            expected = [f"{run_id} {phase}" for run_id in runs for phase in ("start", "end")]
            assert order[f"agent:main:s{session}"] == expected
            messages = rig.transcript(f"agent:main:s{session}")
            assert roles(messages) == ["user", "assistant", "toolResult", "assistant"] * TURNS
            texts = [str(message.content[0].text).split(":")[0] for message in messages]  # type: ignore[union-attr]
            assert texts == [f"s{session} t{turn}" for turn in range(TURNS) for _ in range(4)]
        assert rig.runtime.services.lanes.names() == []
        assert rig.runtime._dispatcher.runs() == []
        assert rig.runtime._dispatcher._inboxes == {}
        assert rig.runtime.streams._sequences == {}
        await rig.runtime.close()

    asyncio.run(scenario())


def test_many_runs_with_random_faults_each_end_once_and_leave_a_consistent_transcript(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def scenario() -> None:
        class Fickle(Echo):
            async def run(self, arguments: dict[str, Any], context: Any) -> Any:
                await asyncio.sleep(chance.random() * 0.003)
                if chance.random() < 0.2:
                    raise RuntimeError("out of order")
                return await super().run(arguments, context)

        def moody(request: ModelRequest) -> Say:
            if chance.random() < 0.15:
                return Say("Hm", failure=ModelFailureError("down", "server", 500))
            if chance.random() < 0.05:
                return Say("Hm", failure=ModelFailureError("no", "auth", 401))
            return script(request)

        rig = Rig(tmp_path, settings=defaults(maxConcurrent=16), tools=[Fickle()])
        rig.model.script, rig.model.keep = moody, False
        modes = [None, "steer", "followup", "collect", "interrupt"]

        async def send(number: int) -> str:
            await asyncio.sleep(chance.random() * 0.05)
            key, mode = f"s{number % 12}", chance.choice(modes)
            params = AgentParams(message=f"m{number}", session_key=key, queue_mode=mode, timeout_seconds=5)  # type: ignore[arg-type]
            run_id = (await rig.runtime.agent(params)).run_id
            if chance.random() < 0.2:
                await asyncio.sleep(chance.random() * 0.005)
                rig.runtime.cancel(run_id)
            return run_id

        runs = await asyncio.gather(*(send(number) for number in range(200)))
        outcomes = await asyncio.gather(*(rig.runtime.outcome(run_id) for run_id in runs))
        ends = [
            event for event in rig.events if event.stream == "lifecycle" and event.data["phase"] in ("end", "error")
        ]
        assert sorted(event.run_id for event in ends) == sorted(runs)
        assert {outcome.status for outcome in outcomes} == {"ok", "error"}
        for path in tmp_path.rglob("sessions/*.jsonl"):
            assert unanswered(read_messages(path)) == []
        assert list(tmp_path.rglob("*.jsonl.lock")) == []
        assert rig.runtime._dispatcher._inboxes == {}
        await rig.runtime.close()

    asyncio.run(scenario())
