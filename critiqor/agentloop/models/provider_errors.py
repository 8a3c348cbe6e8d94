"""Why a provider did not answer, in the words of the diagnosis: from a status, an error object, or a broken stream."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError

MAX_MESSAGE_CHARS = 500
MAX_RETRY_AFTER_S = 24 * 3_600.0
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


def failure_of_response(status: int, headers: Mapping[str, str], body: bytes) -> ModelFailureError:
    """The failure behind an answer whose status is not 200."""
    error = _error_object(body)
    words = _message(error) or _plain(body) or "no reason given"
    kind = _kind_of_status(status, f"{_type(error)} {words}")
    return ModelFailureError(f"{status} {words}", kind, status, _retry_after(headers))


def failure_of_object(error: object) -> ModelFailureError:
    """The failure behind an error object within a stream that had begun well."""
    words = _message(error) or "the provider reports an error and does not say which"
    status = _status(error)
    if status is not None:
        return ModelFailureError(f"{status} {words}", _kind_of_status(status, f"{_type(error)} {words}"), status)
    said = f"{_type(error)} {words}"
    kinds = [kind for pattern, kind in _TYPES if re.search(pattern, said, re.IGNORECASE)]
    return ModelFailureError(words, _kind_of_words(said) or (kinds[0] if kinds else "server"))


def malformed(words: str) -> ModelFailureError:
    """An answer that makes no sense, and why."""
    return ModelFailureError(f"the model's answer is malformed: {words}", "malformed")


def _kind_of_status(status: int, said: str) -> FailureKind:
    if status >= 500:
        return "server"
    if status in (400, 422, 429):
        return _kind_of_words(said, status) or _STATUSES.get(status, "rejected")
    return _STATUSES.get(status, "rejected")


def _kind_of_words(said: str, status: int | None = None) -> FailureKind | None:
    if _BILLING.search(said):
        return "billing"
    # "Too many tokens" is about the length of a request, but with 429 about how many there were in a minute.
    return "context" if status != 429 and _CONTEXT.search(said) else None


def _error_object(body: bytes) -> object:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(document, list) and document:
        document = document[0]
    return document.get("error", document) if isinstance(document, dict) else None


def _message(error: object) -> str:
    said: Any = error
    if isinstance(error, dict):
        said = next((error[key] for key in ("message", "detail", "error") if isinstance(error.get(key), str)), "")
    return said.strip()[:MAX_MESSAGE_CHARS] if isinstance(said, str) else ""


def _type(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    return " ".join(str(error[key])[:100] for key in ("type", "code", "status") if isinstance(error.get(key), str))


def _status(error: object) -> int | None:
    codes = [error.get(key) for key in ("code", "status")] if isinstance(error, dict) else []
    numbers = (int(code) for code in codes if isinstance(code, int) or (isinstance(code, str) and code.isdecimal()))
    return next((number for number in numbers if 400 <= number <= 599), None)


def _plain(body: bytes) -> str:
    """The words of a page that some proxy sent."""
    text = body.decode("utf-8", "replace")
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    said = headers.get("retry-after")
    seconds = _seconds(said)
    if seconds is None and said is not None:
        try:
            seconds = max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_S)


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
