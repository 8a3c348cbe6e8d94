"""The client of completions endpoints, against real sockets: a server in a few lines, and the scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from critiqor.agentloop.models.completion_chunks import ChunkReader
from critiqor.agentloop.models.completion_requests import NO_RESULT, convert_messages, request_body
from critiqor.agentloop.models.completions_client import CompletionsClient, CompletionsClients
from critiqor.agentloop.models.http_client import MAX_EVENT_BYTES, MAX_RESPONSE_BYTES
from critiqor.agentloop.models.model_client import (
    Delta,
    Finished,
    ModelFailureError,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Image,
    Message,
    StopReason,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from critiqor.agentloop.settings import Provider, ProxySettings, RequestSettings, TlsSettings
from critiqor.diagnosis.signals.provider_errors import provider_failure_cause
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.spans.calls import ModelCall

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
QUESTION: list[Message] = [UserMessage(content=[Text("hi")], timestamp=1)]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def request(messages: Sequence[Message] = QUESTION, **facts: Any) -> ModelRequest:
    known: dict[str, Any] = {"system_prompt": "be good", "tools": [], "max_tokens": 100} | facts
    return ModelRequest(provider="lab", model="scripted", messages=list(messages), **known)


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks)


def choice(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


HELLO = sse(
    choice(role="assistant", content=""),
    choice(content="Hel"),
    choice(content="lo"),
    choice("stop"),
    {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}},
    b"[DONE]",
)
HELLO_DELTAS: list[Delta] = [TextDelta("Hel"), TextDelta("lo"), UsageDelta(12, 3), Finished("stop")]


class Seen:
    """What a server was sent."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.hung_up = asyncio.Event()


async def take_request(reader: asyncio.StreamReader, seen: Seen) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    [length] = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
    seen.heads.append(head)
    seen.bodies.append(json.loads(await reader.readexactly(int(length))))


def client_of(
    url: str, key: str | None = None, timeout: float | None = None, settings: RequestSettings | None = None
) -> CompletionsClient:
    """Return a client of a provider that shares its connections with no other client."""
    return CompletionsClients({})(
        Provider(base_url=url, timeout_seconds=timeout, request=settings or RequestSettings()), key
    )


async def collect(client: CompletionsClient, wanted: ModelRequest | None = None) -> list[Delta]:
    return [delta async for delta in client.ask(wanted or request())]


def against(
    serve: Serve,
    play: Callable[[CompletionsClient], Awaitable[Any]],
    *,
    key: str | None = "key",
    timeout: float | None = 20,
) -> Any:
    """Run `play` with a client of a server that does `serve` once for each connection."""

    async def main() -> Any:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = client_of(f"http://127.0.0.1:{port}/v1", key, timeout)
        try:
            return await asyncio.wait_for(play(client), 30)
        finally:
            server.close()
            await client._clients.close()

    return asyncio.run(main())


