"""The HTTP application of the receiver: POST /v1/traces, as the OTLP specification describes it.

Requests are bounded in size, in number at a time, and by the size of the spool; one that is too many is refused with
`Retry-After`, and the exporter sends it again. Without a token, only programs of this machine are served: `Host` must
be one of our names (against DNS rebinding), and requests of web pages are refused.
"""

from __future__ import annotations

import asyncio
import hmac
import sqlite3
import time
from collections.abc import Iterable

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from critiqor.exporters.otlp.protobuf import bytes_field, number_field
from critiqor.receiver.requests import MAX_BODY_BYTES, MEDIA_TYPES, Form, RefusedRequestError, split_request, unpack
from critiqor.receiver.spool import MAX_BYTES, Spool

MAX_BYTES_IN_PROGRESS = 64 << 20
"""Maximum size of all bodies that are received at the same time."""
BODY_SECONDS = 30.0
"""Maximum time until the body of a request is complete."""
BUSY_SECONDS, FULL_SECONDS = 1, 30
"""How long an exporter is asked to wait, if too many requests come at once or too many spans wait."""
_COUNT_SECONDS = 1.0
"""How often the size of the spool is looked up; in between, what is added is counted."""


class Figures(msgspec.Struct):
    """What was received since the start."""

    requests: int = 0
    spans: int = 0
    bytes: int = 0
    """Size of the accepted requests, unpacked."""
    rejected: int = 0
    """Spans without valid ids."""
    refused: int = 0
    """Requests that were refused."""


class Receiver:
    """Accepts requests into a spool."""

    def __init__(self, spool: Spool, hosts: Iterable[str], token: str | None, max_bytes: int = MAX_BYTES) -> None:
        """`hosts` are the accepted values of the `Host` header; with a token, any is accepted."""
        self.figures = Figures()
        self._spool = spool
        self._hosts = frozenset(hosts)
        self._token = token
        self._max_bytes = max_bytes
        self._in_progress = 0
        self._lock = asyncio.Lock()
        self._waiting_bytes = 0
        self._counted_at: float | None = None

    async def traces(self, request: Request) -> Response:
        """Accept the spans of one request."""
        form = MEDIA_TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
        body = _Body()
        try:
            self._check_sender(request)
            if form is None:
                raise RefusedRequestError(415, f"the content type must be {' or '.join(MEDIA_TYPES)}")
            async with asyncio.timeout(BODY_SECONDS):
                await self._read(request, body)
            rejected = await self._accept(bytes(body.data), form, request.headers.get("content-encoding", "").lower())
        except TimeoutError:
            return self._refuse(form, 408, f"the request was not complete within {BODY_SECONDS:.0f} seconds")
        except ClientDisconnect:
            return self._refuse(form, 400, "the connection was closed")
        except RefusedRequestError as error:
            return self._refuse(form, error.status, error.message)
        except (sqlite3.Error, OSError) as error:
            return self._refuse(form, 503, f"the spans could not be stored: {error}")
        finally:
            self._in_progress -= body.counted
        return _answer(form, rejected)

    def _check_sender(self, request: Request) -> None:
        if self._token is not None:
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
                raise RefusedRequestError(
                    401, "the header Authorization must be 'Bearer TOKEN', with the token of the receiver"
                )
        elif request.headers.get("host", "").lower() not in self._hosts or "origin" in request.headers:
            raise RefusedRequestError(403, "without a token, only programs of this machine may send spans")

    async def _read(self, request: Request, body: _Body) -> None:
        """Read the body. It is counted at once if its size is known, so that many clients together are bounded."""
        stated = request.headers.get("content-length", "")
        self._count(body, int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 16 else 0)
        async for part in request.stream():
            self._count(body, len(body.data) + len(part) - body.counted)
            body.data += part

    def _count(self, body: _Body, size: int) -> None:
        if size <= 0:
            return
        body.counted += size
        self._in_progress += size
        if body.counted > MAX_BODY_BYTES:
            raise RefusedRequestError(
                413, f"the request has more than {MAX_BODY_BYTES} bytes; send fewer spans at once"
            )
        if self._in_progress > MAX_BYTES_IN_PROGRESS:
            raise RefusedRequestError(429, "too many requests at the same time")

    async def _accept(self, body: bytes, form: Form, encoding: str) -> int:
        """Store the spans of a body. Return how many have no valid ids."""
        # One at a time, in a thread: unpacked bodies in memory are bounded, and connections stay responsive.
        async with self._lock:
            return await asyncio.to_thread(self._store, body, form, encoding)

    def _store(self, body: bytes, form: Form, encoding: str) -> int:
        self._check_space(len(body))
        unpacked = unpack(body, encoding)
        pieces, rejected = split_request(unpacked, form)
        self._spool.add(pieces)
        self._waiting_bytes += sum(len(piece.data) for piece in pieces)
        self.figures.requests += 1
        self.figures.spans += sum(piece.spans for piece in pieces)
        self.figures.bytes += len(unpacked)
        self.figures.rejected += rejected
        return rejected

    def _check_space(self, size: int) -> None:
        now = time.monotonic()
        if self._counted_at is None or now > self._counted_at + _COUNT_SECONDS:
            self._counted_at = now
            self._waiting_bytes = self._spool.waiting().bytes
        if self._waiting_bytes + size > self._max_bytes:
            raise RefusedRequestError(503, "too many spans wait to be imported")

    def _refuse(self, form: Form | None, status: int, message: str) -> Response:
        self.figures.refused += 1
        seconds = {429: BUSY_SECONDS, 503: FULL_SECONDS}.get(status)
        headers = {} if seconds is None else {"Retry-After": str(seconds)}
        if form == "protobuf":
            return Response(bytes_field(2, message.encode()), status, headers, "application/x-protobuf")
        return Response(msgspec.json.encode({"message": message}), status, headers, "application/json")


class _Body:
    """A body that is being received."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.counted = 0
        """Bytes that count as received."""


def _answer(form: Form | None, rejected: int) -> Response:
    message = "spans without a valid trace id and span id" if rejected else ""
    if form == "protobuf":
        partial = number_field(1, rejected) + bytes_field(2, message.encode())
        return Response(bytes_field(1, partial) if rejected else b"", media_type="application/x-protobuf")
    partial_success = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": message}}
    return Response(msgspec.json.encode(partial_success if rejected else {}), media_type="application/json")


async def _other_signal(_: Request) -> Response:
    document = {"message": "only traces are received here: POST /v1/traces"}
    return Response(msgspec.json.encode(document), 404, media_type="application/json")


def application(receiver: Receiver) -> Starlette:
    """Return the application."""
    return Starlette(
        routes=[
            Route("/v1/traces", receiver.traces, methods=["POST"]),
            Route("/{path:path}", _other_signal, methods=["GET", "POST"]),
        ]
    )
