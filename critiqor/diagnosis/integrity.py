"""What may be said of a diagnosis whose evidence is no longer what was sealed."""

from __future__ import annotations

from msgspec.structs import replace

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.integrity import Proof


def as_proven(diagnosis: Diagnosis, proof: Proof) -> Diagnosis:
    """The diagnosis as it may be told: one that cannot be proven is no verdict, and says so first.

    Findings and figures stay as they were concluded: they say what to look for.
    """
    if proof.is_intact:
        return diagnosis
    headline = f"Not proven: {proof.told} (critiqor verify {diagnosis.run_id})"
    return replace(diagnosis, readiness="unknown", headline=headline)
