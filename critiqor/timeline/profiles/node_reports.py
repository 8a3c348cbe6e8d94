"""Reader of Node's diagnostic reports: time, trigger and heap usage.

A report also contains the environment with its secrets, the command line and paths, none of which is decoded.
"""

from __future__ import annotations

import re

import msgspec

from critiqor.model.profiles import NodeReport
from critiqor.model.timestamps import iso_from_ms
from critiqor.timeline.profiles.artifacts import Artifact, Size, UnusableError, read_content

_TRIGGER = re.compile(r"[A-Za-z ]{1,40}")


class _Header(msgspec.Struct, rename="camel"):
    trigger: str
    dump_event_time_stamp: str
    """Milliseconds since 1970."""


class _Heap(msgspec.Struct, rename="camel"):
    used_memory: Size | None = None
    total_memory: Size | None = None
    memory_limit: Size | None = None
    external_memory: Size | None = None


class _Document(msgspec.Struct, rename="camel"):
    header: _Header
    javascript_heap: _Heap


_decoder = msgspec.json.Decoder(_Document)


def read_node_report(artifact: Artifact) -> NodeReport:
    """Read the figures of a report. Raises UnusableError."""
    try:
        document = _decoder.decode(read_content(artifact))
    except msgspec.ValidationError:
        raise UnusableError("foreign") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableError("damaged") from None
    heap, trigger = document.javascript_heap, document.header.trigger
    return NodeReport(
        pid=artifact.pid,
        at=_moment(document.header.dump_event_time_stamp),
        trigger=trigger if _TRIGGER.fullmatch(trigger) else None,
        heap_used_bytes=heap.used_memory,
        heap_total_bytes=heap.total_memory,
        heap_limit_bytes=heap.memory_limit,
        external_bytes=heap.external_memory,
    )


def _moment(stamp: str) -> str | None:
    try:
        return iso_from_ms(int(stamp[:20]))
    except (ValueError, OverflowError):
        return None
