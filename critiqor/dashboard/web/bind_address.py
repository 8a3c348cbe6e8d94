"""The address and port that a server listens on: the loopback address, or one named address of this machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from critiqor.errors import CritiqorError, UsageError

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 4747
"""A fixed port keeps bookmarks and shared links valid after a restart."""
_HTTP = 80
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_MAX_HOST_NAME = 253

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class BindAddress(NamedTuple):
    """One address of this machine to listen on."""

    address: _Address
    name: str
    """The host as the user wrote it: a name, or the address itself."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.address.is_loopback

    def names(self, port: int) -> tuple[str, ...]:
        """Return the accepted values of the `Host` header; the first one is used in links."""
        hosts = [_in_brackets(self.name), _in_brackets(str(self.address))]
        if str(self.address) in (LOOPBACK, "::1"):
            hosts.append("localhost")
        with_port = [f"{name}:{port}" for name in hosts]
        # Browsers omit the default port of HTTP.
        return tuple(dict.fromkeys([*hosts, *with_port] if port == _HTTP else with_port))


def resolve_host(host: str, command: str = "critiqor dashboard") -> BindAddress:
    """Resolve a host to one address; the wildcard address is refused. `command` is what the user typed."""
    fix = f"use one address or host name of this machine: {command} --host ADDRESS"
    name = host.lower().removeprefix("[").removesuffix("]")
    try:
        address = _resolve(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is neither an IP address nor a host name"
        raise UsageError(f"{host} is not an address of this machine: {reason}", fix=fix) from error
    if address.is_unspecified:
        message = f"{host} means all addresses of this machine; {command} listens on one address only"
        raise UsageError(message, fix=fix)
    if address.is_multicast or (isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None):
        raise UsageError(f"{host} is not an address that a browser can open", fix=fix)
    return BindAddress(address, name if _is_host_name(name) else str(address))


def listen(bind: BindAddress, port: int | None, command: str = "critiqor dashboard") -> socket.socket:
    """Return a socket that is bound to this address only, and listens.

    Port 0 means a free port. None means the default port, or a free one if another process uses it.
    """
    if port is None:
        try:
            return listen(bind, DEFAULT_PORT)
        except CritiqorError:
            return listen(bind, 0)
    family = socket.AF_INET if bind.address.version == 4 else socket.AF_INET6
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(bind.address), port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        message = f"cannot listen on port {port} of {bind.address}: {error.strerror}"
        raise CritiqorError(message, fix=f"{command} --port 0   takes a free port") from error
    return listener


def _resolve(name: str) -> _Address:
    try:
        address: _Address = ipaddress.ip_address(name)
    except ValueError:
        if not _is_host_name(name):
            raise
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        address = ipaddress.ip_address(found[0][4][0])
    # `::ffff:0.0.0.0` is a wildcard address too.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_host_name(name: str) -> bool:
    """Return whether a name is valid in a `Host` header. Short forms of addresses, such as `127.1`, are not."""
    is_name = len(name) <= _MAX_HOST_NAME and _HOST_NAME.fullmatch(name) is not None
    return is_name and not name.rpartition(".")[2].isdigit()


def _in_brackets(name: str) -> str:
    return f"[{name}]" if ":" in name else name
