"""Visibility: who may see a run, and how much of it. Nothing here does I/O."""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.model.record import RunHead, Visibility

Level = Literal["whole", "anonymous"]
"""How much of a run is shown: all of it, or structure and numbers only."""
MEANINGS: dict[Visibility, str] = {
    "private": "Only you, with the link that `critiqor dashboard` opens.",
    "shared": "You, and everybody with a link to this run. A link can be revoked.",
    "anonymous": (
        "You see everything. Everybody else who can reach the dashboard, and every export, gets structure and numbers: "
        "the agent, the tenant, paths, messages and payload texts are removed."
    ),
    "public": "Everybody who can reach the dashboard.",
}
"""What each visibility means, from the fewest viewers to the most."""


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """A person or an export that accesses runs."""

    is_owner: bool = False
    """Whether it is the user of this machine at the terminal, who sees every run."""
    is_export: bool = False
    """Whether it is an export, in which an anonymous run stays anonymous because the file may be passed on."""
    is_limited: bool = False
    """Whether it gets structure and numbers only, of every run that it may see."""
    is_user: bool = False
    """Whether it is the user who started the dashboard, who sees all runs of its tenants."""
    tenants: frozenset[str] = frozenset()
    """The tenants that the dashboard shows. A run of another tenant does not exist for any of its viewers."""
    run_id: str | None = None
    """The only run that a shared link gives access to."""


OWNER = Viewer(is_owner=True)
"""The user at the terminal."""
EXPORT = Viewer(is_owner=True, is_export=True)
"""A report or an export that the user makes."""
STRUCTURE = Viewer(is_owner=True, is_export=True, is_limited=True)
"""An export of structure and numbers, whatever the visibility of the run."""


def visible_level(viewer: Viewer, head: RunHead) -> Level | None:
    """Return how much of a run a viewer sees; None for nothing, not even that the run exists."""
    visibility = head.metadata.visibility
    if not viewer.is_owner and head.metadata.tenant_id not in viewer.tenants:
        return None
    if viewer.is_owner or viewer.is_user:
        is_anonymous = viewer.is_limited or (viewer.is_export and visibility == "anonymous")
        return "anonymous" if is_anonymous else "whole"
    if viewer.run_id not in (None, head.run_id):
        return None
    has_link = viewer.run_id is not None
    allowed: dict[Visibility, Level | None] = {
        "public": "whole",
        "anonymous": "anonymous",
        "shared": "whole" if has_link else None,
    }
    return allowed.get(visibility)
