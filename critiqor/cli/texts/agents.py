"""Which agent a verb is about, and the commands to choose from if that is not clear."""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote

from critiqor.errors import UnknownRunError, UsageError


def choose_agent(agents: Collection[str], wanted: str | None, place: str = "this runs folder", option: str = "") -> str:
    """Return the agent that a user wants, or the only one. Raise an error that names the commands to choose from."""
    if not agents:
        fix = "critiqor monitor openclaw" if not option else "critiqor fleet reindex"
        raise UnknownRunError(f"there are no runs to show in {place}", fix=fix)
    if wanted in agents or (wanted is None and len(agents) == 1):
        return wanted or next(iter(agents))
    message = f"{place} has runs of several agents" if wanted is None else f"there are no runs of {wanted!r}"
    commands = [f"critiqor trends{option} --agent {quote(name)}".replace("\n", " ") for name in sorted(agents)]
    raise UsageError(message, fix="\n    ".join(commands))


def refuse_tenants(tenants: Collection[str], agent: str, option: str = "") -> None:
    """Raise an error if agents of different tenants have this name: they are different agents."""
    if len(tenants) > 1:
        options = [f"--agent {quote(agent)} --tenant {quote(tenant)}".replace("\n", " ") for tenant in sorted(tenants)]
        message = f"the runs of {agent!r} belong to several tenants"
        raise UsageError(message, fix="\n    ".join(f"critiqor trends{option} {each}" for each in options))
