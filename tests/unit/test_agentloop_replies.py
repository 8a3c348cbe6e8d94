"""The replies that are built from the messages and tool calls of a run."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.replies.reply_builder import (
    SILENT_TOKENS,
    RunOutput,
    build_replies,
    failure_text,
    has_failed,
    is_silent,
    may_become_silent,
)
from critiqor.agentloop.runs import Payload
from critiqor.agentloop.sessions.messages import AssistantMessage, StopReason, Text, Thinking, ToolCall, Usage
from critiqor.agentloop.tools.results import answered, failed, succeeded
from critiqor.agentloop.tools.tool import ToolOutcome


class Use(NamedTuple):
    call: ToolCall
    outcome: ToolOutcome


def message_with(
    text: str, stop_reason: StopReason = "stop", thinking: str = "", error: str | None = None
) -> AssistantMessage:
    return AssistantMessage(
        content=[*([Thinking(thinking)] if thinking else []), *([Text(text)] if text else [])],
        provider="lab",
        model="m",
        usage=Usage(),
        stop_reason=stop_reason,
        error_message=error,
        timestamp=1,
    )


def use(name: str, outcome: ToolOutcome | None = None, **arguments: Any) -> Use:
    return Use(ToolCall(id="call_0", name=name, arguments=arguments), outcome or succeeded("done"))


def sent(text: str) -> Use:
    return use("message", answered({"status": "sent"}), action="send", message=text)


def shaped(*texts: str, tools: tuple[Use, ...] = (), error: str | None = None, **options: Any) -> list[Payload]:
    output = RunOutput(
        messages=[message_with(text) for text in texts],
        tools=tools,
        failed_tool=next((one for one in reversed(tools) if has_failed(one)), None),
        sent=[one.call.arguments["message"] for one in tools if one.call.name == "message" and not has_failed(one)],
        error=error,
    )
    return build_replies(output, **options)


def words(payloads: list[Payload]) -> list[str]:
    return [payload.text for payload in payloads]


def test_the_last_answer_is_the_reply() -> None:
    assert shaped("I start.", "All done.") == [Payload(text="All done.")]


def test_without_a_final_text_the_last_earlier_text_is_the_reply() -> None:
    assert words(shaped("I start.", "")) == ["I start."]


@pytest.mark.parametrize("token", ["NO_REPLY", "no_reply", "  NO_REPLY\n"])
def test_a_silent_answer_is_not_sent(token: str) -> None:
    assert shaped("I start.", token) == []


@pytest.mark.parametrize("text", ["NO_REPLY needed", "I say NO_REPLY", "`NO_REPLY`", "No reply"])
def test_an_answer_that_only_mentions_the_token_is_sent(text: str) -> None:
    assert words(shaped(text)) == [text]


@given(st.sampled_from([*SILENT_TOKENS, "NOTHING", "no", "hello"]), st.integers(0, 12))
def test_text_is_held_back_exactly_while_it_may_become_silent(text: str, length: int) -> None:
    begun = text[:length]
    assert may_become_silent(begun) == any(token.startswith(begun) for token in SILENT_TOKENS)
    if is_silent(text):
        assert may_become_silent(begun)


def test_text_sent_with_the_message_tool_is_not_repeated() -> None:
    tools = (sent("The report is ready. See the folder."),)
    assert shaped("The report is ready. See the folder.", tools=tools) == []
    assert shaped("the report is  READY. 🎉", tools=tools) == []
    assert words(shaped("The report is ready. I also fixed the tests.", tools=tools)) == [
        "The report is ready. I also fixed the tests."
    ]


def test_a_short_answer_contained_in_a_message_is_sent() -> None:
    assert words(shaped("ready", tools=(sent("The report is ready."),))) == ["ready"]


def test_a_message_that_was_not_delivered_does_not_suppress_the_answer() -> None:
    lost = use("message", failed("message", "nobody is there"), action="send", message="It is done.")
    assert words(shaped("It is done.", tools=(lost,))) == ["It is done."]


def test_answers_of_emoji_only_are_compared_unchanged() -> None:
    assert words(shaped("👍", tools=(sent("❤️"),))) == ["👍"]
    assert shaped("👍", tools=(sent("👍"),)) == []


def test_a_failed_tool_is_reported_only_without_another_reply() -> None:
    broken = use("write", failed("write", "EISDIR: oh no"), path="notes", content="x")
    assert shaped("NO_REPLY", tools=(broken,)) == [Payload(text="⚠️ ✍️ Write: `notes` failed", is_error=True)]
    assert words(shaped("Could not write.", tools=(broken,))) == ["Could not write."]
    assert shaped("NO_REPLY", tools=(broken, sent("Could not write."))) == []
    assert shaped("NO_REPLY", tools=(use("write", path="notes"),)) == []


def test_a_command_line_is_shown_only_with_full_verbosity() -> None:
    killed = use("exec", succeeded("", status="failed"), command="curl -H 'token: abc'")
    assert words(shaped(tools=(killed,))) == ["⚠️ 🛠️ Exec failed"]
    assert "token: abc" in shaped(tools=(killed,), verbose="full")[-1].text


def test_an_exit_code_is_not_a_failure_of_the_tool() -> None:
    assert shaped("", tools=(use("exec", succeeded("bad", status="completed", exitCode=3), command="x"),)) == []


def test_an_error_of_the_model_follows_its_text() -> None:
    text = failure_text(ModelFailureError("500 oops", "server", 500))
    assert shaped("Half an answer", error=text) == [
        Payload(text="Half an answer"),
        Payload(text="⚠️ The model provider had an internal error; try again shortly. (500 oops)", is_error=True),
    ]


def test_an_error_replaces_the_message_about_a_failed_tool() -> None:
    broken = use("read", failed("read", "ENOENT"), path="x")
    assert words(shaped(tools=(broken,), error="the run took too long")) == ["⚠️ the run took too long"]


def test_an_answer_that_the_provider_cut_off_is_an_error() -> None:
    message = message_with("", stop_reason="error", error="Provider finish_reason: content_filter")
    payloads = build_replies(RunOutput(messages=[message]))
    assert payloads == [Payload(text="⚠️ Provider finish_reason: content_filter", is_error=True)]


def test_every_kind_of_failure_has_a_message() -> None:
    for kind in get_args(FailureKind):
        assert "because" in failure_text(ModelFailureError("because", kind))


def test_tools_are_listed_only_if_verbose() -> None:
    tools = (use("exec", succeeded("hello"), command="echo hello"), use("frob_nicate"))
    assert words(shaped("Done.", tools=tools)) == ["Done."]
    assert words(shaped("Done.", tools=tools, verbose="on")) == ["🛠️ Exec", "🧩 Frob Nicate", "Done."]
    assert words(shaped("Done.", tools=tools, verbose="full"))[0] == "🛠️ Exec: `echo hello`\n```\nhello\n```"


def test_reasoning_is_included_only_if_requested() -> None:
    thought = [message_with("Yes.", thinking="hm")]
    assert words(build_replies(RunOutput(messages=thought))) == ["Yes."]
    assert build_replies(RunOutput(messages=thought), reasoning=True)[0] == Payload(
        text="Reasoning:\nhm", is_reasoning=True
    )


TEXTS = st.sampled_from(["", "NO_REPLY", "no_reply", "Done.", "All is well, I think.", "All is well, I think", "👍"])
USES = st.sampled_from(
    [
        use("exec", command="ls"),
        use("read", failed("read", "ENOENT"), path="x"),
        sent("All is well, I think. And more."),
        sent("Done."),
        sent("👍"),
    ]
)


@given(st.lists(TEXTS, max_size=4), st.lists(USES, max_size=4).map(tuple), st.sampled_from(["off", "on", "full"]))
def test_no_reply_is_lost_or_sent_twice(texts: list[str], tools: tuple[Use, ...], verbose: str) -> None:
    payloads = shaped(*texts, tools=tools, verbose=verbose)
    summaries = len(tools) if verbose != "off" else 0
    replies = payloads[summaries:]
    assert len(replies) <= 1
    answer = next((text for text in reversed(texts) if text), "")
    messages = [one.call.arguments["message"] for one in tools if one.call.name == "message"]
    sent = [payload.text for payload in replies if not payload.is_error] + messages
    if answer and not is_silent(answer):
        assert any(answer in text for text in sent)
    for payload in replies:
        assert payload.text not in messages
        assert not is_silent(payload.text)
    if any(one.outcome.is_error for one in tools):
        assert replies or messages
