"""Tool calls before and after their tool: which tools there are, what arguments they take, how results are bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.agentloop.models.completion_requests import tool_schemas
from critiqor.agentloop.replies.channels import MemoryOutbox
from critiqor.agentloop.sessions.messages import Image, Text, ToolCall, without_images
from critiqor.agentloop.tools.arguments import check_arguments, validation_error
from critiqor.agentloop.tools.messaging import Delivery, MessageTool, OutgoingMessage
from critiqor.agentloop.tools.registry import offered_tools
from critiqor.agentloop.tools.results import (
    MAX_DETAILS_BYTES,
    MAX_IMAGE_CHARS,
    MAX_TEXT_CHARS,
    error_line,
    failed,
    refused,
    shorten,
    succeeded,
    truncate_result,
)
from critiqor.agentloop.tools.subagent import Spawned, SpawnError, SpawnRequest, SpawnTool
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome


async def spawned(request: SpawnRequest, context: ToolContext) -> Spawned:
    return Spawned(child_session_key=f"agent:{context.agent_id}:subagent:1", run_id="child")


ALL_TOOLS: list[Tool] = offered_tools(outbox=MemoryOutbox(), spawn=spawned)
BY_NAME = {tool.name: tool for tool in ALL_TOOLS}


def context(workspace: Path) -> ToolContext:
    return ToolContext(
        run_id="run",
        session_key="agent:main:main",
        agent_id="main",
        tool_call_id="call_0",
        workspace=workspace,
        sandboxed=False,
        environment={"PATH": "/usr/bin:/bin"},
        update=lambda text: None,
    )


def text(outcome: ToolOutcome) -> str:
    part = outcome.content[0]
    assert isinstance(part, Text)
    return part.text


def problem(name: str, **arguments: Any) -> str | None:
    return validation_error(BY_NAME.get(name), ToolCall(id="call_0", name=name, arguments=arguments))


def test_message_and_spawn_tools_need_an_outbox_and_a_spawner() -> None:
    assert {"message", "sessions_spawn"}.isdisjoint(tool.name for tool in offered_tools())
    assert {"message", "sessions_spawn"} <= BY_NAME.keys()


def test_every_tool_is_described_by_a_valid_schema() -> None:
    for schema in tool_schemas(ALL_TOOLS):
        assert schema["type"] == "function"
        jsonschema.Draft202012Validator.check_schema(schema["function"]["parameters"])


def test_an_unknown_tool_is_refused_with_the_message_of_openclaw() -> None:
    assert problem("frobnicate", x=1) == "Tool frobnicate not found"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read", {}, "  - path: must have required properties path\n"),
        ("write", {}, "  - path: must have required properties path, content\n"),
        ("read", {"path": ["a"]}, "  - path: must be string\n"),
        ("read", {"path": "a", "offset": "x"}, "  - offset: must be number\n"),
        ("memory_get", {"path": "a", "from": 0}, "  - from: must be >= 1\n"),
        ("memory_get", {"path": "a", "from": 1.5}, "  - from: must be integer\n"),
        ("exec", {"command": "x", "env": {"A": {"b": 1}}}, "  - env.A: must be string\n"),
        ("edit", {"path": "a", "edits": "x"}, "  - edits: must be array\n"),
        ("message", {"action": "bogus"}, "  - action: must be equal to one of the allowed values\n"),
        (
            "edit",
            {"path": "a", "edits": [{"oldText": 1, "newText": "x"}, {"bogus": 3}]},
            "  - edits.1.oldText: must have required properties oldText, newText\n"
            "  - edits.1: must not have additional properties\n",
        ),
        (
            "edit",
            {"path": "a", "oldText": "three"},
            "  - edits: must have required properties edits\n  - root: must not have additional properties\n",
        ),
    ],
)
def test_invalid_arguments_are_refused_with_the_message_of_openclaw(
    name: str, arguments: dict[str, Any], expected: str
) -> None:
    message = problem(name, **arguments)
    assert message is not None
    received = msgspec.json.format(msgspec.json.encode(arguments)).decode()
    assert message == f'Validation failed for tool "{name}":\n{expected}\nReceived arguments:\n{received}'


def test_malformed_arguments_are_refused_with_the_reason() -> None:
    call = ToolCall(id="call_0", name="read", malformed="must be JSON: {broken")
    message = validation_error(BY_NAME["read"], call)
    assert message is not None
    assert message.startswith('Validation failed for tool "read":\n  - root: must be JSON: {broken')


@pytest.mark.parametrize(
    ("name", "arguments", "taken"),
    [
        ("exec", {"command": 5, "timeout": "2"}, {"command": "5", "timeout": 2}),
        ("write", {"path": 1.5, "content": True}, {"path": "1.5", "content": "true"}),
        ("exec", {"command": "x", "timeout": None}, {"command": "x"}),
        ("memory_get", {"path": "a", "from": 2.0}, {"path": "a", "from": 2}),
        ("exec", {"command": "x", "background": True}, {"command": "x", "background": True}),
    ],
)
def test_obvious_conversions_are_made(name: str, arguments: dict[str, Any], taken: dict[str, Any]) -> None:
    checked = check_arguments(BY_NAME[name].parameters, arguments)
    assert checked.problems == []
    assert checked.arguments == taken


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "x", "2", "send"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["oldText", "A"]), inner, max_size=2),
    max_leaves=6,
)
NAMES = st.sampled_from(["path", "content", "edits", "command", "env", "timeout", "from", "query", "action", "task"])


@given(name=st.sampled_from(sorted(BY_NAME)), arguments=st.dictionaries(NAMES, VALUES, max_size=4))
def test_arguments_without_a_problem_match_the_schema(name: str, arguments: dict[str, Any]) -> None:
    schema = BY_NAME[name].parameters
    checked = check_arguments(schema, arguments)
    valid = jsonschema.Draft202012Validator(schema).is_valid(checked.arguments)
    assert valid == (checked.problems == [])


def test_arguments_that_a_hook_made_invalid_are_refused(tmp_path: Path) -> None:
    outcome = asyncio.run(BY_NAME["write"].run({"path": "a.txt"}, context(tmp_path)))
    assert outcome.is_error
    assert 'Validation failed for tool "write"' in text(outcome)
    assert list(tmp_path.iterdir()) == []


def test_the_error_of_an_outcome_is_one_line_and_none_without_an_error() -> None:
    assert error_line(succeeded("fine", error="no")) is None
    assert error_line(failed("read", "ENOENT: gone\nmore")) == "ENOENT: gone"
    assert error_line(refused('Validation failed for tool "read":\n  - path')) == 'Validation failed for tool "read":'
    assert error_line(ToolOutcome(content=[], is_error=True)) == "the tool failed"


def test_a_result_within_the_limits_is_unchanged() -> None:
    outcome = succeeded("x" * MAX_TEXT_CHARS, exitCode=0)
    assert truncate_result(outcome) is outcome


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    shown = text(truncate_result(succeeded("begin" + "x" * MAX_TEXT_CHARS + "end")))
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert "[... 8 more characters truncated" in shown


@given(st.text(max_size=300), st.integers(3, 100))
def test_a_shortened_text_says_how_much_is_missing(whole: str, limit: int) -> None:
    short = shorten(whole, limit)
    if len(whole) <= limit:
        assert short == whole
    else:
        assert f"[... {len(whole) - limit} more characters truncated" in short
        assert short.startswith(whole[: limit // 3])


def test_large_details_are_cut_to_what_a_diagnosis_needs() -> None:
    outcome = truncate_result(
        succeeded("x", status="completed", exitCode=3, aggregated="y" * MAX_DETAILS_BYTES, cwd="/w")
    )
    assert outcome.details["exitCode"] == 3
    assert outcome.details["status"] == "completed"
    assert outcome.details["persistedDetailsTruncated"] is True
    assert outcome.details["originalDetailKeys"] == ["status", "exitCode", "aggregated", "cwd"]
    assert len(msgspec.json.encode(outcome.details)) < 1_000


def test_details_that_no_transcript_can_hold_are_dropped() -> None:
    outcome = truncate_result(succeeded("x", thing=object()))
    assert outcome.details["originalDetailKeys"] == ["thing"]


def test_an_image_that_is_too_large_is_replaced_by_a_note() -> None:
    small, large = Image("image/png", "abcd"), Image("image/png", "x" * (MAX_IMAGE_CHARS + 1))
    content = truncate_result(ToolOutcome(content=[small, large])).content
    assert content[0] == small
    assert isinstance(content[1], Text)
    assert "too large" in content[1].text


def test_listeners_get_no_bytes_of_images() -> None:
    content: list[Text | Image] = [Text("a"), Image("image/png", "abcd")]
    assert without_images(content) == [Text("a"), Image("image/png")]


def test_a_message_goes_to_the_outbox(tmp_path: Path) -> None:
    outbox = MemoryOutbox()
    arguments = {"action": "send", "target": "ada", "message": "It is done."}
    outcome = asyncio.run(MessageTool(outbox).run(arguments, context(tmp_path)))
    assert [(message.target, message.text) for message in outbox.sent] == [("ada", "It is done.")]
    assert outcome.details["status"] == "sent"


def test_a_message_that_was_not_delivered_is_an_error(tmp_path: Path) -> None:
    class Closed:
        async def send(self, message: OutgoingMessage) -> Delivery:
            return Delivery(error="not connected")

    arguments = {"action": "send", "message": "hi"}
    outcome = asyncio.run(MessageTool(Closed()).run(arguments, context(tmp_path)))
    assert error_line(outcome) == "not connected"


def test_an_empty_message_is_not_sent(tmp_path: Path) -> None:
    outbox = MemoryOutbox()
    assert asyncio.run(MessageTool(outbox).run({"action": "send", "message": " "}, context(tmp_path))).is_error
    assert not outbox.sent


def test_a_child_is_accepted_under_its_key_and_run(tmp_path: Path) -> None:
    outcome = asyncio.run(BY_NAME["sessions_spawn"].run({"task": "look"}, context(tmp_path)))
    assert outcome.details == {"status": "accepted", "childSessionKey": "agent:main:subagent:1", "runId": "child"}
    assert not outcome.is_error


def test_a_child_that_cannot_be_started_is_an_error_for_the_model(tmp_path: Path) -> None:
    async def refuse(request: SpawnRequest, context: ToolContext) -> Spawned:
        raise SpawnError("too deep")

    outcome = asyncio.run(SpawnTool(refuse).run({"task": "look"}, context(tmp_path)))
    assert error_line(outcome) == "too deep"


@pytest.fixture
def memories(tmp_path: Path) -> Path:
    (tmp_path / "MEMORY.md").write_text("# Memory\n\nThe plan is to ship on Monday.\nBudget: 5\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "2026-01-01.md").write_text("Spoke with Ada about the budget.\n")
    (tmp_path / "notes.md").write_text("The plan is secret.\n")
    return tmp_path


def search(workspace: Path, **arguments: Any) -> list[dict[str, Any]]:
    outcome = asyncio.run(BY_NAME["memory_search"].run(arguments, context(workspace)))
    assert not outcome.is_error
    results: list[dict[str, Any]] = outcome.details["results"]
    return results


def test_memory_search_finds_passages_by_their_words_the_best_first(memories: Path) -> None:
    results = search(memories, query="Ada budget")
    assert [hit["path"] for hit in results] == ["memory/2026-01-01.md", "MEMORY.md"]
    assert "Spoke with Ada" in results[0]["snippet"]
    assert results[0]["startLine"] == 1
    assert len(search(memories, query="Ada budget", maxResults=1)) == 1
    assert len(search(memories, query="Ada budget", minScore=results[0]["score"])) == 1


def test_memory_search_without_memory_files_finds_nothing(
    memories: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert search(memories, query="zebra") == []
    assert search(memories, query="secret") == []
    assert search(memories, query="?!") == []
    assert search(tmp_path_factory.mktemp("empty"), query="plan") == []


def get(workspace: Path, **arguments: Any) -> dict[str, Any]:
    outcome = asyncio.run(BY_NAME["memory_get"].run(arguments, context(workspace)))
    assert not outcome.is_error
    return outcome.details


def test_memory_get_reads_lines_and_says_where_to_continue(memories: Path) -> None:
    assert get(memories, path="MEMORY.md")["text"] == "# Memory\n\nThe plan is to ship on Monday.\nBudget: 5\n"
    excerpt = get(memories, path="MEMORY.md", **{"from": 3, "lines": 1})
    assert excerpt["text"].startswith("The plan is to ship on Monday.\n\n[More content available.")
    assert excerpt["nextFrom"] == 4


def test_memory_get_of_a_missing_file_is_empty(memories: Path) -> None:
    assert get(memories, path="memory/none.md") == {"text": "", "path": "memory/none.md"}


@pytest.mark.parametrize("path", ["notes.md", "../MEMORY.md", "memory/../notes.md", "/etc/passwd", "memory"])
def test_memory_get_reads_nothing_but_memory(memories: Path, path: str) -> None:
    found = get(memories, path=path)
    assert found["text"] == ""
    assert found["disabled"] is True
