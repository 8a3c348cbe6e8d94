"""One run in a list: what its record says at a glance, and the verdict of its diagnosis."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.comparison.figures import untold_cost
from critiqor.errors import CritiqorError
from critiqor.model.diagnosis import CostAnalysis, Outcome, Readiness
from critiqor.model.formatting import money
from critiqor.run.lifecycle import owner_is_alive
from critiqor.storage.paths import SessionPaths
from critiqor.storage.run_record import load_head


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a folder. Null is unknown, or not known yet."""

    run_id: str
    status: str
    """Of its record; UNREADABLE where there is none that can be read."""
    created_at: str | None = None
    agent_id: str | None = None
    events: int | None = None
    trust: int | float | None = None
    confidence: int | float | None = None
    verdict: Readiness | None = None
    outcome: str | None = None
    """How the agent ended."""
    cost_usd: float | None = None
    cost_is_whole: bool = False
    """Whether it is all that the run cost, as far as anybody told."""
    ended: bool = False
    """Whether nobody records it any more although it is not finalized."""
    headline: str | None = None

    @property
    def cost(self) -> str:
        """In words."""
        if self.cost_usd is None:
            return "-"
        return money(self.cost_usd) if self.cost_is_whole else f"≥{money(self.cost_usd)}"


class _Concluded(msgspec.Struct):
    readiness: Readiness
    outcome: Outcome
    cost_analysis: CostAnalysis


def listed_run(paths: SessionPaths, run_id: str) -> ListedRun:
    """A run as a list shows it. One broken record must not hide the others."""
    try:
        head = load_head(paths, run_id)
    except (CritiqorError, OSError) as error:
        return ListedRun(run_id=run_id, status="UNREADABLE", headline=str(error))
    return ListedRun(
        run_id=run_id,
        status=head["status"],
        created_at=head["timestamps"]["created_at"],
        agent_id=head["metadata"]["agent_id"],
        events=head["seal"]["events"] if head["seal"] else None,
        trust=head["trust_score"],
        confidence=head["confidence_score"],
        ended=head["status"] == "MONITORING" and head["owner"] is not None and not owner_is_alive(head),
        headline=head["headline"],
        **(_verdict(paths, run_id) if head["seal"] else {}),
    )


def _verdict(paths: SessionPaths, run_id: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(paths.diagnosis_path(run_id).read_bytes(), type=_Concluded)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}  # whoever asks for the run itself is told why
    cost = found.cost_analysis
    return {
        "verdict": found.readiness,
        "outcome": found.outcome.state,
        "cost_usd": cost.cost_usd,
        "cost_is_whole": untold_cost(cost) is None,
    }
