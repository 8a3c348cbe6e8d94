"""Messages that are assembled from deltas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta, UsageDelta
from critiqor.agentloop.models.response_builder import ResponseBuilder
from critiqor.agentloop.sessions.messages import AssistantMessage, StopReason, Text, Thinking, ToolCall
from critiqor.agentloop.settings import Prices


def answer(*deltas: Delta, prices: Prices | None = None) -> ResponseBuilder:
    made = ResponseBuilder("lab", "scripted", "openai-completions", prices or Prices())
    for delta in deltas:
        made.add(delta)
    return made


def message(*deltas: Delta) -> AssistantMessage:
    return answer(*deltas).message()


def test_text_and_reasoning_keep_their_order() -> None:
    made = answer(ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("Hel"), TextDelta("lo"), ThinkingDelta("ok"))
    assert made.message().content == [Thinking("hm"), Text("Hello"), Thinking("ok")]


@given(st.text(min_size=1), st.data())
def test_an_answer_does_not_depend_on_how_it_was_split(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert message(*map(TextDelta, pieces)).content == [Text(text)]


def test_tool_calls_are_put_together_by_their_number() -> None:
    made = message(
        ToolCallDelta(1, "b", "exec", '{"command":'),
        ToolCallDelta(0, "a", "read", "{}"),
        ToolCallDelta(1, None, None, '"ls"}'),
        Finished("tool_calls"),
    )
    assert made.tool_calls == [
        ToolCall(id="a", name="read"),
        ToolCall(id="b", name="exec", arguments={"command": "ls"}),
    ]
    assert made.stop_reason == "toolUse"


@pytest.mark.parametrize("arguments", ['{"command": "ls', "nonsense", '["ls"]', "[" * 5_000, '"\\ud800"'])
def test_arguments_that_cannot_be_read_are_marked_and_not_guessed(arguments: str) -> None:
    [call] = message(ToolCallDelta(0, "a", "exec", arguments)).tool_calls
    assert call.malformed is not None
    assert call.arguments == {}
    assert len(call.malformed) < 400


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_missing_arguments_are_an_empty_object(arguments: str) -> None:
    assert message(ToolCallDelta(0, "a", "exec", arguments)).tool_calls == [ToolCall(id="a", name="exec")]


def test_calls_without_an_id_or_with_the_same_one_get_unique_ids() -> None:
    made = message(*(ToolCallDelta(index, "x" if index < 3 else None, "exec") for index in range(5)))
    assert [call.id for call in made.tool_calls] == ["x", "x_2", "x_3", "call_3", "call_4"]


def test_a_call_without_a_name_is_marked() -> None:
    [call] = message(ToolCallDelta(0, "a", None, "{}")).tool_calls
    assert call.malformed == "the call names no tool"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "toolUse"),
        ("function_call", "toolUse"),
        ("content_filter", "error"),
        ("network_error", "error"),
    ],
)
def test_finish_reasons_are_mapped_to_those_of_a_transcript(reason: str, expected: StopReason) -> None:
    made = message(TextDelta("x"), Finished(reason))
    assert made.stop_reason == expected
    assert (made.error_message == f"Provider finish_reason: {reason}") == (expected == "error")


def test_an_answer_with_tool_calls_has_the_stop_reason_tool_use() -> None:
    assert message(ToolCallDelta(0, "a", "exec", "{}"), Finished("stop")).stop_reason == "toolUse"


def test_an_interrupted_answer_keeps_what_had_arrived() -> None:
    made = answer(TextDelta("I was")).message(stop_reason="aborted", error="cancelled")
    assert (made.text, made.stop_reason, made.error_message) == ("I was", "aborted", "cancelled")


def test_usage_is_that_of_the_whole_call_and_costs_what_the_model_costs() -> None:
    prices = Prices(input=1.0, output=2.0, cache_read=0.5, cache_write=4.0)
    used = answer(UsageDelta(1, 1), UsageDelta(1000, 20, 10, 5), prices=prices).message().usage
    assert (used.input, used.output, used.cache_read, used.cache_write, used.total_tokens) == (1000, 20, 10, 5, 1035)
    assert used.cost.input == pytest.approx(0.001)
    assert used.cost.total == pytest.approx(0.001 + 0.00004 + 0.000005 + 0.00002)
