"""Names of indexed runs, as users type and read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from critiqor.errors import UnknownRunError, UsageError
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.rows import IndexedRun
from critiqor.fleet.reference import parse_reference

DIGITS = 8
"""Number of digits of a seal in a name that would mean several runs otherwise."""


def run_names(runs: Sequence[IndexedRun]) -> dict[str, str]:
    """Return the names of runs by the ids of their rows: `HOST/RUN`, with digits of the seal if two have that name."""
    often = Counter(run.name for run in runs)
    return {run.id: exact_name(run) if often[run.name] > 1 else run.name for run in runs}


def find_indexed(index: FleetIndex, name: str) -> IndexedRun:
    """Return the run that a user names. Raise an error if there is none, or if the name means several."""
    reference = parse_reference(name)
    found = index.find(reference.host, reference.run, reference.digits)
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRunError(f"there is no run {reference} in the index {index.address}", fix="critiqor runs --fleet")
    message = f"{reference} means {len(found)} runs: {', '.join(map(exact_name, found))}"
    raise UsageError(message, fix="name one of them with the digits of its seal")


def exact_name(run: IndexedRun) -> str:
    """Return the name of a run that means no other one: `HOST/RUN@DIGITS`."""
    return f"{run.name}@{run.seal.removeprefix('sha256:')[:DIGITS]}"