def answering(*pieces: bytes) -> Serve:
    """Take a request and send these bytes, each as it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return serve


def failure(serve: Serve, **options: Any) -> ModelFailureError:
    async def play(client: CompletionsClient) -> ModelFailureError:
        with pytest.raises(ModelFailureError) as caught:
            await collect(client)
        return caught.value

    found = against(serve, play, **options)
    assert isinstance(found, ModelFailureError)
    return found


def with_length(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x;note=x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\ntrailer: x\r\n\r\n"


def test_an_answer_streams_from_a_real_server() -> None:
    with ScriptedModel(
        [Step(text="I look.", tools=(ToolUse("call_0", "exec", {"command": "ls"}),), input_tokens=7, output_tokens=2)]
    ) as model:
        deltas = asyncio.run(collect(client_of(model.base_url, "key")))
    assert deltas == [
        TextDelta("I look."),
        ToolCallDelta(index=0, id="call_0", name="exec", arguments='{"command": "ls"}'),
        UsageDelta(7, 2),
        Finished("tool_calls"),
    ]


def test_the_request_has_the_documented_body_and_headers() -> None:
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, seen)
        writer.write(STREAM_HEAD + HELLO)

    wanted = request(tools=[{"type": "function", "function": {"name": "read", "parameters": {}}}], thinking="xhigh")
    assert against(serve, lambda client: collect(client, wanted)) == HELLO_DELTAS
    head = seen.heads[0].lower()
    assert head.startswith("post /v1/chat/completions http/1.1\r\n")
    assert "\r\nhost: 127.0.0.1:" in head
    assert "\r\nauthorization: bearer key\r\n" in head
    assert "\r\naccept-encoding: identity\r\n" in head
    body = seen.bodies[0]
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_completion_tokens"] == 100
    assert body["reasoning_effort"] == "high"
    assert body["messages"][0] == {"role": "system", "content": "be good"}
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read"]


def test_without_a_key_none_is_sent() -> None:
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, seen)
        writer.write(STREAM_HEAD + HELLO)

    against(serve, collect, key=None)
    assert "authorization" not in seen.heads[0].lower()


def test_bytes_are_counted() -> None:
    async def play(client: CompletionsClient) -> None:
        stream = client.ask(request())
        assert [delta async for delta in stream] == HELLO_DELTAS
        assert stream.request_bytes == len(request_body(request()))
        assert stream.response_bytes == len(HELLO)

    against(answering(STREAM_HEAD + HELLO), play)


@pytest.mark.parametrize(
    "answer",
    [
        with_length("200 OK", HELLO, "content-type: text/event-stream"),
        STREAM_HEAD + HELLO,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(HELLO, 7),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:Chunked\r\ncontent-length: 3\r\n\r\n" + chunked(HELLO, 100),
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + STREAM_HEAD + HELLO,
        b"HTTP/1.0 200\r\n\r\n" + HELLO,
        b"HTTP/1.1 200 OK\n\n" + HELLO.replace(b"\n", b"\r\n"),
        STREAM_HEAD + b"\xef\xbb\xbf: hello\n\nevent: message\nid: 1\n" + HELLO.replace(b"\n\n", b"\n: keep\n\n"),
        STREAM_HEAD + HELLO.replace(b"data: [DONE]\n\n", b""),
        STREAM_HEAD + HELLO.removesuffix(b"\n\n"),
    ],
    ids=["length", "close", "chunked", "both", "interim", "old", "feeds", "comments", "no-done", "no-last-line"],
)
def test_every_way_of_sending_an_answer_gives_the_same(answer: bytes) -> None:
    assert against(answering(answer), collect) == HELLO_DELTAS


def test_the_answer_does_not_depend_on_how_bytes_are_split() -> None:
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(HELLO, 11)
    assert against(answering(*(bytes([byte]) for byte in answer)), collect) == HELLO_DELTAS


SEPARATORS = st.sampled_from([b"\n", b"\r\n", b"\r"])
NOISE = st.lists(st.sampled_from([b": note", b"event: x", b"data", b"id: 7", b"retry: 5"]), max_size=4)


@settings(max_examples=30, deadline=None)
@given(end=SEPARATORS, noise=NOISE, cuts=st.lists(st.integers(0, 600), max_size=6), marked=st.booleans())
def test_events_are_the_same_wherever_the_bytes_are_split(
    end: bytes, noise: list[bytes], cuts: list[int], marked: bool
) -> None:
    lines = [line for part in HELLO.split(b"\n\n") if part for line in (*noise, part, b"")]
    data = (b"\xef\xbb\xbf" if marked else b"") + end.join(lines) + end
    places = sorted({min(cut, len(data)) for cut in cuts})
    pieces = [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]
    assert against(answering(STREAM_HEAD, *pieces), collect) == HELLO_DELTAS


def test_an_event_of_several_lines_is_one_event() -> None:
    event = b'data: {"choices": [{"delta":\ndata: {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    assert against(answering(STREAM_HEAD + event), collect) == [TextDelta("a"), Finished("stop")]


@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data:" + b"x" * 1_000 + b"\n"])
def test_an_endless_event_is_malformed(piece: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        writer.write(STREAM_HEAD)
        while True:
            writer.write(piece * 64)
            await writer.drain()

    async def play(client: CompletionsClient) -> int:
        stream = client.ask(request())
        with pytest.raises(ModelFailureError, match="too long"):
            async for _ in stream:
                pass
        return stream.response_bytes

    assert against(serve, play) < 2 * MAX_EVENT_BYTES


def read_chunks(*chunks: Any) -> list[Delta]:
    reader = ChunkReader()
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += reader.read(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode())
    return deltas + reader.finish()


def test_reasoning_is_separate_from_text() -> None:
    assert read_chunks(choice(reasoning_content="hm"), choice(reasoning="m"), choice("stop", content="yes")) == [
        ThinkingDelta("hm"),
        ThinkingDelta("m"),
        TextDelta("yes"),
        Finished("stop"),
    ]


def test_deltas_of_several_tool_calls_are_kept_apart() -> None:
    def call(**facts: Any) -> dict[str, Any]:
        function = {key: facts.pop(key) for key in ("name", "arguments") if key in facts}
        return choice(tool_calls=[facts | {"function": function}])

    assert read_chunks(
        call(index=0, id="a", name="read", arguments=""),
        call(index=0, arguments='{"path":'),
        call(index=1, id="b", name="exec", arguments="{}"),
        call(index=0, arguments='"x"}'),
        choice("tool_calls"),
    ) == [
        ToolCallDelta(0, "a", "read", ""),
        ToolCallDelta(0, None, None, '{"path":'),
        ToolCallDelta(1, "b", "exec", "{}"),
        ToolCallDelta(0, None, None, '"x"}'),
        Finished("tool_calls"),
    ]


def test_servers_that_do_not_number_tool_calls_are_understood() -> None:
    calls = [{"id": "a", "function": {"name": "read", "arguments": {"path": "x"}}}]
    more = [{"id": "b", "function": {"name": "exec", "arguments": "{"}}]
    rest = [{"function": {"arguments": "}"}}]
    chunks = [choice(tool_calls=calls), choice(tool_calls=more), choice(tool_calls=rest), b"[DONE]"]
    assert read_chunks(*chunks) == [
        ToolCallDelta(0, "a", "read", '{"path":"x"}'),
        ToolCallDelta(1, "b", "exec", "{"),
        ToolCallDelta(1, None, None, "}"),
        Finished("tool_calls"),
    ]


def test_cached_tokens_are_not_counted_twice() -> None:
    used = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}
    assert UsageDelta(20, 5, cache_read=80) in read_chunks(choice("stop", content="x") | {"usage": used})


def test_a_lone_surrogate_is_replaced_and_the_rest_is_kept() -> None:
    deltas = read_chunks(rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}', choice("stop"))
    assert deltas == [TextDelta("a?"), Finished("stop")]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "index",
                    "content",
                    "tool_calls",
                    "function",
                    "arguments",
                    "usage",
                    "error",
                    "message",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON_VALUES | st.binary(max_size=20), max_size=5))
def test_any_stream_gives_deltas_or_a_failure_with_a_kind(chunks: list[Any]) -> None:
    try:
        deltas = read_chunks(*chunks)
    except ModelFailureError as error:
        assert error.kind
        assert str(error)
    else:
        assert isinstance(deltas[-1], Finished)


def test_a_server_that_does_not_stream_is_understood() -> None:
    message = {"role": "assistant", "content": "hello", "tool_calls": [{"id": "a", "function": {"name": "read"}}]}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    body = json.dumps(document | {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}, indent=2).encode()
    answer = with_length("200 OK", body, "content-type: application/json; charset=utf-8")
    assert against(answering(answer), collect) == [
        TextDelta("hello"),
        ToolCallDelta(0, "a", "read", ""),
        UsageDelta(1, 2),
        Finished("tool_calls"),
    ]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "bad schema"}}, "rejected"),
        (400, {"error": {"message": "maximum context length is 10", "code": "context_length_exceeded"}}, "context"),
        (400, {"error": {"message": "prompt is too long: 9 tokens"}}, "context"),
        (401, {"error": {"message": "no such key"}}, "auth"),
        (402, {"error": "pay"}, "billing"),
        (403, {"message": "not for you"}, "auth"),
        (404, {"detail": "no such model"}, "rejected"),
        (408, {}, "timeout"),
        (413, {"error": {"message": "too much"}}, "context"),
        (422, [{"error": {"message": "bad"}}], "rejected"),
        (429, {"error": {"message": "slow down"}}, "rate_limit"),
        (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, "billing"),
        (429, {"error": {"message": "too many tokens per minute"}}, "rate_limit"),
        (500, {"error": {"message": "oops"}}, "server"),
        (503, {}, "server"),
        (529, {"error": {"type": "overloaded_error", "message": "busy"}}, "server"),
        (302, {}, "rejected"),
    ],
)
def test_http_statuses_are_classified(status: int, body: Any, kind: str) -> None:
    found = failure(answering(with_length(f"{status} X", json.dumps(body).encode())))
    assert (found.kind, found.status) == (kind, status)
    assert str(found).startswith(f"{status} ")


def test_the_message_of_a_provider_is_passed_on_without_the_key() -> None:
    body = json.dumps({"error": {"message": "Incorrect API key: sk-1234"}}).encode()
    found = failure(answering(with_length("401 X", body)), key="sk-1234")
    assert str(found) == "401 Incorrect API key: [redacted]"


@pytest.mark.parametrize("key", ["k", "none", "ollama"])
def test_a_placeholder_instead_of_a_key_stays_in_messages(key: str) -> None:
    body = json.dumps({"error": {"message": "broken: ollama has none of the models"}}).encode()
    found = failure(answering(with_length("404 X", body)), key=key)
    assert str(found) == "404 broken: ollama has none of the models"


def test_a_key_is_not_removed_from_within_a_word() -> None:
    body = json.dumps({"error": {"message": "gpt-4o-mini-2 and gpt-4o-mini-2024"}}).encode()
    found = failure(answering(with_length("404 X", body)), key="mini-2")
    assert str(found) == "404 gpt-4o-[redacted] and gpt-4o-mini-2024"


def test_the_text_of_an_html_error_page_is_the_message() -> None:
    page = b"<html><style>b{}</style><body><h1>Bad  Gateway</h1></body></html>"
    assert str(failure(answering(with_length("502 Bad Gateway", page)))) == "502 Bad Gateway"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("retry-after: 7", 7.0),
        ("Retry-After: 0.5", 0.5),
        ("retry-after-ms: 250", 0.25),
        ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("retry-after: 1e99", 86_400.0),
        ("retry-after: soon", None),
        ("retry-after: -1", None),
        ("x: y", None),
    ],
)
def test_retry_after_is_passed_on(header: str, seconds: float | None) -> None:
    assert failure(answering(with_length("429 X", b"{}", header))).retry_after == seconds


def test_a_huge_error_page_is_read_only_in_part() -> None:
    head = b"HTTP/1.1 500 X\r\ncontent-length: 999999999999\r\n\r\n"
    found = failure(answering(head, *[b"x" * 65_536] * 4))
    assert found.kind == "server"
    assert len(str(found)) < 1_000


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Rate limit reached", "type": "rate_limit_error"}, "rate_limit"),
        ({"message": "upstream died", "code": 502}, "server"),
        ({"message": "slow down", "code": "429"}, "rate_limit"),
        ({"message": "maximum context length exceeded"}, "context"),
        ({"message": "insufficient credits"}, "billing"),
        ({"message": "invalid api key"}, "auth"),
        ({"message": "request timed out"}, "timeout"),
        ("something odd", "server"),
        ({"weird": True}, "server"),
    ],
)
def test_an_error_inside_a_stream_is_raised_after_what_came_before_it(error: Any, kind: str) -> None:
    async def play(client: CompletionsClient) -> tuple[list[Delta], ModelFailureError]:
        deltas: list[Delta] = []
        with pytest.raises(ModelFailureError) as caught:
            async for delta in client.ask(request()):
                deltas.append(delta)
        return deltas, caught.value

    deltas, found = against(answering(STREAM_HEAD + sse(choice(content="Hel"), {"error": error}, b"[DONE]")), play)
    assert deltas == [TextDelta("Hel")]
    assert found.kind == kind


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n" + HELLO,
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + HELLO,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n" + HELLO,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 200_000 + b"\r\n\r\n",
        STREAM_HEAD,
        STREAM_HEAD + b"data: [DONE]\n\n",
        STREAM_HEAD + b"<html>hello</html>",
        STREAM_HEAD + sse(b"{broken"),
        STREAM_HEAD + sse([1, 2]),
        STREAM_HEAD + sse(b"[" * 100_000),
        STREAM_HEAD + sse(choice(content="Hel")),
        STREAM_HEAD + sse(choice(tool_calls=[{"index": 10**9, "function": {"name": "x"}}])),
        with_length("200 OK", b"not json", "content-type: application/json"),
    ],
)
def test_an_invalid_answer_is_malformed(answer: bytes) -> None:
    assert failure(answering(answer)).kind == "malformed"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
        b"HTTP/1.1 200 OK\r\ncontent-t",
        with_length("200 OK", sse(choice(content="Hel")) + b"xxxxx")[:-5],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(sse(choice(content="Hel")), 9)[:-20],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(sse(choice(content="Hel")), 9)[:-40],
    ],
    ids=["at-once", "no-http", "interim-only", "head", "length", "trailer", "chunk"],
)
def test_an_interrupted_answer_is_a_network_failure(answer: bytes) -> None:
    assert failure(answering(answer)).kind == "network"


def test_a_connection_closed_after_the_finish_reason_is_a_complete_answer() -> None:
    answer = with_length("200 OK", HELLO.replace(b"data: [DONE]\n\n", b"") + b"xxxx")[:-4]
    assert against(answering(answer), collect) == HELLO_DELTAS


def test_an_endless_answer_is_malformed() -> None:
    piece = sse(choice(content="x" * 60_000))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        writer.write(STREAM_HEAD)
        while True:
            writer.write(piece)
            await writer.drain()

    async def play(client: CompletionsClient) -> int:
        stream = client.ask(request())
        with pytest.raises(ModelFailureError, match="more than 64 MB"):
            async for _ in stream:
                pass
        return stream.response_bytes

    assert against(serve, play) < MAX_RESPONSE_BYTES + 1_000_000


def test_a_refused_connection_is_a_network_failure() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(ModelFailureError) as caught:
        asyncio.run(collect(client_of(f"http://127.0.0.1:{port}", timeout=5)))
    assert caught.value.kind == "network"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_an_unknown_host_is_a_network_failure(host: str) -> None:
    with pytest.raises(ModelFailureError) as caught:
        asyncio.run(collect(client_of(f"http://{host}/v1", timeout=20)))
    assert caught.value.kind == "network"


def test_a_reset_connection_is_a_network_failure() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        writer.write(STREAM_HEAD + sse(choice(content="Hel")))
        await writer.drain()
        # Closing with unread bytes and no patience sends a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    assert failure(serve).kind == "network"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new key with a certificate for `localhost`, and the certificate of who issued it."""
    issuer = trustme.CA()
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    file.write_bytes(issuer.issue_cert("localhost").private_key_and_cert_chain_pem.bytes() + issuer.cert_pem.bytes())
    return file


