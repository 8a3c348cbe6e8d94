"""HTTP to model providers with httpx2: kept-alive connections, proxies, TLS, streamed responses and their events.

Import this module only when a request is made, and in a thread: importing httpx2 takes longer than most commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.models.provider_errors import malformed
from critiqor.agentloop.models.provider_secrets import resolve_secret
from critiqor.agentloop.settings import RequestSettings, Secret, TlsSettings

# httpx2 imports these with its first request, which would block the event loop.
for _name in ("httpcore2", "anyio._backends._asyncio"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

CONNECT_TIMEOUT_S = 30.0
MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60.0)
_LOST = ("disconnected", "closed connection")
"""Words of httpx2 about a response that ended too early; its other protocol errors are about invalid ones."""


class HttpClients:
    """The HTTP clients of a runtime, one for each combination of proxy and TLS settings."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._clients: dict[tuple[RequestSettings, bool, bool], httpx2.AsyncClient] = {}

    async def client(self, url: str, settings: RequestSettings) -> httpx2.AsyncClient:
        """Return the HTTP client for a URL. Raises `ValueError` if it, a certificate or the proxy cannot be used."""
        if re.search(r"[\x00-\x20\x7f]", url):
            raise ValueError("the URL contains whitespace or control characters")
        parts = urlsplit(url)
        key = (settings, parts.scheme == "https", _is_loopback(parts.hostname or ""))
        if key not in self._clients:
            # In a thread, because loading the certificate authorities takes long.
            self._clients.setdefault(key, await asyncio.to_thread(self._create, *key))
        return self._clients[key]

    async def post(
        self,
        url: str,
        settings: RequestSettings,
        headers: Mapping[str, str],
        body: bytes,
        connect_seconds: float = CONNECT_TIMEOUT_S,
    ) -> HttpResponse:
        """Send a request and return its response once the headers have arrived. Cancelling closes the connection."""
        server_name = settings.tls.server_name if settings.tls is not None else None
        client = await self.client(url, settings)
        request = client.build_request(
            "POST",
            url,
            headers={name.encode(): value.encode() for name, value in headers.items()},
            content=body,
            timeout=httpx2.Timeout(None, connect=connect_seconds),
            extensions={"sni_hostname": server_name} if server_name else {},
        )
        # By default, a user name in the URL would replace the authorization.
        auth = httpx2.Auth() if "authorization" in headers else httpx2.USE_CLIENT_DEFAULT
        return HttpResponse(await client.send(request, stream=True, auth=auth))

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _create(self, settings: RequestSettings, is_secure: bool, is_loopback: bool) -> httpx2.AsyncClient:
        proxy = settings.proxy.url if settings.proxy is not None and settings.proxy.mode == "explicit-proxy" else None
        if not is_secure:
            # No certificate authorities: this context accepts no server at all, and is made quickly.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            verify = httpx2.create_ssl_context() if settings.tls is None else self._tls(settings.tls)
        try:
            return httpx2.AsyncClient(
                verify=verify,
                proxy=proxy,
                # A proxy of the environment cannot reach a server on this machine.
                trust_env=not is_loopback or proxy is not None,
                limits=_LIMITS,
                timeout=None,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        except (ValueError, httpx2.InvalidURL) as error:
            raise ValueError(f"the proxy {proxy!r} (request.proxy.url) cannot be used: {error}") from error

    def _tls(self, settings: TlsSettings) -> ssl.SSLContext:
        try:
            ca = self._pem(settings.ca)
            context = ssl.create_default_context(cadata=ca)
            if settings.insecure_skip_verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            certificate = self._pem(settings.cert)
            if certificate is not None:
                self._load_certificate(context, certificate + "\n" + (self._pem(settings.key) or ""), settings)
        except (OSError, ValueError) as error:
            raise ValueError(f"the TLS settings of the provider (request.tls) cannot be used: {error}") from error
        return context

    def _load_certificate(self, context: ssl.SSLContext, pem: str, settings: TlsSettings) -> None:
        # The ssl module reads certificates of a client from files only; this one is readable by its owner alone.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name, password=self._secret(settings.passphrase))

    def _pem(self, secret: Secret | None) -> str | None:
        """Return a certificate or key that is given as PEM, or as the path of a file that contains it."""
        text = self._secret(secret)
        return text if text is None or "-----BEGIN" in text else Path(text).expanduser().read_text()

    def _secret(self, secret: Secret | None) -> str | None:
        return None if secret is None else resolve_secret(secret, self._environment)


class HttpResponse:
    """A response whose body has not been read yet."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.size = 0
        """Bytes of the body so far."""

    @property
    def is_kept_alive(self) -> bool:
        """Whether the end of the body can be seen without the server closing the connection."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises `ModelFailureError` if it is too large."""
        async for piece in self._response.aiter_bytes():
            self.size += len(piece)
            if self.size > MAX_RESPONSE_BYTES:
                raise malformed(f"it has more than {MAX_RESPONSE_BYTES // 2**20} MB")
            yield piece

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the data of server-sent events as they arrive; a JSON document is one event."""
        if "json" in self.headers.get("content-type", ""):
            body = bytearray()
            async for piece in self.pieces():
                body += piece
                if len(body) > MAX_EVENT_BYTES:
                    raise malformed(f"it has more than {MAX_EVENT_BYTES // 2**20} MB")
            yield bytes(body)
            return
        # Some servers declare no content type, or another one; some send a byte order mark.
        headers = {"content-type": "text/event-stream; charset=utf-8-sig"}
        stream = httpx2.Response(200, headers=headers, stream=_EventBytes(self), request=self._response.request)
        async for event in httpx2.EventSource(stream, MAX_EVENT_BYTES):
            yield event.data.encode()

    async def close(self) -> None:
        """Close the connection, unless the whole body was read."""
        await self._response.aclose()


class _EventBytes(httpx2.AsyncByteStream):
    """The body of a stream of events, with an end of its last event."""

    def __init__(self, response: HttpResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.pieces():
            yield piece
        yield b"\n\n"  # some servers leave out the empty line that ends the last event

    async def aclose(self) -> None:
        await self._response.close()


def failure_of_http(error: Exception) -> ModelFailureError | None:
    """Return the model failure for an exception of the HTTP client, httpx2; None for any other exception."""
    text = str(error)[:300]
    if isinstance(error, httpx2.SSEError):
        return malformed("it contains a line that is too long")
    if isinstance(error, httpx2.ConnectTimeout):
        return ModelFailureError("the connection to the model failed: the server did not answer in time", "network")
    if isinstance(error, httpx2.DecodingError):
        return malformed(text)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return ModelFailureError(f"invalid request: {text}", "rejected")
    if isinstance(error, httpx2.RemoteProtocolError) and not any(words in text for words in _LOST):
        return malformed(f"the server does not speak HTTP/1.1: {text}")
    if isinstance(error, httpx2.TransportError):
        return ModelFailureError(f"the connection to the model failed: {text or type(error).__name__}", "network")
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
