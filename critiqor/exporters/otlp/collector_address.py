"""Addresses of collectors: where spans are sent, on which server, and whether that is this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from critiqor.errors import UsageError

PATH = "/v1/traces"


def traces_url(address: str, option: str = "--endpoint") -> str:
    """Return the URL that spans are sent to, from the address of a collector or of its traces.

    Raises `UsageError`, which names the option that the address is from, but not the address: it may have a password.
    """
    fix = f"{option} http://HOST:PORT, such as http://localhost:4318"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not (address.isascii() and address.isprintable()) or " " in address:
        raise UsageError(f"{option} is not the address of a collector", fix=fix)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError(f"{option} takes an address without user, password, query or fragment", fix=fix)
    return address.rstrip("/").removesuffix(PATH) + PATH


def is_on_this_machine(url: str) -> bool:
    """Return whether the collector at this address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_server(address: str, other: str) -> bool:
    """Return whether two addresses are on the same server: scheme, host and port."""
    return _server(address) == _server(other)


def _server(address: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
