"""Transcripts: written messages are read back by the loop and the importers, also after a crash."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from agentloop import read_messages, roles, unanswered

from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Cost,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from critiqor.agentloop.sessions.transcript import (
    INTERRUPTED,
    ForeignWriteError,
    Transcript,
    TranscriptHead,
    TranscriptUpdates,
    open_transcript,
)
from critiqor.agentloop.sessions.write_lock import LostLockError, acquire
from critiqor.importers import read_traces

FIXTURES = Path(__file__).parent / "fixtures"
HEAD = TranscriptHead("s-1", "agent:main:main", "main", "/work")
USAGE = Usage(input=1000, output=20, total_tokens=1020, cost=Cost(input=0.001, output=0.00004, total=0.00104))


def user(text: str) -> UserMessage:
    return UserMessage(content=[Text(text)], timestamp=1_794_782_387_390)


def assistant(*parts: Any, stop: Any = "stop") -> AssistantMessage:
    return AssistantMessage(
        content=list(parts),
        provider="lab",
        model="scripted",
        usage=USAGE,
        stop_reason=stop,
        timestamp=1_794_782_387_400,
    )


def result(call_id: str, text: str = "ok") -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="exec",
        content=[Text(text)],
        details={"exitCode": 0},
        timestamp=1_794_782_387_500,
    )


def opened(path: Path, updates: TranscriptUpdates | None = None) -> Transcript:
    """Open a transcript under its lock, which is held until the test process ends."""

    async def scenario() -> Transcript:
        lock = await acquire(path, f"run-{os.urandom(4).hex()}")
        return open_transcript(path, HEAD, lock, updates or TranscriptUpdates())

    return asyncio.run(scenario())


def closed(transcript: Transcript) -> None:
    transcript._lock.release()


TURN: list[Message] = [
    user("do the thing"),
    assistant(Text("I start."), ToolCall("call_0", "exec", {"command": "echo hello"}), stop="toolUse"),
    result("call_0", "hello"),
    assistant(Text("Done.")),
]


def test_saved_messages_are_read_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    for message in TURN:
        first.append(message)
    closed(first)
    second = opened(path)
    assert second.messages == TURN
    assert second.message_count == 4
    closed(second)


def test_lines_have_the_fields_of_openclaw_2026_6_1(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    transcript.append_model_change("lab", "scripted")
    transcript.append_thinking_change("off")
    for message in TURN:
        transcript.append(message)
    closed(transcript)
    ours = [json.loads(line) for line in path.read_text().splitlines()]
    real = [json.loads(line) for line in (FIXTURES / "openclaw-2026.6.1.jsonl").read_text().splitlines()]
    theirs = [entry for entry in real if entry["type"] != "custom"]
    for mine, other in zip(ours[:7], [*theirs[:6], theirs[-1]], strict=True):
        assert set(mine) == set(other)
        assert set(mine.get("message", ())) == set(other.get("message", ())) - {"responseId"}
    assert [entry["parentId"] for entry in ours[1:]] == [None, *(entry["id"] for entry in ours[1:-1])]


def test_the_importer_reads_a_transcript_as_a_clean_session(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    for message in TURN:
        transcript.append(message)
    closed(transcript)
    [trace] = read_traces(path)
    names = [event.event_type for event in trace.events]
    assert names.count("tool_call") == 1
    assert "agent_end" in names
    assert not [note for note in trace.notes if "could not" in note]


def test_a_torn_last_line_is_terminated_and_skipped_and_nothing_else_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    first.append(user("one"))
    closed(first)
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"torn","par')
    second = opened(path)
    assert [message.text if hasattr(message, "text") else "" for message in second.messages] == [""]
    assert second.unreadable_lines == 1
    second.append(user("two"))
    closed(second)
    third = opened(path)
    assert roles(third.messages) == ["user", "user"]
    closed(third)


def test_tool_calls_that_a_killed_run_left_open_get_a_result_when_the_next_run_opens_the_transcript(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    first.append(user("go"))
    first.append(assistant(ToolCall("call_0", "exec"), ToolCall("call_1", "read"), stop="toolUse"))
    first.append(result("call_0"))
    closed(first)
    second = opened(path)
    closed(second)
    messages = read_messages(path)
    assert unanswered(messages) == []
    assert isinstance(messages[-1], ToolResultMessage)
    assert messages[-1].text == INTERRUPTED
    assert messages[-1].is_error


def test_the_second_call_under_one_id_is_not_answered_by_the_first_result(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    for message in (
        user("go"),
        assistant(ToolCall("call_0", "exec"), stop="toolUse"),
        result("call_0"),
        assistant(ToolCall("call_0", "read"), stop="toolUse"),
    ):
        first.append(message)
    assert [call.name for call in first.close_open_calls()] == ["read"]
    closed(first)


def test_a_compaction_hides_what_it_summarised_from_the_model_and_keeps_it_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    ids = [first.append(message) for message in TURN]
    first.append_compaction("The user wanted the thing, and it is done.", ids[3], 5000)
    first.append(user("and now?"))
    shown = first.messages
    closed(first)
    second = opened(path)
    assert second.messages == shown
    assert roles(shown) == ["user", "assistant", "user"]
    assert isinstance(shown[0], UserMessage)
    [summary] = shown[0].content
    assert isinstance(summary, Text)
    assert "it is done" in summary.text
    assert len(read_messages(path)) == 5
    closed(second)


def test_a_second_compaction_replaces_the_first_one(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    ids = [first.append(user(f"message {number}")) for number in range(4)]
    first.append_compaction("first summary", ids[1], 10)
    first.append_compaction("second summary", ids[3], 10)
    closed(first)
    second = opened(path)
    texts = [part.text for message in second.messages for part in message.content if isinstance(part, Text)]
    assert len(texts) == 2
    assert "second summary" in texts[0]
    assert texts[1] == "message 3"
    closed(second)


def test_a_writer_that_ignores_the_lock_is_detected_before_anything_is_interleaved(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    transcript.append(user("one"))
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"foreign","parentId":null,"timestamp":"x","message":{}}\n')
    before = path.read_bytes()
    with pytest.raises(ForeignWriteError):
        transcript.append(user("two"))
    assert path.read_bytes() == before
    closed(transcript)


def test_nothing_is_written_after_the_lock_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    transcript.append(user("one"))
    closed(transcript)
    before = path.read_bytes()
    with pytest.raises(LostLockError):
        transcript.append(user("two"))
    assert path.read_bytes() == before


def test_a_full_disk_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    transcript.append(user("one"))
    before = path.read_bytes()
    write = os.write
    calls = []

    def full(descriptor: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 1:
            return write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("critiqor.agentloop.sessions.transcript.os.write", full)
    with pytest.raises(OSError, match="No space left"):
        transcript.append(user("two"))
    monkeypatch.undo()
    assert path.read_bytes() == before
    transcript.append(user("three"))
    closed(transcript)
    assert [message.content for message in read_messages(path) if isinstance(message, UserMessage)] == [
        [Text("one")],
        [Text("three")],
    ]


def test_listeners_get_messages_of_users_and_models_and_a_failing_one_affects_no_other(tmp_path: Path) -> None:
    updates = TranscriptUpdates()
    updates_received: list[dict[str, Any]] = []

    def broken(update: dict[str, Any]) -> None:
        raise RuntimeError

    updates.on_transcript(broken)
    stop = updates.on_transcript(updates_received.append)
    transcript = opened(tmp_path / "s-1.jsonl", updates)
    for message in TURN:
        transcript.append(message)
    stop()
    transcript.append(user("unheard"))
    closed(transcript)
    assert [update["message"]["role"] for update in updates_received] == ["user", "assistant", "assistant"]
    assert [update["messageSeq"] for update in updates_received] == [1, 2, 4]
    assert updates_received[1]["message"]["usage"]["totalTokens"] == 1020
    assert updates.listener_errors == 4


def test_a_transcript_of_a_real_openclaw_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    path.write_bytes((FIXTURES / "openclaw-2026.6.1.jsonl").read_bytes())
    transcript = opened(path)
    found = roles(transcript.messages)
    assert found[:3] == ["user", "assistant", "toolResult"]
    transcript.append(user("and now?"))
    closed(transcript)
    [trace] = read_traces(path)
    assert [event for event in trace.events if event.payload.get("text") == "and now?"]


def test_an_unpaired_surrogate_from_a_model_does_not_end_the_run(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    transcript = opened(path)
    transcript.append(assistant(Text("broken \ud83d emoji")))
    closed(transcript)
    [message] = read_messages(path)
    assert isinstance(message, AssistantMessage)
    assert message.text == "broken ? emoji"


@pytest.mark.parametrize(
    "line",
    [b"[]", b"null", b'{"type":"message"}', b'{"type":"message","id":5,"parentId":null}', b"\xff\xfe", b'{"a":' * 2000],
)
def test_hostile_lines_are_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "s-1.jsonl"
    first = opened(path)
    first.append(user("one"))
    closed(first)
    with path.open("ab") as file:
        file.write(line + b"\n")
    second = opened(path)
    assert roles(second.messages) == ["user"]
    second.append(user("two"))
    closed(second)
    third = opened(path)
    assert roles(third.messages) == ["user", "user"]
    closed(third)
