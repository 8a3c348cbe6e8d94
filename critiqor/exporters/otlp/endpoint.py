"""A collector that takes spans over HTTP.

What is sent goes to that address and nowhere else: proxies of the environment are not used, redirections not followed.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, NamedTuple
from urllib.parse import urlsplit

import msgspec

from critiqor.errors import CritiqorError, UsageError
from critiqor.exporters.otlp.credentials import HEADERS, credentials_for
from critiqor.exporters.otlp.otlp import Request
from critiqor.exporters.otlp.protobuf import partial_success
from critiqor.exporters.texts import one_line

PATH = "/v1/traces"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
TIMEOUT_SECONDS = 30
"""For every step of a request: to connect, to send, to wait for the next bytes of an answer."""
_LONGEST_ANSWER = 1 << 16
_WRONG_FORM = 415
_SHOWN = 200
_OTHERWISE = "--output FILE   writes a file instead, which can be sent later"


class Taken(NamedTuple):
    """What a collector said of one request."""

    rejected: int
    """Spans that it did not take."""
    message: str
    """Why, or a warning; empty where there is none."""


class Sent(NamedTuple):
    """One request that was taken."""

    bytes: int
    taken: Taken


class Endpoint:
    """Sends one request after the other: as JSON, until the collector says that it wants the binary form."""

    def __init__(self, address: str, version: str, variables: Mapping[str, str]) -> None:
        self.url = traces_url(address)
        self.credentials = credentials_for(self.url, variables)
        self._agent = f"critiqor/{version}"
        self._takes_json = True
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Unmoved())

    def send(self, request: Request) -> Sent:
        """Send one request; whatever goes wrong is an error that says what."""
        try:
            if self._takes_json:
                body = request.json()
                try:
                    return Sent(len(body), _told_as_json(self._post(body, JSON)))
                except urllib.error.HTTPError as error:
                    if error.code != _WRONG_FORM:
                        raise
                    error.close()
                    self._takes_json = False
            body = request.protobuf()
            return Sent(len(body), _told_in_binary(self._post(body, PROTOBUF)))
        except urllib.error.HTTPError as error:
            raise self._refused(error) from error

    def _post(self, body: bytes, form: str) -> bytes:
        headers = {**self.credentials.headers, "Content-Type": form, "User-Agent": self._agent}
        request = urllib.request.Request(self.url, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                answer: bytes = response.read(_LONGEST_ANSWER)
                return answer
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            raise self._unreachable(error.reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _refused(self, error: urllib.error.HTTPError) -> CritiqorError:
        with error:
            said = one_line(_read(error).decode("utf-8", "replace"), _SHOWN)
        fix = _OTHERWISE
        if 300 <= error.code < 400:
            said, fix = "a redirection, which is not followed", "--endpoint URL   with the address that it leads to"
        elif error.code in (401, 403):
            fix = f"{HEADERS[-1]}='Authorization=Bearer …'   lets it be sent with a key"
        elif error.code in (404, 405):
            fix = "--endpoint URL   with that of an OTLP/HTTP receiver, such as http://localhost:4318"
        return CritiqorError(f"{self.url} answered {error.code}" + (f": {said}" if said else ""), fix=fix)

    def _unreachable(self, reason: object) -> CritiqorError:
        late = isinstance(reason, TimeoutError)
        why = f"no answer within {TIMEOUT_SECONDS} seconds" if late else one_line(str(reason), _SHOWN)
        return CritiqorError(f"{self.url} cannot be reached: {why or type(reason).__name__}", fix=_OTHERWISE)


def traces_url(address: str) -> str:
    """Where spans are sent to: the address of a collector, or already that of its traces."""
    fix = "--endpoint http://HOST:PORT, such as http://localhost:4318"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not (address.isascii() and address.isprintable()) or " " in address:
        raise UsageError("--endpoint is no address of a collector", fix=fix)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError("--endpoint takes an address without user, password, query and fragment", fix=fix)
    return address.rstrip("/").removesuffix(PATH) + PATH


class _Unmoved(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: what was meant for one address is not for another."""

    def redirect_request(self, *_: object) -> None:
        return None


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


def _told_as_json(answer: bytes) -> Taken:
    """An answer that cannot be read is as good as an empty one: the request was taken."""
    try:
        told = msgspec.json.decode(answer, type=_Answer).partial_success
        return Taken(0, "") if told is None else _taken(int(told.rejected_spans), told.error_message)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return Taken(0, "")


def _told_in_binary(answer: bytes) -> Taken:
    try:
        return _taken(*partial_success(answer))
    except ValueError:
        return Taken(0, "")


def _taken(rejected: int, message: str) -> Taken:
    return Taken(max(0, rejected), one_line(message, _SHOWN))


def _read(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException):
        return b""
