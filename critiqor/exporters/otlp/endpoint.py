"""Send spans to a collector over HTTP.

They go to that address and nowhere else: proxy settings of the environment are ignored, redirects are not followed.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.exporters.otlp.collector_address import traces_url
from critiqor.exporters.otlp.credentials import HEADERS, credentials_for
from critiqor.exporters.otlp.otlp import Request
from critiqor.exporters.otlp.protobuf import partial_success
from critiqor.model.sanitize import sanitize
from critiqor.model.timestamps import retry_after_seconds

JSON, PROTOBUF = "application/json", "application/x-protobuf"
TIMEOUT_SECONDS = 30
"""Timeout of each operation of a request: connecting, sending, and waiting for the next bytes of the response."""
_MAX_RESPONSE = 1 << 16
_UNSUPPORTED_MEDIA_TYPE = 415
_MAX_MESSAGE = 200
_USE_FILE = "--output FILE   writes a file instead, which can be sent later"


class CollectorError(CritiqorError):
    """A collector did not accept a request."""

    def __init__(self, message: str, *, fix: str, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(message, fix=fix)
        self.status = status
        """The status of its response; None if there was none."""
        self.retry_after = retry_after
        """Seconds that it asks to wait."""


class Taken(NamedTuple):
    """A collector's response to one request."""

    rejected: int
    """Number of spans that it rejected."""
    message: str
    """The reason, or a warning; empty if there is none."""


class Sent(NamedTuple):
    """One request that was accepted."""

    bytes: int
    taken: Taken


class Endpoint:
    """Sends requests one by one: as JSON, or as Protobuf once the collector has rejected JSON."""

    def __init__(self, address: str, version: str, variables: Mapping[str, str]) -> None:
        self.url = traces_url(address)
        self.credentials = credentials_for(self.url, variables)
        self._agent = f"critiqor/{version}"
        self._takes_json = True
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def send(self, request: Request) -> Sent:
        """Send one request. Raise `CollectorError` with the reason if it fails."""
        try:
            if self._takes_json:
                body = request.json()
                try:
                    return Sent(len(body), _read_json(self._post(body, JSON)))
                except urllib.error.HTTPError as error:
                    if error.code != _UNSUPPORTED_MEDIA_TYPE:
                        raise
                    error.close()
                    self._takes_json = False
            body = request.protobuf()
            return Sent(len(body), _read_protobuf(self._post(body, PROTOBUF)))
        except urllib.error.HTTPError as error:
            raise self._refused(error) from error

    def _post(self, body: bytes, media_type: str) -> bytes:
        headers = {**self.credentials.headers, "Content-Type": media_type, "User-Agent": self._agent}
        request = urllib.request.Request(self.url, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                answer: bytes = response.read(_MAX_RESPONSE)
                return answer
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            raise self._unreachable(error.reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _refused(self, error: urllib.error.HTTPError) -> CollectorError:
        with error:
            reply = sanitize(_read_body(error).decode("utf-8", "replace"), max_length=_MAX_MESSAGE, collapse=True)
        fix = _USE_FILE
        if 300 <= error.code < 400:
            reply, fix = "a redirect, which is not followed", "use the target of the redirect: --endpoint URL"
        elif error.code in (401, 403):
            fix = f"to send an API key, set {HEADERS[-1]}='Authorization=Bearer …'"
        elif error.code in (404, 405):
            fix = "use --endpoint URL with the address of an OTLP/HTTP receiver, such as http://localhost:4318"
        message = f"{self.url} answered {error.code}" + (f": {reply}" if reply else "")
        wait = retry_after_seconds(error.headers.get("Retry-After")) or 0.0
        return CollectorError(message, fix=fix, status=error.code, retry_after=wait)

    def _unreachable(self, reason: object) -> CollectorError:
        late = isinstance(reason, TimeoutError)
        why = (
            f"no answer within {TIMEOUT_SECONDS} seconds"
            if late
            else sanitize(str(reason), max_length=_MAX_MESSAGE, collapse=True)
        )
        return CollectorError(f"{self.url} cannot be reached: {why or type(reason).__name__}", fix=_USE_FILE)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: spans for one address must not go to another."""

    def redirect_request(self, *_: object) -> None:
        return None


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    error_message: str = ""


class _Response(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


def _read_json(answer: bytes) -> Taken:
    """Read a JSON response. One that cannot be read counts as empty, because the request was accepted."""
    try:
        partial = msgspec.json.decode(answer, type=_Response).partial_success
        return Taken(0, "") if partial is None else _taken(int(partial.rejected_spans), partial.error_message)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return Taken(0, "")


def _read_protobuf(answer: bytes) -> Taken:
    try:
        return _taken(*partial_success(answer))
    except ValueError:
        return Taken(0, "")


def _taken(rejected: int, message: str) -> Taken:
    return Taken(max(0, rejected), sanitize(message, max_length=_MAX_MESSAGE, collapse=True))


def _read_body(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(_MAX_RESPONSE)
    except (OSError, http.client.HTTPException):
        return b""
