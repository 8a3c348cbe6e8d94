"""What every request must pass, and what every answer must say, whatever page it is for.

A page of another site cannot reach the dashboard: the name in `Host` must be ours, or a foreign name was made to point
here; `Origin`, where a browser tells one, must be ours too; and the cookie is sent to no request from elsewhere.
Where a token is required, nothing is answered without one but the doors, and the scripts and styles that everybody has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from critiqor.dashboard.web.access import Access
from critiqor.errors import CritiqorError

SAFE_METHODS = frozenset({"GET", "HEAD"})
STATIC = "/static/"
_WITHOUT_TOKEN = ("/open", "/share/", STATIC)
"""Where tokens are brought to, and what is the same in every dashboard."""
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

        is_answered = False

        async def answer(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SAID.items():
                    headers[name] = value
                # Scripts and styles are nobody's secret; they may be kept, and are asked for again.
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith(STATIC) else "no-store")
                is_answered = True
            await send(message)

        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope["method"], headers)) is not None:
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, answer)
            return
        try:
            viewer = self._access.viewer(_cookie_of(headers, self._cookie))
        except CritiqorError:
            viewer = None
        if viewer is None and self._access.is_token_required and not scope["path"].startswith(_WITHOUT_TOKEN):
            refusal = "This dashboard needs the link that `critiqor dashboard` has opened, or a link to a run."
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, answer)
            return
        scope.setdefault("state", {})["viewer"] = viewer
        try:
            await self._app(scope, receive, answer)
        except Exception:
            # Nobody who looks learns more of it, and the terminal shows no trace of ours.
            if is_answered or os.environ.get("CRITIQOR_DEBUG"):
                raise
            await PlainTextResponse("That did not work.\n", status_code=500)(scope, receive, answer)

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
