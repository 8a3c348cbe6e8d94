"""The agent server: requests and responses, clients that disconnect, and invalid requests."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agentloop import Rig, Say, Waiting, unanswered, watch_hooks

from critiqor.agentloop.entry.client import AgentClient
from critiqor.agentloop.entry.server import MAX_SOCKET_PATH_BYTES, AgentServer, socket_path
from critiqor.errors import CritiqorError, UsageError


@asynccontextmanager
async def served(rig: Rig) -> AsyncIterator[Path]:
    """A server of a runtime, on a socket with a short path."""
    with TemporaryDirectory() as folder:
        server = AgentServer(rig.runtime, Path(folder) / "agent.sock")
        await server.start()
        try:
            yield server.path
        finally:
            await server.close()


async def raw(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Return the responses of a server to these lines."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    for line in lines:
        writer.write(line)
    await writer.drain()
    answers = [json.loads(await reader.readline()) for _ in lines]
    writer.close()
    return answers


def test_agent_wait_and_outcome_work_over_the_socket(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hello."))
        async with served(rig) as path, AgentClient(path) as client:
            accepted = await client.call("agent", message="hi")
            assert set(accepted) == {"runId", "acceptedAt", "status"}
            result = await client.call("agent.wait", runId=accepted["runId"])
            assert result["status"] == "ok"
            assert set(result) == {"status", "startedAt", "endedAt"}
            outcome = await client.call("agent.outcome", runId=accepted["runId"])
            assert outcome["payloads"] == [{"text": "Hello."}]

    asyncio.run(scenario())


def test_a_wait_that_times_out_does_not_stop_the_run_or_block_other_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()
        rig = Rig(tmp_path, Say("late", hold=hold))
        async with served(rig) as path, AgentClient(path) as client:
            accepted = await client.call("agent", message="hi")
            waiting = asyncio.create_task(client.call("agent.wait", runId=accepted["runId"], timeoutMs=60_000))
            short = await client.call("agent.wait", runId=accepted["runId"], timeoutMs=5)
            assert short["status"] == "timeout"
            assert not waiting.done()
            hold.set()
            assert (await waiting)["status"] == "ok"

    asyncio.run(scenario())


def test_a_run_outlives_the_client_that_started_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()
        rig = Rig(tmp_path, Say("late", hold=hold))
        async with served(rig) as path:
            async with AgentClient(path) as client:
                await client.call("agent", message="hi", runId="r")
            await asyncio.sleep(0.01)
            hold.set()
            assert (await rig.runtime.wait("r")).status == "ok"

    asyncio.run(scenario())


def test_an_attached_run_ends_with_its_client_and_leaves_a_consistent_transcript(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        async with served(rig) as path:
            async with AgentClient(path) as client:
                await client.call("agent", message="hi", runId="r", attached=True)
                await tool.started.wait()
            outcome = await rig.runtime.outcome("r")
            assert (outcome.aborted, outcome.error) == (True, "its client disconnected")
            assert unanswered(rig.transcript()) == []

    asyncio.run(scenario())


def test_a_run_is_cancelled_over_the_socket(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool])
        async with served(rig) as path, AgentClient(path) as client:
            await client.call("agent", message="hi", runId="r")
            await tool.started.wait()
            assert await client.call("agent.cancel", runId="r") == {"cancelled": True}
            assert (await client.call("agent.wait", runId="r"))["status"] == "error"
            assert await client.call("agent.cancel", runId="r") == {"cancelled": False}

    asyncio.run(scenario())


def test_a_subscribed_client_gets_stream_events_and_chat_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hello."))
        async with served(rig) as path, AgentClient(path) as client:
            await client.call("events")
            await client.call("agent", message="hi", runId="r")
            events: list[dict[str, Any]] = []
            while not events or events[-1].get("payload", {}).get("state") != "final":
                events.append(await client.next_event())
            kinds = [event["event"] for event in events]
            assert kinds.count("chat") == 2
            assert [event["payload"]["seq"] for event in events if event["event"] == "agent"] == list(
                range(1, kinds.count("agent") + 1)
            )

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "line",
    [b"hello\n", b"[]\n", b'{"method": 5}\n', b"\xff\xfe\n", b'{"id":1,"method":"agent","params":{"message":5}}\n'],
)
def test_an_invalid_request_is_answered_with_an_error_and_the_next_one_is_served(tmp_path: Path, line: bytes) -> None:
    async def scenario() -> None:
        async with served(Rig(tmp_path)) as path:
            bad, good = await raw(path, line, b'{"id": 2, "method": "agent", "params": {"message": "hi"}}\n')
            assert bad["ok"] is False
            assert good["ok"] is True

    asyncio.run(scenario())


def test_errors_name_the_cause_and_the_fix(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(Rig(tmp_path)) as path, AgentClient(path) as client:
            with pytest.raises(CritiqorError, match="there is no agent run"):
                await client.call("agent.wait", runId="unheard-of")
            with pytest.raises(CritiqorError, match="unknown method"):
                await client.call("agent.dance")
            with pytest.raises(CritiqorError, match="unknown field"):
                await client.call("agent", message="x", colour="green")

    asyncio.run(scenario())


def test_a_line_that_is_too_long_disconnects_only_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("critiqor.agentloop.entry.server.MAX_LINE_BYTES", 1000)

    async def scenario() -> None:
        async with served(Rig(tmp_path)) as path:
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"x" * 5000)
            await writer.drain()
            assert json.loads(await reader.readline())["ok"] is False
            assert await reader.read() == b""
            writer.close()
            [good] = await raw(path, b'{"id": 1, "method": "agent", "params": {"message": "hi"}}\n')
            assert good["ok"] is True

    asyncio.run(scenario())


def test_the_socket_is_private_to_its_user_and_removed_with_the_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(Rig(tmp_path)) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()

    asyncio.run(scenario())


def test_the_socket_of_a_dead_server_is_taken_over_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        async with served(rig) as path:
            with pytest.raises(UsageError, match="another agent server"):
                await AgentServer(rig.runtime, path).start()
            dead = path.with_name("dead.sock")
            child = os.fork()
            if child == 0:
                import socket

                listening = socket.socket(socket.AF_UNIX)
                listening.bind(str(dead))
                os._exit(0)
            os.waitpid(child, 0)
            assert dead.exists()
            server = AgentServer(rig.runtime, dead)
            await server.start()
            await server.close()

    asyncio.run(scenario())


def test_a_path_that_is_too_long_for_a_socket_is_rejected_with_a_fix(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError, match="too long"):
            await AgentServer(Rig(tmp_path).runtime, tmp_path / ("x" * MAX_SOCKET_PATH_BYTES)).start()

    asyncio.run(scenario())


def test_hooks_run_at_start_and_stop_of_the_server_and_at_the_end_of_its_sessions(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        hook_calls = watch_hooks(rig.runtime.hooks, "gateway_start", "session_end", "gateway_stop")
        async with served(rig) as path, AgentClient(path) as client:
            accepted = await client.call("agent", message="hi")
            await client.call("agent.wait", runId=accepted["runId"])
        assert [call.name for call in hook_calls] == ["gateway_start", "session_end", "gateway_stop"]

    asyncio.run(scenario())


def test_plugins_cannot_keep_a_server_from_closing(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)

        async def hang(event: dict[str, Any], context: dict[str, Any]) -> None:
            await asyncio.Event().wait()

        rig.runtime.hooks.on("session_end", hang)
        rig.runtime.hooks.on("gateway_stop", hang, timeout=0.01)
        async with served(rig) as path, AgentClient(path) as client:
            accepted = await client.call("agent", message="hi")
            await client.call("agent.wait", runId=accepted["runId"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("critiqor.agentloop.entry.server.SESSION_END_SECONDS", 0.01)
        asyncio.run(scenario())


def test_a_client_that_loses_its_server_gets_an_error_and_does_not_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        async with served(rig) as path:
            client = await AgentClient(path).__aenter__()
            await client.call("events")
        async with asyncio.timeout(5):
            with pytest.raises(CritiqorError, match="connection to the agent server was lost"):
                await client.next_event()
            with pytest.raises(CritiqorError, match="connection to the agent server was lost"):
                await client.call("agent", message="hi")
        await client.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_a_client_that_subscribes_twice_gets_each_event_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        async with served(rig) as path, AgentClient(path) as client:
            await client.call("events")
            await client.call("events")
            await client.call("agent", message="hi", runId="r")
            numbers: list[int] = []
            phase = None
            while phase != "end":
                event = await client.next_event()
                if event["event"] == "agent":
                    numbers.append(event["payload"]["seq"])
                    phase = event["payload"]["data"].get("phase")
            assert numbers == list(range(1, len(numbers) + 1))

    asyncio.run(scenario())


def test_the_error_without_a_server_names_the_command_to_start_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(CritiqorError, match="no agent server"):
            async with AgentClient(socket_path(tmp_path)):
                pass

    asyncio.run(scenario())
