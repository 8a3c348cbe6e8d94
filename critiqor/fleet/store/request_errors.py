"""What the errors of obstore mean: whether a request may succeed when it is repeated, and why it failed.

Much of that is only in the text of an error, which contains the structure of the Rust error.
"""

from __future__ import annotations

import re

from critiqor.fleet.errors import FleetError, FleetUnavailableError

SET_CREDENTIALS = "set the variables of the provider, such as AWS_ACCESS_KEY_ID"
_REQUEST = re.compile(
    r"Error performing (?P<method>[A-Z]+) (?P<url>[^\s?]+)\S* in [^,]*?"
    r"(?:, after (?P<retries>\d+) retries,.*?)? +- (?P<cause>.*)"
)
_NO_CONNECTION = re.compile(r"legacy::Error\(\s*Connect\b")
_CAUSES = {
    "ConnectionRefused": "connection refused",
    "dns error": "its name cannot be resolved",
    "InvalidCertificate": "its certificate is not trusted",
    "TimedOut": "no connection was made in time",
}
"""Why no connection was made, by words in the structure of the error."""
_REFUSED = re.compile(r"status code: 40[13]\b|AuthorizationHeaderMalformed|redirect without LOCATION")
"""Answers that are the same when the request is repeated; obstore has no errors of their own for them in lists."""
_METADATA = re.compile(r"https?://(169\.254\.169\.254|metadata\.google\.internal)\b")
"""Where the role of a machine of a provider is asked for, which obstore does if no credentials are set."""


def final_error(error: Exception, url: str, message: str) -> FleetError | None:
    """Return the error for a request to a store that fails however often it is repeated; None if it may not.

    `message` says what failed, and why.
    """
    from obstore import exceptions

    if isinstance(error, exceptions.InvalidPathError):
        return FleetError(message)
    if _METADATA.search(str(error)):
        message = f"no credentials of the store {url} are set, and this machine has no role: {reason(error)}"
        return FleetUnavailableError(message, fix=SET_CREDENTIALS)
    refused = (
        exceptions.PermissionDeniedError,
        exceptions.UnauthenticatedError,
        exceptions.NotSupportedError,
        PermissionError,
    )
    if isinstance(error, refused) or _REFUSED.search(str(error)):
        return FleetUnavailableError(message, fix="check the credentials, the region and the rights of the store")
    return None


def is_unreachable(error: Exception) -> bool:
    """Return whether no connection was made: obstore has tried that long enough."""
    return _NO_CONNECTION.search(str(error)) is not None


def reason(error: Exception) -> str:
    """Return what an error says in one line, without the structure of the Rust error and without parameters."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if found := _REQUEST.search(line):
        retries = f" after {found['retries']} retries" if found["retries"] else ""
        line = f"{found['method']} {found['url']} failed{retries}: {_cause(str(error)) or found['cause']}"
    return line[:400]


def _cause(text: str) -> str | None:
    """Return why there was no answer; None if there was one."""
    if _NO_CONNECTION.search(text) is not None:
        return next((cause for word, cause in _CAUSES.items() if word in text), "no connection can be made")
    return "no answer came in time" if "TimedOut" in text else None
