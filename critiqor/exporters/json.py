"""JSON report of a run: integrity, head of its record, coverage of its evidence, diagnosis."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from critiqor.model.report import RunReport


def report(run_report: RunReport) -> Iterator[bytes]:
    """Yield the JSON report, indented, and in ASCII: terminals interpret some of the other characters as commands."""
    yield json.dumps(msgspec.to_builtins(run_report), indent=2).encode() + b"\n"