def over_tls(certificate: Path, settings: RequestSettings | None = None, host: str = "localhost") -> list[Delta]:
    """Return the answer of a server with a certificate of its own, which is for `localhost`."""

    async def main() -> list[Delta]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await answering(STREAM_HEAD + HELLO)(reader, writer)
            writer.close()

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        try:
            return await collect(client_of(f"https://{host}:{port}/v1", "key", 20, settings))
        finally:
            server.close()

    return asyncio.run(main())


def test_https_is_used_and_unknown_certificates_are_rejected(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFailureError, match="certificate") as caught:
        over_tls(certificate)
    assert caught.value.kind == "network"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert over_tls(certificate) == HELLO_DELTAS


@pytest.mark.parametrize(
    "tls",
    [
        lambda file: TlsSettings(ca=str(file)),
        lambda file: TlsSettings(ca=file.read_text()),
        lambda _: TlsSettings(insecure_skip_verify=True),
        lambda file: TlsSettings(ca=str(file), cert=str(file), key=file.read_text()),
    ],
    ids=["file", "text", "insecure", "client"],
)
def test_the_tls_settings_of_a_provider_are_used(certificate: Path, tls: Callable[[Path], TlsSettings]) -> None:
    assert over_tls(certificate, RequestSettings(tls=tls(certificate))) == HELLO_DELTAS


