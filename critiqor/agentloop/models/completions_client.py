"""Client for OpenAI-compatible endpoints: streamed chat completions with tools, over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import NoReturn

from critiqor import __version__
from critiqor.agentloop.models.completion_chunks import ChunkReader
from critiqor.agentloop.models.completion_requests import request_body
from critiqor.agentloop.models.http_stream import (
    BrokenResponseError,
    ConnectionFailedError,
    Response,
    parse_url,
    post,
)
from critiqor.agentloop.models.model_client import Delta, ModelFailureError, ModelRequest
from critiqor.agentloop.models.provider_errors import failure_of_response, malformed
from critiqor.agentloop.models.sse import EventParser, EventTooLargeError, WholeBody
from critiqor.agentloop.settings import Provider

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
MIN_KEY_LENGTH = 6
"""Characters of a key that is removed from messages; without a digit it must be twice as long."""


class CompletionsClient:
    """Client for the models at `base_url`. `timeout_seconds` limits a request from connecting to the last byte."""

    def __init__(self, base_url: str, api_key: str | None, timeout_seconds: float | None) -> None:
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._key = (api_key or "").strip()
        self._timeout = timeout_seconds

    def ask(self, request: ModelRequest) -> _CompletionStream:
        """Return the answer to a request, which is sent when iteration starts."""
        return _CompletionStream(self._url, self._key, request_body(request), self._timeout)


def create_completions_client(provider: Provider, key: str | None) -> CompletionsClient:
    """Return the client of a provider, which is assumed to be OpenAI-compatible."""
    return CompletionsClient(provider.base_url, key, provider.timeout_seconds)


class _CompletionStream:
    """Asynchronous iterator over the deltas of one answer. Cancelling it closes the connection."""

    def __init__(self, url: str, key: str, body: bytes, timeout: float | None) -> None:
        self.request_bytes = len(body)
        self.response_bytes = 0
        self._url = url
        self._key = key
        self._body = body
        self._timeout = timeout
        self._deadline: float | None = None
        self._response: Response | None = None
        self._events: EventParser | WholeBody = EventParser()
        self._chunks = ChunkReader()
        self._ready: deque[Delta] = deque()
        self._failure: ModelFailureError | None = None
        self._is_closed = False

    def __aiter__(self) -> _CompletionStream:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise StopAsyncIteration
            await self._advance()
        return self._ready.popleft()

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if self._response is not None:
            self._response.close()

    async def _advance(self) -> None:
        """Wait for more deltas. A failure is raised only after the deltas that arrived before it have been consumed."""
        if self._deadline is None and self._timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(self._deadline):
                if self._response is None:
                    await self._send()
                else:
                    await self._receive(self._response)
        except TimeoutError:
            self._fail(
                ModelFailureError(
                    f"the request timed out: no complete answer within {self._timeout:g} seconds", "timeout"
                )
            )
        except ModelFailureError as failure:
            self._fail(failure)
        except ConnectionFailedError as error:
            self._fail(ModelFailureError(f"the connection to the model failed: {error}", "network"))
        except BrokenResponseError as error:
            self._fail(malformed(str(error)))
        except BaseException:
            self.close()
            raise

    def _fail(self, failure: ModelFailureError) -> None:
        self._failure = failure
        self.close()

    async def _send(self) -> None:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": f"critiqor/{__version__}",
        }
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        try:
            self._response = await post(parse_url(self._url), headers, self._body)
        except ValueError as error:
            text = f"invalid request: cannot send a request to {self._url!r}: {error}"
            raise ModelFailureError(text, "rejected") from error
        if self._response.status != 200:
            await self._raise_refusal(self._response)
        if "json" in self._response.headers.get("content-type", ""):
            self._events = WholeBody()

    async def _raise_refusal(self, response: Response) -> NoReturn:
        body = b""
        try:
            while len(body) < MAX_ERROR_BYTES and (data := await response.read()):
                self.response_bytes += len(data)
                body += data
        except (ConnectionFailedError, BrokenResponseError):
            pass  # the status is enough
        failure = failure_of_response(response.status, response.headers, body[:MAX_ERROR_BYTES])
        text = _without_key(str(failure), self._key)
        if text != str(failure):
            raise ModelFailureError(text, failure.kind, failure.status, failure.retry_after)
        raise failure

    async def _receive(self, response: Response) -> None:
        try:
            data = await response.read()
        except (ConnectionFailedError, BrokenResponseError):
            if not self._chunks.is_finished:
                raise
            data = b""  # the answer is complete, only the end of the stream is missing
        self.response_bytes += len(data)
        if self.response_bytes > MAX_RESPONSE_BYTES:
            raise malformed(f"it has more than {MAX_RESPONSE_BYTES // 2**20} MB")
        try:
            events = self._events.feed(data) if data else self._events.finish()
        except EventTooLargeError as error:
            raise malformed("it contains a line that is too long") from error
        for event in events:
            self._ready += self._chunks.read(event)
        if not data or self._chunks.done:
            self._ready += self._chunks.finish()
            self.close()


def _without_key(text: str, key: str) -> str:
    """Return the message of a server without the key that it rejects and quotes.

    Local servers take any key, often a letter or a word: those are left alone, because they occur in any message.
    """
    if len(key) < MIN_KEY_LENGTH or not (any(map(str.isdigit, key)) or len(key) >= 2 * MIN_KEY_LENGTH):
        return text
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(key)}(?![A-Za-z0-9])", "[redacted]", text)
