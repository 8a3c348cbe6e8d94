"""Who may see which run, and how much of it. Every page checks this before it reads anything of a run.

The user who started the dashboard holds the token of the opened link, which is valid for the tenants named at start.
Others hold a link to one run, or nothing; what they see depends on the visibility of the run at that moment.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from critiqor.dashboard.web.links import Links

Level = Literal["whole", "anonymous"]
"""How much of a run is shown: everything, or structure and numbers only."""


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions of a request, as its token grants them."""

    tenants: frozenset[str] = frozenset()
    """Tenants whose runs the viewer owns; empty for everybody but the user."""
    run_id: str | None = None
    """The run of a shared link."""

    @property
    def is_user(self) -> bool:
        """Whether this is the user who started the dashboard."""
        return bool(self.tenants)


ANYONE = Viewer()
"""A viewer without a token."""


class Access:
    """The valid tokens: those created at start, and those of shared links that are not revoked."""

    def __init__(self, links: Links, *, is_token_required: bool = False) -> None:
        self.links = links
        self.is_token_required = is_token_required
        """Whether requests without a token are refused, even for public runs."""
        self._users: dict[str, Viewer] = {}

    def admit(self, *tenants: str) -> str:
        """Create a token for the runs of these tenants."""
        token = secrets.token_urlsafe(32)
        self._users[token] = Viewer(tenants=frozenset(tenants))
        return token

    def viewer(self, token: str | None) -> Viewer | None:
        """Return the viewer of a token; None if the token is invalid, or missing where one is required.

        An invalid token is refused even where no token is needed, so that a revoked link does not look valid.
        """
        if token is None:
            return None if self.is_token_required else ANYONE
        for known, viewer in self._users.items():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
                return viewer
        run_id = self.links.run_of(token)
        return None if run_id is None else Viewer(run_id=run_id)


def level(viewer: Viewer, head: Mapping[str, Any]) -> Level | None:
    """Return how much of a run a viewer sees; None for nothing, not even that the run exists."""
    metadata = head["metadata"]
    if viewer.is_user:
        return "whole" if metadata["tenant_id"] in viewer.tenants else None
    if viewer.run_id not in (None, head["run_id"]):
        return None
    has_link = viewer.run_id is not None
    allowed: dict[str, Level | None] = {
        "public": "whole",
        "anonymous": "anonymous",
        "shared": "whole" if has_link else None,
    }
    return allowed.get(metadata["visibility"])
