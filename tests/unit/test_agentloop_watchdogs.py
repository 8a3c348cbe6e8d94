"""Limits on time and silence: which apply, and what happens when they are reached."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agentloop import Rig, Say, Waiting, configuration, defaults, instantly, unanswered

from critiqor.agentloop.loop.run_supervisor import run_timeout
from critiqor.agentloop.models.timeouts import idle_timeout
from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.queue.stuck_sessions import StuckSessionWarning, StuckSessionWatchdog
from critiqor.agentloop.runs import Abort, AgentParams, Run
from critiqor.agentloop.sessions.session_store import SessionEntry
from critiqor.agentloop.sessions.sessions import Session
from critiqor.agentloop.settings import DiagnosticsSettings, Provider


def limit(provider: float | None = None, agent: float | None = None, **params: Any) -> float | None:
    settings = configuration() if agent is None else defaults(timeoutSeconds=agent)
    return idle_timeout(settings, AgentParams(message="x", **params), Provider(id="p", timeout_seconds=provider))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (limit(), 120),
        (limit(agent=60), 60),
        (limit(agent=600), 120),
        (limit(agent=0), 120),
        (limit(provider=300), 300),
        (limit(provider=300, agent=200), 200),
        (limit(provider=300, timeout_seconds=50), 50),
        (limit(timeout_seconds=50), 50),
        (limit(timeout_seconds=0), 120),
        (limit(trigger="cron"), None),
        (limit(trigger="cron", timeout_seconds=600), 120),
        (limit(trigger="cron", agent=90), 90),
        (limit(trigger="cron", provider=300), 300),
    ],
)
def test_idle_limits(found: float | None, expected: float | None) -> None:
    assert found == expected


def test_run_limits() -> None:
    assert run_timeout(configuration(), AgentParams(message="x")) == 172_800
    assert run_timeout(defaults(timeoutSeconds=60), AgentParams(message="x")) == 60
    assert run_timeout(defaults(timeoutSeconds=60), AgentParams(message="x", timeout_seconds=5)) == 5
    assert run_timeout(defaults(timeoutSeconds=60), AgentParams(message="x", timeout_seconds=0)) is None


def test_a_silent_model_times_out_after_two_minutes_and_is_retried_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        silent = Say("I am thin", hold=asyncio.Event())
        rig = Rig(tmp_path, silent)
        clock = asyncio.get_running_loop().time
        began = clock()
        outcome = await rig.ask()
        assert outcome.status == "error"
        assert "nothing for 120 seconds (idle timeout)" in str(outcome.error)
        assert len(rig.model.requests) == 2
        assert 240 <= clock() - began < 260

    instantly(scenario())


def test_a_model_that_keeps_sending_has_no_time_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        from collections.abc import AsyncIterator

        from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta

        class Slow:
            request_bytes = response_bytes = 0

            def ask(self, request: Any) -> Slow:
                return self

            async def __aiter__(self) -> AsyncIterator[Delta]:
                for _ in range(10):
                    await asyncio.sleep(100)
                    yield TextDelta("more ")
                yield Finished("stop")

        rig = Rig(tmp_path, clients=lambda provider, key: Slow())
        assert (await rig.ask()).payloads[0].text == "more more more more more more more more more more"

    instantly(scenario())


def test_a_provider_can_have_its_own_idle_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = {"baseUrl": "http://127.0.0.1:9", "timeoutSeconds": 900, "models": [{"id": "scripted"}]}
        settings = configuration(
            models={"providers": {"lab": provider}}, agents={"defaults": {"retry": {"maxRetries": 0}}}
        )
        rig = Rig(tmp_path, Say("x", hold=asyncio.Event()), settings=settings)
        assert "nothing for 900 seconds" in str((await rig.ask()).error)

    instantly(scenario())


def test_a_cron_run_has_no_idle_limit_and_ends_at_its_deadline(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = configuration(diagnostics={"enabled": False})
        rig = Rig(tmp_path, Say("x", hold=asyncio.Event()), settings=settings)
        clock = asyncio.get_running_loop().time
        began = clock()
        silent = asyncio.create_task(rig.ask(trigger="cron", run_id="r"))
        await asyncio.sleep(3_000)
        assert not silent.done()
        rig.runtime.cancel("r")
        await silent
        rig.model.says = [Say("x", (("waiting", {}),))]
        began = clock()
        rig2 = Rig(tmp_path / "2", Say("x", (("waiting", {}),)), tools=[Waiting()], settings=settings)
        outcome = await rig2.ask(trigger="cron", timeout_seconds=600)
        assert "timed out after 600 seconds" in str(outcome.error)
        assert 600 <= clock() - began < 610
        assert unanswered(rig2.transcript()) == []

    instantly(scenario())


class Watched:
    """A watchdog with runs and lanes of its own."""

    def __init__(self, **settings: Any) -> None:
        self.lanes = Lanes()
        self.runs: list[Run] = []
        self.aborted: list[Abort] = []
        self.warnings: list[StuckSessionWarning] = []
        self.watchdog = StuckSessionWatchdog(
            DiagnosticsSettings(stuck_session_warn_ms=1_000, **settings),
            self.lanes,
            lambda: self.runs,
            lambda run, abort: self.aborted.append(abort),
            self.warnings.append,
        )

    def busy(self, folder: Any, run_id: str = "r", activity: str | None = "model_call") -> Run:
        entry = SessionEntry(session_id="s")
        run = Run(run_id, AgentParams(message="x"), Session("agent:main:main", "main", entry, folder, False), 0)
        run.started_at, run.activity, run.progress_at = 1, activity, 0.0
        self.runs.append(run)
        return run


def test_warnings_about_a_slow_model_call_become_rarer(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.busy(tmp_path)
        for second in range(1, 20):
            watched.watchdog.check(float(second))
        assert [(warning.state, warning.silent_ms) for warning in watched.warnings] == [
            ("session.long_running", 1_000),
            ("session.long_running", 2_000),
            ("session.long_running", 4_000),
            ("session.long_running", 8_000),
            ("session.long_running", 16_000),
        ]
        assert watched.aborted == []

    asyncio.run(scenario())


@pytest.mark.parametrize("activity", ["tool_call", "model_call", None])
def test_a_run_without_progress_is_only_warned_about_however_long_it_lasts(
    tmp_path: Path, activity: str | None
) -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.busy(tmp_path, activity=activity)
        for second in (1.5, 400.0, 100_000.0):
            watched.watchdog.check(second)
        state = "session.long_running" if activity == "model_call" else "session.stalled"
        assert [(warning.state, warning.action) for warning in watched.warnings] == [(state, "warned")] * 3
        assert watched.aborted == []

    asyncio.run(scenario())


def test_a_run_without_progress_is_aborted_if_a_limit_is_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(stuck_session_abort_ms=300_000)
        watched.busy(tmp_path)
        watched.watchdog.check(299.0)
        assert watched.aborted == []
        watched.watchdog.check(301.0)
        assert (watched.warnings[-1].state, watched.warnings[-1].action) == ("session.stalled", "aborted")
        assert [abort.kind for abort in watched.aborted] == ["stuck"]

    asyncio.run(scenario())


def test_progress_and_waiting_for_a_turn_are_no_reason_for_a_warning(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched()
        run = watched.busy(tmp_path)
        run.progress_at = 9.5
        waiting = watched.busy(tmp_path, "waiting")
        waiting.started_at = None
        watched.watchdog.check(10.0)
        assert watched.warnings == []

    asyncio.run(scenario())


def test_a_lane_without_a_running_run_is_freed_for_the_next_one() -> None:
    async def scenario() -> None:
        watched = Watched()
        await watched.lanes.enter("session:agent:main:main", "gone")
        waiting = asyncio.create_task(watched.lanes.enter("session:agent:main:main", "next"))
        await asyncio.sleep(0)
        watched.watchdog.check(10.0)
        assert watched.warnings == []
        watched.watchdog.check(11.5)
        assert [(warning.state, warning.action, warning.queued) for warning in watched.warnings] == [
            ("session.stuck", "freed", 1)
        ]
        assert (await waiting).holder == "next"

    asyncio.run(scenario())


def test_the_lane_of_a_run_that_works_is_never_freed(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.busy(tmp_path, "r")
        await watched.lanes.enter("session:agent:main:main", "r")
        for second in (1.0, 10.0, 100.0):
            watched.watchdog.check(second)
        assert {warning.state for warning in watched.warnings} == {"session.long_running"}
        assert watched.lanes.state("session:agent:main:main").active == ("r",)

    asyncio.run(scenario())


def test_queued_work_of_a_session_drains_after_its_lane_was_left_locked(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, settings=configuration(diagnostics={"stuckSessionWarnMs": 20}))
        await rig.runtime.services.lanes.enter("session:agent:main:main", "a program that crashed")
        outcome = await rig.ask()
        assert outcome.status == "ok"
        assert [(warning.state, warning.action) for warning in rig.runtime.warnings] == [("session.stuck", "freed")]

    asyncio.run(scenario())