def test_the_server_name_of_a_provider_is_the_one_that_its_certificate_must_have(certificate: Path) -> None:
    trusted = TlsSettings(ca=str(certificate))
    with pytest.raises(ModelFailureError, match="certificate"):
        over_tls(certificate, RequestSettings(tls=msgspec.structs.replace(trusted, server_name="elsewhere.test")))
    named = msgspec.structs.replace(trusted, server_name="localhost")
    assert over_tls(certificate, RequestSettings(tls=named), host="127.0.0.1") == HELLO_DELTAS


def test_tls_settings_that_cannot_be_used_are_rejected_with_the_key_to_correct(certificate: Path) -> None:
    with pytest.raises(ModelFailureError, match="TLS settings") as caught:
        over_tls(certificate, RequestSettings(tls=TlsSettings(ca="/nowhere/ca.pem")))
    assert caught.value.kind == "rejected"


def test_requests_go_through_the_configured_proxy() -> None:
    seen = Seen()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, seen)
        writer.write(STREAM_HEAD + HELLO)

    async def play(client: CompletionsClient) -> list[Delta]:
        explicit = ProxySettings(mode="explicit-proxy", url=client._provider.base_url.removesuffix("/v1"))
        return await collect(client_of("http://models.test/v1", "key", 20, RequestSettings(proxy=explicit)))

    assert against(proxy, play) == HELLO_DELTAS
    assert seen.heads[0].startswith("POST http://models.test/v1/chat/completions HTTP/1.1\r\n")


