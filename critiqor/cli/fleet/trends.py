"""Trends of an agent over the runs of all hosts."""

from __future__ import annotations

from critiqor.cli.fleet.opening import opened_index
from critiqor.cli.texts.trends import choose_agent, refuse_tenants
from critiqor.fleet.index.query import RunQuery
from critiqor.fleet.views.agent_trends import AgentTrends, agent_trends

_OPTION = " --fleet"


def fleet_trends(agent: str | None, tenant: str | None, last: int | None) -> AgentTrends:
    """Return the trends of an agent, or of the only one. Raise an error that names the commands to choose from."""
    with opened_index() as index:
        if agent is None or not index.runs(RunQuery(agent_id=agent, tenant=tenant, limit=1)):
            agents = {each.name for each in index.agents(RunQuery(tenant=tenant))}
            agent = choose_agent(agents, agent, f"the index {index.address}", _OPTION)
        if tenant is None:
            refuse_tenants(index.tenants(agent), agent, _OPTION)
        return agent_trends(index, agent, last, tenant)
