"""Warning about a seal that was not signed although there is a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.output import warn

if TYPE_CHECKING:
    from critiqor.run.store import Run


def warn_if_unsigned(run: Run) -> None:
    """Warn if the diagnosis that was just made could not be signed. Its evidence is sealed all the same."""
    from critiqor.storage.seals.diagnosis_seal import read_diagnosis_seal

    found = read_diagnosis_seal(run.diagnosis_path)
    if found is not None and found.seal.unsigned is not None:
        fix = add_runs_dir(f"critiqor diagnose {run.id}")
        warn(f"{run.id} is sealed but not signed: {found.seal.unsigned}\n  → then sign its diagnosis: {fix}")
