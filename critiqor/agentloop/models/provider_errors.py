"""Classification of provider errors: HTTP statuses, error objects and malformed answers become model failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.model.timestamps import plain_seconds, retry_after_seconds

MAX_MESSAGE_CHARS = 500
_CONTEXT = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|too many tokens"
    r"|exceeds? the (maximum|limit).{0,80}token",
    re.IGNORECASE,
)
_BILLING = re.compile(r"insufficient.?(quota|balance|credit|funds)|billing|out of credits|payment", re.IGNORECASE)
_TYPES: tuple[tuple[str, FailureKind], ...] = (
    (r"rate.?limit|too.?many.?requests", "rate_limit"),
    (r"auth|api.?key|permission|forbidden", "auth"),
    (r"time.?out|timed.?out", "timeout"),
    (r"overloaded|server|internal|unavailable|upstream|bad.?gateway", "server"),
    (r"invalid|not.?found|unsupported", "rejected"),
)
_STATUSES: dict[int, FailureKind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    408: "timeout",
    413: "context",
    429: "rate_limit",
}
_OPENCLAW_NAMES: dict[FailureKind, str] = {
    "server": "server_error",
    "context": "context_overflow",
    "malformed": "format",
}
"""OpenClaw's names for kinds of failure, where they differ from ours."""


def failure_of_response(status: int, headers: Mapping[str, str], body: bytes) -> ModelFailureError:
    """Return the model failure for a provider's response with a status other than 200."""
    error = _error_object(body)
    message = _message(error) or _text_of_page(body) or "no reason given"
    kind = _kind_of_status(status, f"{_type(error)} {message}")
    return ModelFailureError(f"{status} {message}", kind, status, _retry_after(headers))


def failure_of_object(error: object) -> ModelFailureError:
    """Return the model failure for a provider's error object inside a stream."""
    message = _message(error) or "the provider reports an error without a message"
    status = _status(error)
    if status is not None:
        return ModelFailureError(f"{status} {message}", _kind_of_status(status, f"{_type(error)} {message}"), status)
    description = f"{_type(error)} {message}"
    kinds = [kind for pattern, kind in _TYPES if re.search(pattern, description, re.IGNORECASE)]
    return ModelFailureError(message, _kind_of_text(description) or (kinds[0] if kinds else "server"))


def malformed(problem: str) -> ModelFailureError:
    """Return the model failure for a provider's answer that violates the protocol."""
    return ModelFailureError(f"the model's answer is malformed: {problem}", "malformed")


def failover_reason_of(kind: FailureKind) -> str:
    """Return OpenClaw's name for a kind of model failure."""
    return _OPENCLAW_NAMES.get(kind, kind)


def _kind_of_status(status: int, text: str) -> FailureKind:
    if status >= 500:
        return "server"
    if status in (400, 422, 429):
        return _kind_of_text(text, status) or _STATUSES.get(status, "rejected")
    return _STATUSES.get(status, "rejected")


def _kind_of_text(text: str, status: int | None = None) -> FailureKind | None:
    if _BILLING.search(text):
        return "billing"
    # "Too many tokens" means that the request is too long, but with status 429 that the rate limit was exceeded.
    return "context" if status != 429 and _CONTEXT.search(text) else None


def _error_object(body: bytes) -> object:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(document, list) and document:
        document = document[0]
    return document.get("error", document) if isinstance(document, dict) else None


def _message(error: object) -> str:
    text: Any = error
    if isinstance(error, dict):
        text = next((error[key] for key in ("message", "detail", "error") if isinstance(error.get(key), str)), "")
    return text.strip()[:MAX_MESSAGE_CHARS] if isinstance(text, str) else ""


def _type(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    return " ".join(str(error[key])[:100] for key in ("type", "code", "status") if isinstance(error.get(key), str))


def _status(error: object) -> int | None:
    codes = [error.get(key) for key in ("code", "status")] if isinstance(error, dict) else []
    numbers = (int(code) for code in codes if isinstance(code, int) or (isinstance(code, str) and code.isdecimal()))
    return next((number for number in numbers if 400 <= number <= 599), None)


def _text_of_page(body: bytes) -> str:
    """Return the text of an HTML page, such as an error page of a proxy."""
    text = body.decode("utf-8", "replace")
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = plain_seconds(headers.get("retry-after-ms"))
    return retry_after_seconds(headers.get("retry-after")) if milliseconds is None else milliseconds / 1_000
