"""Client for OpenAI-compatible endpoints: streamed chat completions with tools, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from critiqor import __version__
from critiqor.agentloop.models.completion_chunks import ChunkReader
from critiqor.agentloop.models.completion_requests import request_body
from critiqor.agentloop.models.model_client import Delta, ModelFailureError, ModelRequest
from critiqor.agentloop.models.provider_errors import failure_of_response
from critiqor.agentloop.settings import Provider

if TYPE_CHECKING:
    from critiqor.agentloop.models.http_client import HttpClients, HttpResponse

MAX_ERROR_BYTES = 64 * 1024
RELEASE_SECONDS = 0.1
"""How long to wait for the end of a response after its last event."""
MIN_KEY_LENGTH = 6
"""Characters of a key that is removed from messages; without a digit it must be twice as long."""


class CompletionsClients:
    """Creates the clients of model providers, which are assumed to be OpenAI-compatible and share their connections."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._http: HttpClients | None = None

    def __call__(self, provider: Provider, key: str | None) -> CompletionsClient:
        return CompletionsClient(self, provider, key)

    async def http(self) -> HttpClients:
        """Return the HTTP clients of all providers. The first call imports httpx2 in a thread, as it takes long."""
        if self._http is None:
            module = await asyncio.to_thread(importlib.import_module, "critiqor.agentloop.models.http_client")
            self._http = self._http or module.HttpClients(self._environment)
        return self._http

    async def close(self) -> None:
        """Close the connections to all providers."""
        if self._http is not None:
            await self._http.close()


class CompletionsClient:
    """Client for the models of one provider, whose `timeoutSeconds` limits a request from connecting to the end."""

    def __init__(self, clients: CompletionsClients, provider: Provider, key: str | None) -> None:
        self._clients = clients
        self._provider = provider
        self._key = (key or "").strip()

    def ask(self, request: ModelRequest) -> _CompletionStream:
        """Return the answer to a request, which is sent when iteration starts."""
        return _CompletionStream(self._clients, self._provider, self._key, request_body(request))


class _CompletionStream:
    """Asynchronous iterator over the deltas of one answer. Cancelling it closes the connection."""

    def __init__(self, clients: CompletionsClients, provider: Provider, key: str, body: bytes) -> None:
        self.request_bytes = len(body)
        self.response_bytes = 0
        self._clients = clients
        self._provider = provider
        self._key = key
        self._body = body
        self._deadline: float | None = None
        self._response: HttpResponse | None = None
        self._events: AsyncIterator[bytes] | None = None
        self._chunks = ChunkReader()
        self._ready: deque[Delta] = deque()
        self._failure: ModelFailureError | None = None
        self._is_complete = False

    def __aiter__(self) -> _CompletionStream:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self._failure is not None:
                raise self._failure
            if self._is_complete:
                await self._release()
                raise StopAsyncIteration
            await self._advance()
        return self._ready.popleft()

    async def _advance(self) -> None:
        """Wait for more deltas. A failure is raised only after the deltas that arrived before it have been consumed."""
        timeout = self._provider.timeout_seconds
        if self._deadline is None and timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(self._deadline):
                if self._events is None:
                    self._events = await self._send()
                else:
                    await self._receive(self._events)
        except TimeoutError:
            text = f"the request timed out: no complete answer within {timeout:g} seconds"
            await self._fail(ModelFailureError(text, "timeout"))
        except ModelFailureError as failure:
            await self._fail(failure)
        except BaseException:
            await self._close()
            raise
        finally:
            self.response_bytes = self._response.size if self._response is not None else 0

    async def _fail(self, failure: ModelFailureError) -> None:
        self._failure = failure
        await self._close()

    async def _close(self) -> None:
        if self._response is not None:
            await self._response.close()

    async def _release(self) -> None:
        """Read the end of the response, so that its connection can be used again; close it if the end does not come."""
        if self._response is None or self._events is None:
            return
        with contextlib.suppress(Exception):
            async with asyncio.timeout(RELEASE_SECONDS if self._response.is_kept_alive else 0):
                async for _ in self._events:
                    pass
        await self._close()

    async def _send(self) -> AsyncIterator[bytes]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": f"critiqor/{__version__}",
        }
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        url = f"{self._provider.base_url.rstrip('/')}/chat/completions"
        http = await self._clients.http()
        limit = {} if self._provider.timeout_seconds is None else {"connect_seconds": self._provider.timeout_seconds}
        try:
            self._response = await http.post(url, self._provider.request, headers, self._body, **limit)
        except Exception as error:
            raise _failure_of(error, url) from error
        if self._response.status != 200:
            await self._raise_refusal(self._response)
        return self._response.events()

    async def _raise_refusal(self, response: HttpResponse) -> NoReturn:
        body = b""
        with contextlib.suppress(Exception):  # the status is enough
            async for piece in response.pieces():
                body += piece
                if len(body) >= MAX_ERROR_BYTES:
                    break
        failure = failure_of_response(response.status, response.headers, body[:MAX_ERROR_BYTES])
        text = _without_key(str(failure), self._key)
        if text != str(failure):
            raise ModelFailureError(text, failure.kind, failure.status, failure.retry_after)
        raise failure

    async def _receive(self, events: AsyncIterator[bytes]) -> None:
        data: bytes | None = None
        try:
            data = await anext(events, None)
        except ModelFailureError:
            raise
        except Exception as error:
            # If the answer is complete, only the end of the stream is missing.
            if not self._chunks.is_finished:
                raise _failure_of(error, self._provider.base_url) from error
        if data is not None:
            self._ready += self._chunks.read(data)
        if data is None or self._chunks.done:
            self._ready += self._chunks.finish()
            self._is_complete = True


def _failure_of(error: Exception, url: str) -> ModelFailureError:
    """Return the model failure for an exception while sending a request or receiving its response."""
    from critiqor.agentloop.models.http_client import failure_of_http

    failure = failure_of_http(error)
    if failure is not None:
        return failure
    if isinstance(error, ValueError):  # a URL or a header that cannot be sent
        return ModelFailureError(f"invalid request: cannot send a request to {url!r}: {error}", "rejected")
    return ModelFailureError(f"the connection to the model failed: {str(error)[:300]}", "network")


def _without_key(text: str, key: str) -> str:
    """Return the message of a server without the key that it rejects and quotes.

    Local servers take any key, often a letter or a word: those are left alone, because they occur in any message.
    """
    if len(key) < MIN_KEY_LENGTH or not (any(map(str.isdigit, key)) or len(key) >= 2 * MIN_KEY_LENGTH):
        return text
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(key)}(?![A-Za-z0-9])", "[redacted]", text)
