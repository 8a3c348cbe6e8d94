"""Sessions: keys, ids, and their entries on disk."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from critiqor.agentloop.sessions.session_store import FLUSH_AFTER_SECONDS
from critiqor.agentloop.sessions.sessions import SessionAddress, Sessions, is_main, is_subagent
from critiqor.errors import UsageError

WRITER = """
import asyncio, sys
from pathlib import Path
from critiqor.agentloop.sessions.sessions import SessionAddress, Sessions

async def main():
    sessions = Sessions(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        await sessions.open(SessionAddress("main", f"agent:main:{sys.argv[2]}-{number}", None))
    await sessions.close()

asyncio.run(main())
"""


def address(key: str = "agent:main:main", session_id: str | None = None) -> SessionAddress:
    return SessionAddress("main", key, session_id)


def stored(sessions: Sessions) -> dict[str, dict[str, object]]:
    known: dict[str, dict[str, object]] = json.loads((sessions.folder("main") / "sessions.json").read_text())
    return known


@pytest.mark.parametrize(
    ("agent", "key", "session_id", "expected"),
    [
        (None, None, None, ("main", "agent:main:main")),
        ("ops", None, None, ("ops", "agent:ops:main")),
        (None, "incident-42", None, ("main", "agent:main:incident-42")),
        ("ops", "incident-42", None, ("ops", "agent:ops:incident-42")),
        (None, "agent:ops:incident-42", None, ("ops", "agent:ops:incident-42")),
        (None, None, "1234", ("main", "agent:main:explicit:1234")),
    ],
)
def test_a_session_is_found_by_agent_key_or_id(
    tmp_path: Path, agent: str | None, key: str | None, session_id: str | None, expected: tuple[str, str]
) -> None:
    found = Sessions(tmp_path).resolve_address(agent, key, session_id, "main")
    assert (found.agent_id, found.key) == expected


@pytest.mark.parametrize(
    ("agent", "key", "session_id"),
    [
        ("ops", "agent:main:x", None),
        ("../../etc", None, None),
        (None, "agent:..:x", None),
        (None, "agent:main", None),
        (None, "line\nbreak", None),
        (None, "x" * 600, None),
        (None, " ", None),
        (None, None, "../../etc/passwd"),
    ],
)
def test_invalid_session_keys_and_ids_are_rejected(
    tmp_path: Path, agent: str | None, key: str | None, session_id: str | None
) -> None:
    with pytest.raises(UsageError):
        Sessions(tmp_path).resolve_address(agent, key, session_id, "main")


def test_a_session_is_on_disk_before_its_first_run_is_accepted(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        session = await sessions.open(address())
        assert session.is_new
        assert stored(sessions)["agent:main:main"]["sessionId"] == session.id
        again = await sessions.open(address())
        assert not again.is_new
        assert again.id == session.id

    asyncio.run(scenario())


def test_a_session_key_is_found_by_its_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        session = await sessions.open(address("agent:main:telegram:7"))
        found = sessions.resolve_address(None, None, session.id, "main")
        assert found.key == "agent:main:telegram:7"

    asyncio.run(scenario())


def test_another_transcript_under_the_same_key_is_a_new_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        first = await sessions.open(address())
        second = await sessions.open(address(session_id="chosen"))
        assert second.is_new
        assert second.id == "chosen" != first.id
        assert second.transcript.name == "chosen.jsonl"

    asyncio.run(scenario())


def test_a_reset_starts_a_new_transcript_and_keeps_the_levels(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        session = await sessions.open(address())
        sessions.update(session, thinking_level="high", input_tokens=500)
        session = await sessions.open(address())
        fresh = await sessions.reset(session)
        assert fresh.id != session.id
        assert fresh.entry.thinking_level == "high"
        assert fresh.entry.input_tokens == 0

    asyncio.run(scenario())


def test_updates_are_written_when_the_sessions_are_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        session = await sessions.open(address())
        sessions.update(session, output_tokens=7)
        await sessions.close()
        assert stored(sessions)["agent:main:main"]["outputTokens"] == 7

    asyncio.run(scenario())


def test_an_update_from_a_run_whose_session_was_reset_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        old = await sessions.open(address())
        new = await sessions.reset(old)
        sessions.update(old, output_tokens=7)
        found = sessions.find("main", "agent:main:main")
        assert found is not None
        assert (found.id, found.entry.output_tokens) == (new.id, 0)

    asyncio.run(scenario())


def test_fields_of_other_programs_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        session = await sessions.open(address())
        path = sessions.folder("main") / "sessions.json"
        document = json.loads(path.read_text())
        document["agent:main:main"]["displayName"] = "Ada"
        document["agent:main:other"] = {"sessionId": "kept", "custom": [1]}
        path.write_text(json.dumps(document))
        sessions.update(session, output_tokens=7)
        await sessions.close()
        after = stored(sessions)
        assert after["agent:main:main"]["displayName"] == "Ada"
        assert after["agent:main:main"]["outputTokens"] == 7
        assert after["agent:main:other"] == {"sessionId": "kept", "custom": [1]}

    asyncio.run(scenario())


@pytest.mark.parametrize("content", [b"{not json", b"[1]", b'{"agent:main:main": 5}', b"\xff"])
def test_an_unreadable_store_is_renamed_and_not_lost(tmp_path: Path, content: bytes) -> None:
    async def scenario() -> None:
        sessions = Sessions(tmp_path)
        folder = sessions.folder("main")
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_bytes(content)
        await sessions.open(address())
        assert "agent:main:main" in stored(sessions)
        [aside] = folder.glob("sessions.json.broken-*")
        assert aside.read_bytes() == content

    asyncio.run(scenario())


def test_an_update_that_cannot_be_written_is_written_later_without_a_traceback(tmp_path: Path) -> None:
    async def scenario() -> None:
        complaints: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, problem: complaints.append(problem))
        sessions = Sessions(tmp_path)
        session = await sessions.open(sessions.resolve_address(None, None, None, "main"))
        lock = sessions.folder("main") / "sessions.json.lock"
        lock.unlink()
        lock.mkdir()
        sessions.update(session, model="m")
        await asyncio.sleep(3 * FLUSH_AFTER_SECONDS)
        gc.collect()
        assert complaints == []
        lock.rmdir()
        await sessions.close()
        again = Sessions(tmp_path).find("main", session.key)
        assert again is not None
        assert again.entry.model == "m"

    asyncio.run(scenario())


def test_processes_that_open_sessions_at_the_same_time_lose_none(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name, "15"]) for name in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(stored(Sessions(tmp_path))) == 45


def test_sessions_that_are_opened_together_share_a_write_and_come_back_in_order(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        sessions = Sessions(tmp_path)
        order: list[int] = []

        async def accept(number: int) -> None:
            await sessions.open(address("agent:main:shared" if number % 2 else f"agent:main:{number}"))
            order.append(number)

        await asyncio.gather(*(accept(number) for number in range(40)))
        assert len(stored(sessions)) == 21
        return order

    assert asyncio.run(scenario()) == list(range(40))


def test_main_and_subagent_sessions_are_recognised_by_their_keys() -> None:
    assert is_main("agent:main:main")
    assert is_main("agent:ops:main")
    assert not is_main("agent:main:telegram:main")
    assert is_subagent("agent:main:subagent:1-2-3")
    assert not is_subagent("agent:main:main")
