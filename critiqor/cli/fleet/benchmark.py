"""The rank of a run among the runs of all hosts."""

from __future__ import annotations

from critiqor.cli.fleet.opening import opened_index
from critiqor.fleet.views.agent_trends import figure_texts
from critiqor.fleet.views.run_names import find_indexed
from critiqor.fleet.views.run_ranking import FleetRanking, rank_in_fleet


def fleet_ranking(name: str) -> tuple[FleetRanking, dict[str, str]]:
    """Return the rank of a run that is named `HOST/RUN`, and its figures as text."""
    with opened_index() as index:
        run = find_indexed(index, name)
        return rank_in_fleet(index, run), figure_texts(run)
