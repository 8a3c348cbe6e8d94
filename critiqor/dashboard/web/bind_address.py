"""Where the dashboard can be reached: on this machine alone, or at one named address of it."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from critiqor.errors import CritiqorError, UsageError

LOOPBACK = "127.0.0.1"
USUAL_PORT = 4747
"""Always the same, so that an address or a link that somebody has kept leads here again tomorrow."""
_HTTP = 80
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_LONGEST_HOST_NAME = 253

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Place(NamedTuple):
    """One address of this machine."""

    address: _Address
    """The one that is listened on."""
    name: str
    """As the user has written it: a name or the address itself."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.address.is_loopback

    def names(self, port: int) -> tuple[str, ...]:
        """What browsers may call it in `Host`, the one for links first; nothing else is answered."""
        spoken = [_spoken(self.name), _spoken(str(self.address))]
        if str(self.address) in (LOOPBACK, "::1"):
            spoken.append("localhost")
        told = [f"{name}:{port}" for name in spoken]
        # Browsers leave out the port that is usual.
        return tuple(dict.fromkeys([*spoken, *told] if port == _HTTP else told))


def place_of(host: str) -> Place:
    """The one address that a host stands for; all addresses at once are none."""
    fix = "critiqor dashboard --host ADDRESS   with one address or name of this machine"
    name = host.lower().removeprefix("[").removesuffix("]")
    try:
        address = _resolved(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is neither an address nor a name"
        raise UsageError(f"{host} is no address of this machine: {reason}", fix=fix) from error
    if address.is_unspecified:
        message = f"{host} is every address of this machine, and the dashboard answers to one by its name"
        raise UsageError(message, fix=fix)
    if address.is_multicast or (isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None):
        raise UsageError(f"{host} is no address that a browser can open", fix=fix)
    return Place(address, name if _is_host_name(name) else str(address))


def listener_at(place: Place, port: int | None) -> socket.socket:
    """A socket that listens there and nowhere else; port 0 is a free one, and without a port it is the usual one.

    Addresses can be kept only where the port stays the same. Where another dashboard has it, a free one is taken.
    """
    if port is None:
        try:
            return listener_at(place, USUAL_PORT)
        except CritiqorError:
            return listener_at(place, 0)
    family = socket.AF_INET if place.address.version == 4 else socket.AF_INET6
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(place.address), port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        message = f"port {port} of {place.address} cannot be used: {error.strerror}"
        raise CritiqorError(message, fix="critiqor dashboard   takes a port that is free") from error
    return listener


def _resolved(name: str) -> _Address:
    try:
        address: _Address = ipaddress.ip_address(name)
    except ValueError:
        if not _is_host_name(name):
            raise
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        address = ipaddress.ip_address(found[0][4][0])
    # `::ffff:0.0.0.0` is all addresses as well.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_host_name(name: str) -> bool:
    """Whether it can stand in a `Host` header; what a system makes an address of, such as `127.1`, is none."""
    is_name = len(name) <= _LONGEST_HOST_NAME and _HOST_NAME.fullmatch(name) is not None
    return is_name and not name.rpartition(".")[2].isdigit()


def _spoken(name: str) -> str:
    return f"[{name}]" if ":" in name else name
