"""The index after storing: the one place where the store calls the index."""

from __future__ import annotations

from collections.abc import Sequence

from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.outbox import PushOutbox
from critiqor.run.store import Run


def index_runs(runs: Sequence[Run], settings: FleetSettings, outbox: PushOutbox) -> None:
    """Add stored runs to the index. Raise `CritiqorError` if it cannot be reached; adding them again is harmless."""
