"""The rank of a run among the comparable runs of all hosts, from the index."""

from __future__ import annotations

from critiqor.comparison.figure_notes import list_price_note, trust_note
from critiqor.comparison.ranking import MORE_IS_BETTER, Ranking, placement_of, ranking_notes
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.rows import IndexedRun
from critiqor.fleet.index.standing import figure_of
from critiqor.model.verdict import Verdict


class FleetRanking(Ranking, frozen=True, kw_only=True):
    """The rank of a run, named `HOST/RUN`, among the runs of all hosts."""

    host: str


def rank_in_fleet(index: FleetIndex, run: IndexedRun) -> FleetRanking:
    """Rank a run among those of its tenant, benchmark and difficulty that the same rule set judged."""
    standing = index.standing(run)
    return FleetRanking(
        run_id=run.name,
        host=run.host,
        benchmark_id=run.benchmark,
        difficulty_tier=run.difficulty,
        rule_set_version=run.rule_set,
        others=standing.others,
        placements=[
            placement_of(figure, figure_of(run, figure), standing.figures[figure], standing.others)
            for figure in MORE_IS_BETTER
        ],
        judged_by_other_rules=standing.other_rules,
        undiagnosed=[],
        unreadable=[],
        notes=[*_own_notes(run), *ranking_notes(standing.other_rules)],
    )


def _own_notes(run: IndexedRun) -> list[str]:
    notes = []
    if run.sessions is not None and run.verdict != "unknown":
        verdict = Verdict(
            readiness=run.verdict,
            headline=run.headline,
            trust=run.trust,
            confidence=run.confidence,
            sessions=run.sessions,
            unknown_trust=run.headline if run.trust is None else None,
        )
        notes.append(trust_note(run.name, verdict))
    if run.cost_is_estimated:
        notes.append(list_price_note(run.name, run.list_prices_date))
    return notes
