"""Checks on every request, and security headers on every response.

Pages of other sites cannot use the dashboard: `Host` must be one of our names (against DNS rebinding), `Origin`, if the
browser sends one, must be ours, and the cookie is not sent with requests from other sites. If a token is required,
everything but the login and the static files is refused without one.
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
ICON = "/favicon.ico"
"""Browsers request it for responses that name no icon, such as JSON."""
_WITHOUT_TOKEN = ("/open", "/share/", STATIC, ICON)
"""Paths that need no token: the login, and files that are the same in every dashboard."""
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
_SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with it, browsers send `Origin: null` for our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestGuard:
    """Middleware that refuses requests from other sites and sets the viewer of the request."""

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

        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers[name] = value
                # Static files are not secret: browsers may cache and revalidate them.
                headers.setdefault(
                    "Cache-Control", "no-cache" if scope["path"].startswith((STATIC, ICON)) else "no-store"
                )
                has_started = True
            await send(message)

        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope["method"], headers)) is not None:
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send_with_headers)
            return
        try:
            viewer = self._access.viewer(_cookie_of(headers, self._cookie))
        except CritiqorError:
            viewer = None
        if viewer is None and self._access.is_token_required and not scope["path"].startswith(_WITHOUT_TOKEN):
            refusal = "Open this dashboard with the link that `critiqor dashboard` printed, or with a link to a run."
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["viewer"] = viewer
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            # The viewer learns no details, and no traceback reaches the terminal.
            if has_started or os.environ.get("CRITIQOR_DEBUG"):
                raise
            await PlainTextResponse("Internal error.\n", status_code=500)(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "This request has the wrong Host header. Open the address that `critiqor dashboard` printed."
        origins = headers.getlist("origin")
        if any(origin not in self._origins for origin in origins):
            return "Requests from other sites are refused."
        if method not in SAFE_METHODS and not origins:
            return "A request that changes something needs an Origin header."
        return None


def _cookie_of(headers: Headers, name: str) -> str | None:
    return cookie_parser(headers.get("cookie", "")).get(name)
