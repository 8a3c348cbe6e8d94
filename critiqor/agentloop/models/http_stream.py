"""A small HTTP/1.1 client over asyncio streams: one POST per connection, with a streamed response body.

It has no connection pool and supports neither redirects nor compression: requests are rare, and a streamed answer must
not wait in a buffer. The server is not trusted: lines, headers and chunks are bounded, and the caller decides how much
of the body it reads. Closing aborts the connection at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

MAX_LINE_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_INTERIM_RESPONSES = 8
CONNECT_TIMEOUT_S = 30.0
_READ_BYTES = 64 * 1024
_CONNECTION_CLOSED = "the server closed the connection before its response was complete"
_CHUNK_SIZE = re.compile(rb"\s*([0-9A-Fa-f]{1,15})\s*(?:;.*)?\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: .*)?\r?\n")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*\r?\n")


class HttpError(Exception):
    """A request could not be sent or got no valid response."""


class ConnectionFailedError(HttpError):
    """The connection could not be opened, or was lost."""


class BrokenResponseError(HttpError):
    """The response is not valid HTTP."""


class Address(NamedTuple):
    """Destination of a request."""

    host: str
    port: int
    is_secure: bool
    target: str
    """Path and query."""
    authority: str
    """Value of the `Host` header."""


def parse_url(url: str) -> Address:
    """Split an http or https URL; raises `ValueError` for any other."""
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("the URL contains whitespace or control characters")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the URL must start with http:// or https:// and name a host")
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname, port, is_secure, target, parts.netloc.rpartition("@")[2])


class Response:
    """A response whose body has not been read yet."""

    def __init__(self, status: int, headers: dict[str, str], body: _Body, writer: asyncio.StreamWriter) -> None:
        self.status = status
        self.headers = headers
        """Names in lower case; the values of a repeated name are joined by commas."""
        self._body = body
        self._writer = writer

    async def read(self) -> bytes:
        """Return the next part of the body as soon as it arrives; empty at its end."""
        try:
            return await self._body.read()
        except OSError as error:
            raise ConnectionFailedError(_short_text(error)) from error

    def close(self) -> None:
        """Abort the connection."""
        _abort(self._writer)


async def post(address: Address, headers: Mapping[str, str], body: bytes) -> Response:
    """Send a request and return its response once the headers have arrived.

    Cancelling aborts the connection. Raises `ValueError` for headers that cannot be sent.
    """
    head = _head(address, headers, len(body))
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=_tls() if address.is_secure else None, limit=MAX_LINE_BYTES
            )
    except (OSError, UnicodeError) as error:
        # A host name that is invalid for the name server raises UnicodeError.
        raise ConnectionFailedError(
            _short_text(error) or f"no connection within {CONNECT_TIMEOUT_S:g} seconds"
        ) from error
    try:
        writer.write(head + body)
        # A server may reject a request before it has read all of it: its response is used, not the broken pipe error.
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        status, received = await _read_head(reader)
        return Response(status, received, _choose_body(status, received, reader), writer)
    except OSError as error:
        _abort(writer)
        raise ConnectionFailedError(_short_text(error)) from error
    except BaseException:
        _abort(writer)
        raise


@cache
def _tls() -> ssl.SSLContext:
    # Cached because loading the certificate authorities takes many milliseconds.
    return ssl.create_default_context()


def _head(address: Address, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"POST {address.target} HTTP/1.1", f"host: {address.authority}", f"content-length: {length}"]
    for name, value in headers.items():
        if re.search(r"[\x00-\x1f\x7f]", name + value):
            raise ValueError(f"the header {name} contains control characters")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("utf-8")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    for _ in range(MAX_INTERIM_RESPONSES):
        line = await _read_line(reader)
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise BrokenResponseError("the server does not speak HTTP/1.1")
        headers = await _read_headers(reader)
        # 1xx is an interim response.
        if not found[1].startswith(b"1"):
            return int(found[1]), headers
    raise BrokenResponseError("the server sent only interim responses")


async def _read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = await _read_line(reader)
        if line in (b"\r\n", b"\n"):
            return headers
        found = _HEADER.fullmatch(line)
        if found is None:
            raise BrokenResponseError("the server sent an invalid header")
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise BrokenResponseError(f"the server sent more than {MAX_HEADERS} headers")


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readline()
    except ValueError as error:
        raise BrokenResponseError(f"the server sent a line of more than {MAX_LINE_BYTES} bytes") from error
    if not line.endswith(b"\n"):
        raise ConnectionFailedError(_CONNECTION_CLOSED)
    return line


class _Body:
    """A body that ends when the server closes the connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)


class _SizedBody(_Body):
    """A body with a Content-Length."""

    def __init__(self, reader: asyncio.StreamReader, length: int) -> None:
        super().__init__(reader)
        self._left = length

    async def read(self) -> bytes:
        if self._left == 0:
            return b""
        data = await self._reader.read(min(self._left, _READ_BYTES))
        if not data:
            raise ConnectionFailedError(_CONNECTION_CLOSED)
        self._left -= len(data)
        return data


class _ChunkedBody(_Body):
    """A body with chunked transfer encoding."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._chunk: _SizedBody | None = None
        self._is_complete = False

    async def read(self) -> bytes:
        while not self._is_complete:
            if self._chunk is None:
                await self._begin_chunk()
                continue
            data = await self._chunk.read()
            if data:
                return data
            self._chunk = None
            if await _read_line(self._reader) not in (b"\r\n", b"\n"):
                raise BrokenResponseError("the server sent a chunk that does not match its length")
        return b""

    async def _begin_chunk(self) -> None:
        found = _CHUNK_SIZE.fullmatch(await _read_line(self._reader))
        if found is None:
            raise BrokenResponseError("the server sent a chunk without a length")
        size = int(found[1], 16)
        if size:
            self._chunk = _SizedBody(self._reader, size)
            return
        await _read_headers(self._reader)
        self._is_complete = True


def _choose_body(status: int, headers: Mapping[str, str], reader: asyncio.StreamReader) -> _Body:
    if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise BrokenResponseError("the server compressed its response although the request does not allow it")
    if status in (204, 304):
        return _SizedBody(reader, 0)
    transfer = headers.get("transfer-encoding", "").lower()
    if transfer:
        if transfer.split(",")[-1].strip() != "chunked":
            raise BrokenResponseError("the server used an unknown transfer encoding")
        return _ChunkedBody(reader)
    length = headers.get("content-length")
    if length is None:
        return _Body(reader)
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise BrokenResponseError("the server sent an invalid Content-Length")
    return _SizedBody(reader, int(length))


def _abort(writer: asyncio.StreamWriter) -> None:
    # Not an orderly close: the rest of the response is not needed, and TLS would wait for it.
    writer.transport.abort()


def _short_text(error: Exception) -> str:
    return str(error)[:300]