def test_proxies_of_the_environment_are_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, seen)
        writer.write(STREAM_HEAD + HELLO)

    async def play(client: CompletionsClient) -> None:
        monkeypatch.setenv("HTTP_PROXY", client._provider.base_url.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert await collect(client) == HELLO_DELTAS
        assert await collect(client_of("http://models.test/v1", "key", 20)) == HELLO_DELTAS

    against(serve, play)
    assert [head.split()[1] for head in seen.heads] == [
        "/v1/chat/completions",
        "http://models.test/v1/chat/completions",
    ]


def test_connections_are_kept_alive_between_requests() -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            await take_request(reader, Seen())
            connections[-1] += 1
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(HELLO, 50))

    async def play(client: CompletionsClient) -> None:
        for _ in range(3):
            assert await collect(client) == HELLO_DELTAS

    against(serve, play)
    assert connections == [3]


def test_a_server_that_does_not_end_its_response_does_not_delay_the_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(HELLO, 1000)[:-16])
        await reader.read()  # until the client hangs up

    assert against(serve, collect) == HELLO_DELTAS


def test_a_user_name_in_the_url_does_not_replace_the_key() -> None:
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, seen)
        writer.write(STREAM_HEAD + HELLO)

    async def play(client: CompletionsClient) -> None:
        await collect(client_of(client._provider.base_url.replace("//", "//user:pw@"), "key"))

    against(serve, play)
    assert "authorization: bearer key" in seen.heads[0].lower()


