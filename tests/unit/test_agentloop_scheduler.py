"""Scheduled runs: when they start, in which session, and what a restart keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agentloop import Rig, Say, Waiting
from support import PATIENCE_SECONDS

from critiqor.agentloop.entry.scheduler import Schedule, ScheduledRun, Scheduler
from critiqor.agentloop.runs import AgentParams
from critiqor.errors import UsageError
from critiqor.model import now_ms


@asynccontextmanager
async def running(rig: Rig) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(rig.runtime)
    scheduler.start()
    try:
        yield scheduler
    finally:
        await scheduler.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def started(rig: Rig) -> list[str]:
    """Return the session keys of the runs that have started."""
    events = [event for event in rig.events if event.stream == "lifecycle" and event.data["phase"] == "start"]
    return [event.session_key for event in events]


def test_a_run_starts_at_its_time_in_a_session_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        contexts: list[dict[str, object]] = []
        rig.runtime.hooks.on("before_agent_reply", lambda event, context: contexts.append(context))
        async with running(rig) as scheduler:
            run = scheduler.add(AgentParams(message="hi"), Schedule(at=now_ms() + 50))
            await until(lambda: bool(started(rig)))
            await rig.runtime.drain()
            assert scheduler.runs() == []
        assert started(rig) == [f"agent:main:cron:{run.id}:{run.next_at}"]
        assert contexts[0]["trigger"] == "cron"

    asyncio.run(scenario())


def test_a_repeated_run_starts_again_and_keeps_a_given_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        async with running(rig) as scheduler:
            params = AgentParams(message="hi", session_key="daily")
            scheduler.add(params, Schedule(at=now_ms(), every_seconds=1))
            await until(lambda: len(started(rig)) >= 2)
            [run] = scheduler.runs()
            assert run.last_run_id is not None and run.next_at > now_ms() - 1_000
            assert scheduler.remove(run.id) and not scheduler.remove(run.id)
        assert set(started(rig)) == {"agent:main:daily"}

    asyncio.run(scenario())


def test_a_repetition_is_left_out_while_the_run_before_it_is_in_progress(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        async with running(rig) as scheduler:
            run = scheduler.add(AgentParams(message="hi"), Schedule(at=now_ms(), every_seconds=1))
            await tool.started.wait()
            await until(lambda: scheduler.runs()[0].next_at > run.next_at + 1_500)
            assert len(started(rig)) == 1
        await rig.runtime.close()

    asyncio.run(scenario())


def test_what_is_scheduled_survives_a_restart_and_what_was_due_starts(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        scheduler = Scheduler(rig.runtime)
        later = scheduler.add(AgentParams(message="later"), Schedule(at=now_ms() + 3_600_000, every_seconds=60))
        scheduler.add(AgentParams(message="missed", session_key="missed"), Schedule(at=now_ms()))
        async with running(rig) as restarted:
            await until(lambda: started(rig) == ["agent:main:missed"])
            assert restarted.runs() == [later]
        await rig.runtime.drain()

    asyncio.run(scenario())


def test_a_run_that_cannot_start_is_kept_with_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        params = AgentParams(message="hi", agent_id="main", session_key="agent:other:x")
        async with running(rig) as scheduler:
            scheduler.add(params, Schedule(at=now_ms(), every_seconds=3_600))
            await until(lambda: scheduler.runs()[0].problem is not None)
            assert "does not belong to agent main" in (scheduler.runs()[0].problem or "")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule(), "no time"),
        (Schedule(at=1), "in the past"),
        (Schedule(every_seconds=0.01), "not a valid repetition"),
        (Schedule(every_seconds=float("nan")), "not a valid repetition"),
    ],
)
def test_a_run_that_could_never_start_is_refused(tmp_path: Path, schedule: Schedule, words: str) -> None:
    async def scenario() -> ScheduledRun:
        return Scheduler(Rig(tmp_path).runtime).add(AgentParams(message="hi"), schedule)

    with pytest.raises(UsageError, match=words):
        asyncio.run(scenario())


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        path = tmp_path / "state" / "critiqor" / "schedule.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
        with pytest.raises(UsageError, match=r"schedule\.json cannot be read"):
            Scheduler(rig.runtime).start()

    asyncio.run(scenario())
