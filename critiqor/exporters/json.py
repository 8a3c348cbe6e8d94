"""The report of a run as JSON: the head of its record, the coverage of its evidence, and the diagnosis."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from critiqor.model.report import RunReport


def report(told: RunReport) -> Iterator[bytes]:
    """The file, indented for people; in ASCII, because a terminal can obey some of the characters beyond it."""
    yield json.dumps(msgspec.to_builtins(told), indent=2).encode() + b"\n"