@pytest.mark.parametrize("url", ["ftp://x/v1", "nonsense", "http:///v1", "http://x y/v1", "http://x:port/v1", ""])
def test_an_invalid_url_is_rejected_with_a_message(url: str) -> None:
    with pytest.raises(ModelFailureError) as caught:
        asyncio.run(collect(client_of(url, timeout=5)))
    assert caught.value.kind == "rejected"


def test_a_key_cannot_smuggle_in_another_header() -> None:
    assert failure(answering(STREAM_HEAD + HELLO), key="a\r\nx-evil: 1").kind == "rejected"


@pytest.mark.parametrize("sent", [b"", STREAM_HEAD, STREAM_HEAD + sse(choice(content="Hel"))])
def test_a_request_as_a_whole_has_a_time_limit(sent: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader, Seen())
        writer.write(sent)
        await reader.read()  # until the client hangs up

    assert failure(serve, timeout=0.2).kind == "timeout"


def test_connecting_has_the_time_limit_of_the_provider() -> None:
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        # Nobody accepts connections, and these two fill the queue: the next one is not answered.
        for _ in range(2):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        with pytest.raises(ModelFailureError) as caught:
            asyncio.run(collect(client_of(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.2)))
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("sent", [b"", STREAM_HEAD + sse(choice(content="Hel"))])
def test_cancelling_closes_the_connection(sent: bytes) -> None:
    async def main() -> None:
        seen = Seen()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await take_request(reader, seen)
            writer.write(sent)
            with pytest.raises(ConnectionError):
                while await reader.read(1):
                    pass
                raise ConnectionError
            seen.hung_up.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = client_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        task = asyncio.ensure_future(collect(client))
        while not seen.bodies:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(seen.hung_up.wait(), 10)
        server.close()

    asyncio.run(main())


