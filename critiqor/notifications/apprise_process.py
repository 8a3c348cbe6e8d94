"""Send one text with Apprise, in a process of its own: `python -m critiqor.notifications.apprise_process`.

Apprise waits at exit for services that hang, and its log messages contain addresses. A process can be killed, and its
output is discarded. It reads a `Request` from its standard input.
"""

from __future__ import annotations

import sys
from enum import IntEnum

import msgspec


class Request(msgspec.Struct):
    """What is sent to which service."""

    url: str
    title: str
    text: str


class Outcome(IntEnum):
    """Exit codes of the process."""

    SENT = 0
    NOT_ACCEPTED = 3
    UNKNOWN_ADDRESS = 4
    NOT_INSTALLED = 5


def main() -> Outcome:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    try:
        import apprise
    except ImportError:
        return Outcome.NOT_INSTALLED
    service = apprise.Apprise()
    if not service.add(request.url):
        return Outcome.UNKNOWN_ADDRESS
    return Outcome.SENT if service.notify(body=request.text, title=request.title) else Outcome.NOT_ACCEPTED


if __name__ == "__main__":
    sys.exit(main())
