"""The scripted model: complete and broken responses, and one position per conversation."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from support import wait_until

from critiqor.errors import CritiqorError
from critiqor.lab.model.scripted_model import Script, ScriptedModel, Step, ToolUse


@contextmanager
def asked(
    model: ScriptedModel, *said: str, tools: bool = True, timeout: float = 10, stream: bool = True
) -> Iterator[http.client.HTTPResponse]:
    """Send one request with these messages of a user."""
    port = int(model.base_url.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    messages = [{"role": "user", "content": text} for text in said or ("Hello.",)]
    body: dict[str, Any] = {"model": "m", "messages": messages, "stream": stream, **({"tools": [{}]} if tools else {})}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def chunks_of(raw: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def words_of(model: ScriptedModel, *said: str, tools: bool = True) -> str:
    with asked(model, *said, tools=tools) as answer:
        choices = [choice for chunk in chunks_of(answer.read()) for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_words_reasoning_tools_and_usage_are_streamed() -> None:
    step = Step(
        text="Hello there.",
        thinking="Hm.",
        tools=(ToolUse(name="exec", arguments={"command": "ls"}), ToolUse("mine", "read", "{broken")),
        input_tokens=7,
        output_tokens=3,
        pieces=3,
    )
    with ScriptedModel([step]) as model, asked(model) as answer:
        raw = answer.read()
    assert raw.endswith(b"data: [DONE]\n\n")
    *chunks, last = chunks_of(raw)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta["content"] for delta in deltas if delta.get("content")] == ["Hell", "o th", "ere."]
    assert [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta] == ["Hm."]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [
        ("call_1_1", '{"command": "ls"}'),
        ("mine", "{broken"),
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert last["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_a_finish_reason_of_its_own_replaces_the_usual_one() -> None:
    with ScriptedModel([Step(text="cut", finish="length")]) as model, asked(model) as answer:
        assert chunks_of(answer.read())[-2]["choices"][0]["finish_reason"] == "length"


def test_an_error_status_has_the_scripted_message() -> None:
    with ScriptedModel([Step(status=429, error="slow down", retry_after_s=2)]) as model, asked(model) as answer:
        assert (answer.status, answer.getheader("retry-after")) == (429, "2")
        assert json.loads(answer.read())["error"]["message"] == "slow down"


def test_a_stream_that_breaks_gives_half_of_its_words_and_no_tool() -> None:
    content = Step(text="12345678", tools=(ToolUse(name="exec"),))
    ends = [replace(content, ends="malformed"), replace(content, ends="error", error="too busy")]
    with ScriptedModel(ends) as model:
        with asked(model) as answer, pytest.raises(json.JSONDecodeError):
            chunks_of(answer.read())
        with asked(model) as answer:
            *_, words, error = chunks_of(answer.read())
    assert words["choices"][0]["delta"] == {"content": "1234"}
    assert error["error"]["message"] == "too busy"


def test_an_unfinished_stream_ends_politely_and_without_a_reason() -> None:
    with ScriptedModel([Step(text="all of it", ends="unfinished")]) as model, asked(model) as answer:
        raw = answer.read()
    assert b"[DONE]" not in raw
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks_of(raw))


def test_a_disconnect_cuts_the_connection() -> None:
    cut = (http.client.IncompleteRead, ConnectionResetError)
    model = ScriptedModel([Step(text="12345678", ends="disconnect")])
    with model, pytest.raises(cut), asked(model) as answer:
        answer.read()


def test_a_stall_says_nothing_more_until_the_other_side_gives_up_and_then_the_script_goes_on() -> None:
    with ScriptedModel([Step(text="12345678", ends="stall"), Step(text="again")]) as model:
        with asked(model, timeout=0.3) as answer, pytest.raises(TimeoutError):
            answer.read()
        assert words_of(model) == "again"


def test_the_model_stops_while_a_client_is_waiting() -> None:
    done = threading.Event()

    def wait(model: ScriptedModel) -> None:
        with pytest.raises((http.client.HTTPException, OSError)), asked(model) as answer:
            answer.read()
        done.set()

    with ScriptedModel([Step(text="12345678", ends="stall")]) as model:
        threading.Thread(target=wait, args=(model,), daemon=True).start()
        while not model.requests:
            pass
    assert done.wait(10)


class Session:
    """An agent that sends its whole history with each request."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self._messages: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def ask(self) -> str:
        """Send a request and react like an agent. Returns the text of the response or the name of its tool."""
        answer = posted(self._model, self._messages)
        if "error" in answer:
            return str(answer["error"]["message"])
        [choice] = answer["choices"]
        calls = choice["message"].get("tool_calls") or []
        self._messages.append(choice["message"])
        self._messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
        return str(calls[0]["function"]["name"] if calls else choice["message"]["content"])


