"""Who may see which run, and how much of it. Every page asks here before it reads anything of a run.

The user of this machine holds the token of the opened link, which belongs to the tenants that were named at start.
Somebody else holds a link to one run, or nothing. What those see is what the run's own visibility says, at the moment
of asking.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from critiqor.dashboard.web.links import Links

Level = Literal["whole", "anonymous"]
"""How much of a run is shown: all of it, or structure and figures alone."""


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who looks, as far as a token tells."""

    tenants: frozenset[str] = frozenset()
    """Whose runs are this viewer's own; empty for anybody but the user."""
    run_id: str | None = None
    """The one run that a shared link leads to."""

    @property
    def is_user(self) -> bool:
        """Whether it is the one who started the dashboard."""
        return bool(self.tenants)


STRANGER = Viewer()
"""Somebody without any token."""


class Access:
    """The tokens that are good: those made at start, and those of shared links that were not revoked."""

    def __init__(self, links: Links, *, is_token_required: bool = False) -> None:
        self.links = links
        self.is_token_required = is_token_required
        """Whether somebody without a token sees nothing at all, whatever the visibility of a run."""
        self._users: dict[str, Viewer] = {}

    def admit(self, *tenants: str) -> str:
        """A new token for the runs of these tenants."""
        token = secrets.token_urlsafe(32)
        self._users[token] = Viewer(tenants=frozenset(tenants))
        return token

    def viewer(self, token: str | None) -> Viewer | None:
        """Who holds this token; None for one that is not good, which is worse than having none where none will do."""
        if token is None:
            return None if self.is_token_required else STRANGER
        for known, viewer in self._users.items():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
                return viewer
        run_id = self.links.run_of(token)
        return None if run_id is None else Viewer(run_id=run_id)


def level(viewer: Viewer, head: Mapping[str, Any]) -> Level | None:
    """How much of a run somebody sees; None for nothing, not even that there is such a run."""
    metadata = head["metadata"]
    if viewer.is_user:
        return "whole" if metadata["tenant_id"] in viewer.tenants else None
    if viewer.run_id not in (None, head["run_id"]):
        return None
    holds_link = viewer.run_id is not None
    allowed: dict[str, Level | None] = {
        "public": "whole",
        "anonymous": "anonymous",
        "shared": "whole" if holds_link else None,
    }
    return allowed.get(metadata["visibility"])