def test_the_response_of_a_server_that_refuses_early_is_read() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(with_length("413 X", b'{"error":{"message":"too much"}}'))
        await writer.drain()
        while await reader.read(65_536):
            pass

    async def play(client: CompletionsClient) -> ModelFailureError:
        wanted = request([UserMessage(content=[Text("x" * 4_000_000)], timestamp=1)])
        with pytest.raises(ModelFailureError) as caught:
            await collect(client, wanted)
        return caught.value

    assert against(serve, play).kind == "context"


def test_many_requests_at_a_time_do_not_mix() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = Seen()
        await take_request(reader, seen)
        text = seen.bodies[0]["messages"][-1]["content"][0]["text"]
        writer.write(STREAM_HEAD)
        for letter in text:
            writer.write(sse(choice(content=letter)))
            await asyncio.sleep(0)
        writer.write(sse(choice("stop"), b"[DONE]"))

    async def ask(client: CompletionsClient, text: str) -> str:
        deltas = await collect(client, request([UserMessage(content=[Text(text)], timestamp=1)]))
        return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))

    async def play(client: CompletionsClient) -> None:
        questions = [f"question {number}" for number in range(50)]
        assert await asyncio.gather(*(ask(client, text) for text in questions)) == questions

    against(serve, play)


def answer(*content: Text | ToolCall, stop_reason: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(
        content=list(content), provider="lab", model="m", usage=Usage(), stop_reason=stop_reason, timestamp=1
    )


def result(call_id: str, *content: Text | Image) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=list(content), timestamp=1)


