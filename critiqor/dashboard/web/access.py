"""Who may see which run, and how much of it. Every page checks this before it reads anything of a run.

The dashboard shows the runs of the tenants named at start, and nobody sees any other run. The user who started it holds
the token of the opened link. Others hold a link to one run, or nothing; what they see depends on the visibility of the
run at that moment.
"""

from __future__ import annotations

import hmac
import secrets

from critiqor.dashboard.web.links import Links
from critiqor.privacy.visibility import Viewer


class Access:
    """The valid tokens: those created at start, and those of shared links that are not revoked."""

    def __init__(self, links: Links, *, is_token_required: bool = False) -> None:
        self.links = links
        self.is_token_required = is_token_required
        """Whether requests without a token are refused, even for public runs."""
        self._users: dict[str, Viewer] = {}
        self._tenants: frozenset[str] = frozenset()

    def admit(self, *tenants: str) -> str:
        """Create a token for the user, and show the runs of these tenants to everybody who may see them."""
        token = secrets.token_urlsafe(32)
        self._users[token] = Viewer(is_user=True, tenants=frozenset(tenants))
        self._tenants |= frozenset(tenants)
        return token

    def viewer(self, token: str | None) -> Viewer | None:
        """Return the viewer of a token; None if the token is invalid, or if it is missing and required.

        An invalid token is refused even if no token is required, so that a revoked link does not look valid.
        """
        if token is None:
            return None if self.is_token_required else Viewer(tenants=self._tenants)
        for known, viewer in self._users.items():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
                return viewer
        run_id = self.links.run_of(token)
        return None if run_id is None else Viewer(tenants=self._tenants, run_id=run_id)
