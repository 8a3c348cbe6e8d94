"""Headers for a collector, such as an API key, from the environment variables of OpenTelemetry exporters.

They are never printed, and never sent to an address other than the one they were set for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from critiqor.errors import UsageError
from critiqor.exporters.otlp.collector_address import is_on_this_machine, is_same_server

HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
"""Variables with `name=value,name=value`; the first that is set is used."""
ADDRESSES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables with the address that the headers are for."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


class Credentials(NamedTuple):
    """Headers that are sent with the spans."""

    headers: dict[str, str]
    notes: list[str]
    """Notes for the user on what was sent or not."""


def credentials_for(url: str, variables: Mapping[str, str]) -> Credentials:
    """Return the headers for an address; none if they were set for another one."""
    name = next((name for name in HEADERS if variables.get(name, "").strip()), None)
    if name is None:
        return Credentials({}, [])
    address = next((address for address in ADDRESSES if variables.get(address)), None)
    if address is not None and not is_same_server(variables[address], url):
        return Credentials({}, [f"The headers from {name} were not sent: {address} names another address."])
    notes = []
    if urlsplit(url).scheme != "https" and not is_on_this_machine(url):
        notes.append(f"The endpoint is not https: the spans and the headers from {name} were sent unencrypted.")
    return Credentials(_read(variables[name], name), notes)


def _read(text: str, variable: str) -> dict[str, str]:
    headers = {}
    for pair in filter(str.strip, text.split(",")):
        name, separator, value = pair.partition("=")
        name, value = unquote(name.strip()), unquote(value.strip())
        if not separator or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            # Without the pair itself, which may be a key.
            raise UsageError(f"{variable} is not `name=value,name=value`", fix=f"unset {variable}, or correct it")
        headers[name] = value
    return headers
