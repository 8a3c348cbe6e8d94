"""Chat messages and block streaming: a reply while the model writes it, and at its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agentloop import Echo, Rig, Say, Waiting, defaults

from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.replies.block_streaming import BlockChunker, BlockStream
from critiqor.agentloop.replies.channels import MemoryOutbox
from critiqor.agentloop.replies.chat_messages import ChatFeed, ChatMessage
from critiqor.agentloop.settings import BlockBreak, BlockChunk


def emit(streams: EventStreams, stream: str, **data: object) -> None:
    streams.emit("r", "agent:main:main", "main", stream, **data)  # type: ignore[arg-type]


def test_deltas_are_throttled_and_followed_by_one_final_message() -> None:
    streams, now = EventStreams(), [0.0]
    messages: list[ChatMessage] = []
    ChatFeed(streams, messages.append, interval=1.0, clock=lambda: now[0])
    for number, text in enumerate(("a", "ab", "abc", "abcd")):
        now[0] = number * 0.4
        emit(streams, "assistant", text=text, delta=text[-1])
    emit(streams, "lifecycle", phase="end", aborted=False)
    assert [(message.state, message.text) for message in messages] == [
        ("delta", "a"),
        ("delta", "abcd"),
        ("final", "abcd"),
    ]
    assert [message.seq for message in messages] == [1, 2, 3]


def test_throttled_text_is_sent_before_the_final_message() -> None:
    streams = EventStreams()
    messages: list[ChatMessage] = []
    ChatFeed(streams, messages.append, interval=1.0, clock=lambda: 0.0)
    emit(streams, "assistant", text="a", delta="a")
    emit(streams, "assistant", text="ab", delta="b")
    emit(streams, "lifecycle", phase="end", aborted=False)
    assert [(message.state, message.text) for message in messages] == [("delta", "a"), ("delta", "ab"), ("final", "ab")]


@pytest.mark.parametrize(
    ("data", "state"),
    [
        ({"phase": "end", "aborted": False}, "final"),
        ({"phase": "error", "aborted": False, "error": "no"}, "error"),
        ({"phase": "error", "aborted": True, "error": "cancelled"}, "aborted"),
    ],
)
def test_every_end_of_a_run_is_one_message_even_without_text(data: dict[str, Any], state: str) -> None:
    streams = EventStreams()
    messages: list[ChatMessage] = []
    chats = ChatFeed(streams, messages.append)
    emit(streams, "lifecycle", **data)
    assert [(message.state, message.error) for message in messages] == [(state, data.get("error"))]
    assert chats._chats == {}


def test_a_later_message_of_a_run_does_not_erase_an_earlier_one() -> None:
    streams = EventStreams()
    messages: list[ChatMessage] = []
    ChatFeed(streams, messages.append, interval=0)
    emit(streams, "assistant", text="I look.", delta="I look.")
    emit(streams, "usage", outputTokens=1)
    emit(streams, "assistant", text="Done.", delta="Done.")
    emit(streams, "usage", outputTokens=2)
    emit(streams, "lifecycle", phase="end", aborted=False)
    assert messages[-1].text == "I look.\n\nDone."


@pytest.mark.parametrize(("text", "expected"), [("no", ["no", "no"]), ("NO", ["NO", "NO"]), ("NO_REPLY", [""])])
def test_an_answer_that_only_starts_like_the_silent_token_is_sent_at_its_end(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(text))
        chat: list[ChatMessage] = []
        ChatFeed(rig.runtime.streams, chat.append, interval=0)
        await rig.ask()
        assert [message.text for message in chat] == expected
        assert chat[-1].state == "final"

    asyncio.run(scenario())


def test_each_run_has_one_final_message_however_it_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("one"), tools=[tool])
        messages: list[ChatMessage] = []
        ChatFeed(rig.runtime.streams, messages.append)
        await rig.ask()
        rig.model.says = [Say("two", (("waiting", {}),))]
        task = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r")
        await task
        await rig.ask(model="nobody/knows")
        assert [message.state for message in messages if message.state != "delta"] == ["final", "aborted", "error"]

    asyncio.run(scenario())


def chunks(text: str, pieces: int = 1, **settings: object) -> list[str]:
    chunker = BlockChunker(BlockChunk(**settings))  # type: ignore[arg-type]
    step = max(1, len(text) // pieces)
    blocks = [block for start in range(0, len(text), step) for block in chunker.feed(text[start : start + step])]
    return [block.text for block in (*blocks, *chunker.flush()) if block.text]


PARAGRAPHS = "\n\n".join(f"Paragraph {number} says something. And something more." for number in range(12))


@pytest.mark.parametrize("pieces", [1, 7, 200])
def test_blocks_end_at_paragraphs_and_keep_to_their_size(pieces: int) -> None:
    blocks = chunks(PARAGRAPHS, pieces, min_chars=60, max_chars=140)
    assert all(len(block) <= 140 for block in blocks)
    assert all(block.endswith("more.") for block in blocks)
    assert "".join("".join(blocks).split()) == "".join(PARAGRAPHS.split())


def test_text_without_paragraphs_is_cut_at_a_sentence_or_else_at_a_word() -> None:
    assert (
        chunks("One is here. Two is here. Three is here.", min_chars=10, max_chars=30)[0] == "One is here. Two is here."
    )
    assert chunks("word " * 20, min_chars=10, max_chars=22)[0] == "word word word word"
    assert chunks("x" * 50, min_chars=10, max_chars=20) == ["x" * 20, "x" * 20, "x" * 10]


def test_a_code_block_is_cut_only_if_too_long_and_its_fence_is_closed_and_reopened() -> None:
    code = "Intro.\n\n```python\n" + "\n".join(f"line_{number} = {number}" for number in range(30)) + "\n```\n\nEnd."
    blocks = chunks(code, 20, min_chars=40, max_chars=150)
    assert all(block.count("```") % 2 == 0 for block in blocks)
    assert sum(block.startswith("```python") for block in blocks) >= 2
    assert all(f"line_{number} = {number}" in "\n".join(blocks) for number in range(30))


def test_a_short_reply_is_one_block() -> None:
    assert chunks("Hello.") == ["Hello."]
    assert chunks("") == []


@pytest.mark.parametrize(("when", "before"), [("text_end", ["First one."]), ("message_end", [])])
def test_blocks_are_sent_while_the_model_writes_or_at_the_end_of_its_message(
    when: BlockBreak, before: list[str]
) -> None:
    blocks = BlockStream(BlockChunk(min_chars=5, max_chars=20), when)
    first = blocks.add_text("First one.\n\nSecond", [])
    assert first == before
    rest = [*blocks.add_text(" one.", []), *blocks.end_message([])]
    assert [*first, *rest] == ["First one.", "Second one."]


@pytest.mark.parametrize("when", ["text_end", "message_end"])
def test_a_reply_sent_in_blocks_is_not_sent_again_as_a_whole(tmp_path: Path, when: str) -> None:
    async def scenario() -> None:
        outbox = MemoryOutbox()
        settings = defaults(
            blockStreamingDefault="on",
            blockStreamingBreak=when,
            blockStreamingChunk={"minChars": 5, "maxChars": 20},
        )
        text = "First one.\n\nSecond one."
        rig = Rig(
            tmp_path,
            Say("I look.", (("echo", {"text": "x"}),)),
            Say(text, pieces=9),
            settings=settings,
            outbox=outbox,
            tools=[Echo()],
        )
        outcome = await rig.ask(channel="chat", to="ada", deliver=True)
        assert [message.text for message in outbox.sent] == ["I look.", "First one.", "Second one."]
        assert [payload.text for payload in outcome.payloads] == [text]

    asyncio.run(scenario())