def test_a_conversation_takes_the_shape_of_the_api() -> None:
    call = ToolCall(id="a", name="read", arguments={"path": "x"})
    function = {"name": "read", "arguments": '{"path":"x"}'}
    assert convert_messages(
        [*QUESTION, answer(Text("I look."), call), result("a", Text("found")), answer(Text("Done."))]
    ) == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "a", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "found", "tool_call_id": "a"},
        {"role": "assistant", "content": "Done."},
    ]


def test_images_of_tool_results_follow_in_a_user_message() -> None:
    call = ToolCall(id="a", name="read")
    converted = convert_messages([answer(call), result("a", Image("image/png", "AAAA"), Image("image/gif"))])
    assert [message["role"] for message in converted] == ["assistant", "tool", "user"]
    assert converted[2]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_an_interrupted_call_is_left_out_and_one_without_a_result_gets_one() -> None:
    lost = ToolCall(id="a", name="exec")
    assert convert_messages([answer(Text("I was"), lost, stop_reason="aborted")]) == [
        {"role": "assistant", "content": "I was"}
    ]
    assert convert_messages([answer(stop_reason="error")]) == []
    assert convert_messages([answer(lost), *QUESTION])[1] == {"role": "tool", "content": NO_RESULT, "tool_call_id": "a"}


MESSAGES = st.lists(
    st.sampled_from([UserMessage(content=[Text("q")], timestamp=1), result("a"), result("b"), result("c", Text("x"))])
    | st.builds(
        lambda calls, text, reason: answer(
            *([Text(text)] if text else []), *(ToolCall(id=one, name="read") for one in calls), stop_reason=reason
        ),
        st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        st.sampled_from(["", "words"]),
        st.sampled_from(["stop", "toolUse", "aborted", "error"]),
    ),
    max_size=10,
)


@given(MESSAGES)
def test_whatever_happened_every_call_has_its_result_after_it_and_no_result_is_alone(messages: list[Message]) -> None:
    converted = convert_messages(messages)
    open_calls: list[str] = []
    for message in converted:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        assert message["content"] or open_calls
    assert not open_calls
    questions = [message for message in messages if isinstance(message, UserMessage)]
    assert sum(message["role"] == "user" for message in converted) == len(questions)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"", "network"),
        (STREAM_HEAD + sse(choice(content="Hel")), "malformed"),
        (STREAM_HEAD + sse(b"{broken"), "malformed"),
        (b"HTTP/2 200 OK\r\n\r\n", "malformed"),
        (STREAM_HEAD + sse({"error": {"message": "oops", "code": 502}}), "server"),
        (with_length("401 X", b"{}"), "auth"),
        (with_length("402 X", b"{}"), "billing"),
        (with_length("404 X", b"{}"), "rejected"),
        (with_length("413 X", b"{}"), "context"),
        (with_length("429 X", b"{}"), "rate_limit"),
        (with_length("500 X", b"{}"), "server"),
    ],
)
def test_the_diagnosis_classifies_failures_alike(answer: bytes, cause: str) -> None:
    found = failure(answering(answer))
    assert (
        provider_failure_cause(ModelCall(order=1, event_id="e", failed=True, error=str(found), category=found.kind))
        == cause
    )


@pytest.mark.parametrize(("url", "cause"), [("http://no-such-host.invalid", "network"), ("ftp://x", "rejected")])
def test_the_diagnosis_classifies_an_unreachable_provider_alike(url: str, cause: str) -> None:
    with pytest.raises(ModelFailureError) as caught:
        asyncio.run(collect(client_of(url, timeout=20)))
    call = ModelCall(order=1, event_id="e", failed=True, error=str(caught.value), category=caught.value.kind)
    assert provider_failure_cause(call) == cause


def test_httpx2_is_imported_with_the_first_request_only() -> None:
    check = "import critiqor.cli.verbs.agent, critiqor.agentloop.entry.server, sys; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
