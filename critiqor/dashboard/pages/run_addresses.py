"""Addresses of the pages, events and findings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlencode

from critiqor.dashboard.web.links import path_segment
from critiqor.model import Finding
from critiqor.model.timeline import line_of_id

FINDINGS = 20
"""Number of findings per page."""


NO_SESSION = "-"
"""The last segment of the address of a conversation that belongs to no session."""
_PREFIX = "key:"


def session_segment(key: str | None) -> str:
    """Return the key of a session as the last segment of an address.

    Browsers remove a segment of dots, and a single sign means that there is no session.
    """
    return NO_SESSION if key is None else path_segment(_PREFIX + key if _needs_prefix(key) else key)


def session_key_of(segment: str) -> str | None:
    """Return the key of a session from the last segment of an address."""
    if segment == NO_SESSION:
        return None
    return segment.removeprefix(_PREFIX) if _needs_prefix(segment) else segment


def _needs_prefix(key: str) -> bool:
    return set(key.replace(_PREFIX, "")) <= {".", NO_SESSION}


class RunAddresses:
    """The addresses of one run, for links on its pages."""

    def __init__(
        self, run_id: str, findings: Sequence[Finding] = (), *, has_lines: bool = True, overview: str | None = None
    ) -> None:
        self._run = overview or f"/runs/{run_id}"
        self._has_lines = has_lines
        """Whether lines of OpenClaw's timeline have pages."""
        self._places = {finding.id: place for place, finding in enumerate(findings)}

    def page(self, name: str = "", **parameters: str | int) -> str:
        """Return the address of a page by its name, or of the overview, with query parameters."""
        query = urlencode({key: value for key, value in parameters.items() if value})
        return f"{self._run}{'/' * bool(name)}{name}{'?' * bool(query)}{query}"

    def event(self, event_id: str) -> str | None:
        """Return the address of an event or a timeline line; None if it has no page."""
        if not self._has_lines and line_of_id(event_id) is not None:
            return None
        return f"{self._run}/events/{path_segment(event_id)}"

    def session(self, key: str | None, event_id: str = "", **parameters: str | int) -> str:
        """Return the address of the conversation of a session, or of one of its events there."""
        anchor = f"#{path_segment(event_id)}" if event_id else ""
        return self.page(f"sessions/{session_segment(key)}", event=event_id, **parameters) + anchor

    def session_part(self, name: str, key: str | None) -> str:
        """Return the address of a page that shows only one session."""
        return self.page(name, session=unquote(session_segment(key)))

    def finding(self, finding_id: str) -> str:
        """Return the address of a finding, on its page of the diagnosis."""
        page = self._places.get(finding_id, 0) // FINDINGS + 1
        return f"{self.page('diagnosis', page=page if page > 1 else 0)}#{finding_id}"
