"""What every request must pass, and what every answer must say, whatever page it is for.

A page of another site cannot reach the dashboard: the name in `Host` must be ours, or a foreign name was made to point
here; `Origin`, where a browser tells one, must be ours too; and the cookie is sent to no request from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from critiqor.dashboard.access import Access
from critiqor.errors import CritiqorError

SAFE_METHODS = frozenset({"GET", "HEAD"})
CONTENT_SECURITY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_SAID = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: under it, browsers call the origin of our own forms `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Gate:
    """Refuses what does not come from our own pages, and finds out who looks."""

    def __init__(self, app: ASGIApp, access: Access, hosts: Iterable[str], cookie: str) -> None:
        self._app = app
        self._access = access
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SAID.items():
                    headers[name] = value
                # Scripts and styles are nobody's secret; they may be kept, and are asked for again.
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope["method"], headers)) is not None:
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, answer)
            return
        try:
            viewer = self._access.viewer(_cookie_of(headers, self._cookie))
        except CritiqorError:
            viewer = None
        scope.setdefault("state", {})["viewer"] = viewer
        await self._app(scope, receive, answer)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "This address is not that of the dashboard."
        origins = headers.getlist("origin")
        if any(origin not in self._origins for origin in origins):
            return "Requests from other sites are refused."
        if method not in SAFE_METHODS and not origins:
            return "A request that changes something must say where it comes from."
        return None


def _cookie_of(headers: Headers, name: str) -> str | None:
    return cookie_parser(headers.get("cookie", "")).get(name)