def posted(model: ScriptedModel, messages: list[dict[str, Any]]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(model.base_url.split("/")[2], timeout=10)
    body = {"model": "m", "messages": messages, "tools": [{}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    document: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return document


def test_each_conversation_plays_its_own_script_at_its_own_pace() -> None:
    scripts = [
        Script("first list", (Step(text="a1"), Step(text="a2"))),
        Script("second list", (Step(text="b1"), Step(text="b2"))),
    ]
    with ScriptedModel(scripts=scripts) as model:
        first, second = Session(model), Session(model)
        first.say("[Mon 12:00] Read the first list")
        assert first.ask() == "a1"
        second.say("Read the second list")
        assert second.ask() == "b1"
        first.say("and more of the same")
        assert first.ask() == "a2"
        assert model.unplayed() == {"second list": 1}
        assert second.ask() == "b2"
        assert first.ask() == "a2", "the last step is repeated"
        assert model.unplayed() == {}
        first.say("Now the second list")
        assert [first.ask(), first.ask()] == ["b1", "b2"], "the last one that is known"


@pytest.mark.parametrize("call_id", ["", "call_0"], ids=["ids of the model", "ids of the script"])
def test_the_same_message_in_another_session_is_answered_from_the_first_step_on(call_id: str) -> None:
    steps = (*(Step(tools=(ToolUse(call_id, name),)) for name in ("read", "write")), Step(text="Done."))
    with ScriptedModel(scripts=[Script("Fix it.", steps)]) as model:
        for _ in range(2):
            session = Session(model)
            session.say("Fix it.")
            assert [session.ask() for _ in range(4)] == ["read", "write", "Done.", "Done."]
        session.say("Fix it.")
        assert [session.ask() for _ in range(3)] == ["read", "write", "Done."], "asked again in the same session"


def test_sessions_at_once_with_the_same_message_are_each_at_their_own_place() -> None:
    steps = (*(Step(tools=(ToolUse(name=name),)) for name in ("read", "write")), Step(text="Done."))
    with ScriptedModel(scripts=[Script("Fix it.", steps)]) as model:
        first, second = Session(model), Session(model)
        for session in (first, second):
            session.say("Fix it.")
        responses = [session.ask() for session in (first, second, first, first, second, second)]
    assert responses == ["read", "read", "write", "Done.", "write", "Done."]


def test_a_request_that_failed_is_asked_again_and_goes_on_and_another_session_sees_the_failure_as_well() -> None:
    steps = (Step(status=500, error="broken"), Step(text=""), Step(tools=(ToolUse(name="read"),)), Step(text="Done."))
    with ScriptedModel(scripts=[Script("Fix it.", steps)]) as model:
        for _ in range(2):
            responses = []
            for _ in range(2):
                session = Session(model)  # with nothing in its history, as after an answer that was thrown away
                session.say("Fix it.")
                responses.append(session.ask())
            session = Session(model)
            session.say("Fix it.")
            assert [*responses, session.ask(), session.ask()] == ["broken", "", "read", "Done."]


def test_a_response_that_the_client_did_not_wait_for_is_repeated() -> None:
    steps = (Step(text="late", delay_s=0.5), Step(text="in time"))
    with ScriptedModel(scripts=[Script("Hello.", steps)]) as model:
        with pytest.raises(TimeoutError), asked(model, timeout=0.1):
            pass
        wait_until(lambda: not any("process_request" in thread.name for thread in threading.enumerate()))
        assert words_of(model) == "in time"


def test_a_compacted_history_is_not_a_new_conversation() -> None:
    scripts = [Script("Fix it.", (Step(tools=(ToolUse(name="read"),)), Step(text="Done.")))]
    with ScriptedModel(scripts=scripts, summary="in short") as model:
        session = Session(model)
        session.say("Fix it.")
        assert session.ask() == "read"
        assert words_of(model, "Fix it.", tools=False) == "in short"
        assert words_of(model, "in short", "Fix it.") == "Done."


def test_the_longer_of_two_messages_that_contain_each_other_is_meant() -> None:
    scripts = [Script("list", (Step(text="short"),)), Script("first list", (Step(text="long"),))]
    with ScriptedModel(scripts=scripts) as model:
        assert words_of(model, "the first list") == "long"
        assert words_of(model, "the list") == "short"


def test_a_request_without_tools_is_answered_with_the_summary_and_takes_no_step() -> None:
    with ScriptedModel([Step(text="step")], summary="in short") as model:
        assert words_of(model, tools=False) == "in short"
        assert words_of(model) == "step"


def test_callbacks_run_before_and_after_each_response() -> None:
    calls: list[tuple[str, int]] = []

    def request(number: int) -> None:
        calls.append(("request", number))

    def response(number: int) -> None:
        calls.append(("response", number))

    with ScriptedModel([Step(text="a")], on_request=request, on_response=response) as model:
        for number in (1, 2):
            words_of(model)
            # The client has the response a moment before the callback runs.
            wait_until(lambda: len(calls) == 2 * number)  # noqa: B023
    assert calls == [("request", 1), ("response", 1), ("request", 2), ("response", 2)]


def test_a_rewound_model_starts_from_the_beginning() -> None:
    with ScriptedModel([Step(text="a"), Step(text="b")]) as model:
        assert [words_of(model), words_of(model)] == ["a", "b"]
        model.rewind()
        assert (words_of(model), len(model.requests)) == ("a", 1)


def test_a_model_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        ScriptedModel([])


def test_a_request_without_a_stream_gets_one_document() -> None:
    call = ToolUse(name="exec", arguments={"command": "ls"})
    step = Step(text="Look.", thinking="Hm.", tools=(call,), input_tokens=7, output_tokens=3)
    with ScriptedModel([step]) as model, asked(model, stream=False) as answer:
        assert answer.headers["content-type"] == "application/json"
        document = json.loads(answer.read())
    assert document["object"] == "chat.completion"
    [choice] = document["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Look.")
    [asked_for] = choice["message"]["tool_calls"]
    assert (asked_for["id"], json.loads(asked_for["function"]["arguments"])) == ("call_1_1", {"command": "ls"})
    assert document["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_what_breaks_in_a_stream_breaks_in_a_document() -> None:
    steps = [Step(text="Hi.", ends="malformed"), Step(text="Hi.", ends="error"), Step(text="Hi.", ends="unfinished")]
    with ScriptedModel(steps) as model:
        with asked(model, stream=False) as answer, pytest.raises(json.JSONDecodeError):
            json.loads(answer.read())
        with asked(model, stream=False) as answer:
            assert answer.status == 500
            assert "scripted error" in json.loads(answer.read())["error"]["message"]
        with asked(model, stream=False) as answer:
            assert json.loads(answer.read())["choices"][0]["finish_reason"] is None
    cut = ScriptedModel([Step(text="Hi.", ends="disconnect")])
    with cut as model, pytest.raises(OSError), asked(model, stream=False) as answer:
        answer.read()


def test_its_models_are_listed_and_nothing_else_is_there() -> None:
    with ScriptedModel([Step(text="Hi.")]) as model:
        connection = http.client.HTTPConnection(model.base_url.split("/")[2], timeout=10)
        for path, status in (("/v1/models", 200), ("/v1/elsewhere", 404)):
            connection.request("GET", path)
            answer = connection.getresponse()
            document = json.loads(answer.read())
            assert answer.status == status
            assert status != 200 or [one["id"] for one in document["data"]] == ["scripted"]
        connection.close()


def test_a_port_in_use_is_reported() -> None:
    with ScriptedModel([Step(text="Hi.")]) as model:
        port = int(model.base_url.split(":")[2].split("/")[0])
        with pytest.raises(CritiqorError, match=f"port {port} is not available"):
            ScriptedModel([Step(text="Hi.")], port=port)
