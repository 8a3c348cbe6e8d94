"""A small HTTP/1.1 client over asyncio streams: one POST a connection, and its answer as it comes.

There is no pool, no redirect and no compression: a model is asked seldom, and an answer that is read as it comes must
not wait in a buffer. A server is not trusted: lines, headers and chunks have bounds, and whoever reads the body decides
how much of it is enough. Closing hangs up at once.
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
_HUNG_UP = "the server hung up before its answer was complete"
_CHUNK_SIZE = re.compile(rb"\s*([0-9A-Fa-f]{1,15})\s*(?:;.*)?\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: .*)?\r?\n")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*\r?\n")


class HttpError(Exception):
    """A request could not be made or answered."""


class ConnectionFailedError(HttpError):
    """Nobody there, or whoever was there went away."""


class BrokenResponseError(HttpError):
    """What came is not HTTP."""


class Address(NamedTuple):
    """Where a request goes."""

    host: str
    port: int
    is_secure: bool
    target: str
    """Path and query."""
    authority: str
    """What the `Host` header says."""


def parse_url(url: str) -> Address:
    """The parts of an http or https address; raises `ValueError` for anything else."""
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("it has white space or control characters in it")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it must begin with http:// or https:// and name a host")
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname, port, is_secure, target, parts.netloc.rpartition("@")[2])


class Response:
    """An answer whose body is still on its way."""

    def __init__(self, status: int, headers: dict[str, str], body: _Body, writer: asyncio.StreamWriter) -> None:
        self.status = status
        self.headers = headers
        """Names in lower case; a name that came twice has its values joined by commas."""
        self._body = body
        self._writer = writer

    async def read(self) -> bytes:
        """The next piece of the body, as soon as there is one; empty at its end."""
        try:
            return await self._body.read()
        except OSError as error:
            raise ConnectionFailedError(_words(error)) from error

    def close(self) -> None:
        """Hang up. Nothing is waited for."""
        _hang_up(self._writer)


async def post(address: Address, headers: Mapping[str, str], body: bytes) -> Response:
    """Send a request and wait for the head of the answer; cancelling hangs up. `ValueError` for impossible headers."""
    head = _head(address, headers, len(body))
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=_tls() if address.is_secure else None, limit=MAX_LINE_BYTES
            )
    except (OSError, UnicodeError) as error:
        # A host that no name server can be asked for fails as a broken text.
        raise ConnectionFailedError(_words(error) or f"no connection within {CONNECT_TIMEOUT_S:g} seconds") from error
    try:
        writer.write(head + body)
        # A server that refuses early may not read all of the request: its answer counts, not the broken pipe.
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        status, received = await _read_head(reader)
        return Response(status, received, _body_of(status, received, reader), writer)
    except OSError as error:
        _hang_up(writer)
        raise ConnectionFailedError(_words(error)) from error
    except BaseException:
        _hang_up(writer)
        raise


@cache
def _tls() -> ssl.SSLContext:
    # Reading the authorities of a system takes many milliseconds.
    return ssl.create_default_context()


def _head(address: Address, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"POST {address.target} HTTP/1.1", f"host: {address.authority}", f"content-length: {length}"]
    for name, value in headers.items():
        if re.search(r"[\x00-\x1f\x7f]", name + value):
            raise ValueError(f"the header {name} has control characters in it")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("utf-8")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    for _ in range(MAX_INTERIM_RESPONSES):
        line = await _line(reader)
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise BrokenResponseError("the server does not speak HTTP/1.1")
        headers = await _read_headers(reader)
        # 1xx only says that the answer is still to come.
        if not found[1].startswith(b"1"):
            return int(found[1]), headers
    raise BrokenResponseError("the server announces answers and gives none")


async def _read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = await _line(reader)
        if line in (b"\r\n", b"\n"):
            return headers
        found = _HEADER.fullmatch(line)
        if found is None:
            raise BrokenResponseError("the server sent a header that is none")
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise BrokenResponseError(f"the server sent more than {MAX_HEADERS} headers")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readline()
    except ValueError as error:
        raise BrokenResponseError(f"the server sent a line of more than {MAX_LINE_BYTES} bytes") from error
    if not line.endswith(b"\n"):
        raise ConnectionFailedError(_HUNG_UP)
    return line


class _Body:
    """A body that ends when the server hangs up."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)


class _SizedBody(_Body):
    """A body whose length was told."""

    def __init__(self, reader: asyncio.StreamReader, length: int) -> None:
        super().__init__(reader)
        self._left = length

    async def read(self) -> bytes:
        if self._left == 0:
            return b""
        data = await self._reader.read(min(self._left, _READ_BYTES))
        if not data:
            raise ConnectionFailedError(_HUNG_UP)
        self._left -= len(data)
        return data


class _ChunkedBody(_Body):
    """A body in chunks, each with its length before it, and an empty one at the end."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._chunk: _SizedBody | None = None
        self._ended = False

    async def read(self) -> bytes:
        while not self._ended:
            if self._chunk is None:
                await self._begin_chunk()
                continue
            data = await self._chunk.read()
            if data:
                return data
            self._chunk = None
            if await _line(self._reader) not in (b"\r\n", b"\n"):
                raise BrokenResponseError("the server sent a chunk of another length than it said")
        return b""

    async def _begin_chunk(self) -> None:
        found = _CHUNK_SIZE.fullmatch(await _line(self._reader))
        if found is None:
            raise BrokenResponseError("the server sent a chunk without a length")
        size = int(found[1], 16)
        if size:
            self._chunk = _SizedBody(self._reader, size)
            return
        await _read_headers(self._reader)
        self._ended = True


def _body_of(status: int, headers: Mapping[str, str], reader: asyncio.StreamReader) -> _Body:
    if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise BrokenResponseError("the server compressed its answer without being asked to")
    if status in (204, 304):
        return _SizedBody(reader, 0)
    transfer = headers.get("transfer-encoding", "").lower()
    if transfer:
        if transfer.split(",")[-1].strip() != "chunked":
            raise BrokenResponseError("the server encodes its answer in a way that it was not asked to")
        return _ChunkedBody(reader)
    length = headers.get("content-length")
    if length is None:
        return _Body(reader)
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise BrokenResponseError("the server sent a length that is none")
    return _SizedBody(reader, int(length))


def _hang_up(writer: asyncio.StreamWriter) -> None:
    # Not a polite close: what is still to be said is of no interest, and TLS would wait for it.
    writer.transport.abort()


def _words(error: Exception) -> str:
    return str(error)[:300]
