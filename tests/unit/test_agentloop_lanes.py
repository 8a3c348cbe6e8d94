"""Lanes: order, limits, cancelled waits and freed places."""

from __future__ import annotations

import asyncio

import pytest

from critiqor.agentloop.queue.lanes import Lanes


def test_a_session_lane_admits_one_run_at_a_time_in_order() -> None:
    async def scenario() -> list[str]:
        lanes, seen = Lanes(), []

        async def work(name: str) -> None:
            ticket = await lanes.enter("session:a", name)
            seen.append(f"{name} in")
            await asyncio.sleep(0)
            seen.append(f"{name} out")
            ticket.leave()

        await asyncio.gather(*(work(name) for name in "abcde"))
        assert lanes.names() == []
        return seen

    assert asyncio.run(scenario()) == [f"{name} {what}" for name in "abcde" for what in ("in", "out")]


def test_a_lane_never_exceeds_its_limit() -> None:
    async def scenario() -> int:
        lanes = Lanes()
        most = inside = 0

        async def work(number: int) -> None:
            nonlocal most, inside
            ticket = await lanes.enter("main", str(number), 3)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            ticket.leave()

        await asyncio.gather(*(work(number) for number in range(20)))
        return most

    assert asyncio.run(scenario()) == 3


def test_a_cancelled_wait_leaves_no_gap_in_the_queue() -> None:
    async def scenario() -> list[str]:
        lanes, seen = Lanes(), []
        first = await lanes.enter("session:a", "first")

        async def work(name: str) -> None:
            ticket = await lanes.enter("session:a", name)
            seen.append(name)
            ticket.leave()

        waiting = {name: asyncio.create_task(work(name)) for name in ("b", "c", "d")}
        await asyncio.sleep(0)
        assert lanes.state("session:a").waiting == 3
        waiting["c"].cancel()
        await asyncio.sleep(0)
        first.leave()
        await asyncio.gather(*waiting.values(), return_exceptions=True)
        return seen

    assert asyncio.run(scenario()) == ["b", "d"]


def test_a_place_granted_during_a_cancel_goes_to_the_next_run() -> None:
    async def scenario() -> None:
        lanes = Lanes()
        first = await lanes.enter("session:a", "first")
        second = asyncio.create_task(lanes.enter("session:a", "second"))
        third = asyncio.create_task(lanes.enter("session:a", "third"))
        await asyncio.sleep(0)
        first.leave()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (await third).holder == "third"

    asyncio.run(scenario())


def test_leaving_twice_admits_only_one_run() -> None:
    async def scenario() -> None:
        lanes = Lanes()
        first = await lanes.enter("session:a", "first")
        waiting = [asyncio.create_task(lanes.enter("session:a", name)) for name in ("b", "c")]
        await asyncio.sleep(0)
        first.leave()
        first.leave()
        await asyncio.sleep(0)
        assert [task.done() for task in waiting] == [True, False]
        (await waiting[0]).leave()
        await waiting[1]

    asyncio.run(scenario())


def test_a_lane_is_freed_from_a_holder_that_never_leaves_and_its_late_leave_does_nothing() -> None:
    async def scenario() -> None:
        lanes = Lanes()
        stuck = await lanes.enter("session:a", "stuck")
        waiting = asyncio.create_task(lanes.enter("session:a", "next"))
        await asyncio.sleep(0)
        assert lanes.free("session:a", "stuck")
        assert not lanes.free("session:a", "stuck")
        assert (await waiting).holder == "next"
        stuck.leave()
        assert lanes.state("session:a").active == ("next",)

    asyncio.run(scenario())


def test_unused_lanes_are_removed() -> None:
    async def scenario() -> int:
        lanes = Lanes()
        for number in range(500):
            (await lanes.enter(f"session:{number}", "x")).leave()
        return len(lanes._lanes)

    assert asyncio.run(scenario()) <= 65
