"""Where the parts of a run are to be found."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from critiqor.dashboard.render.formatting import segment
from critiqor.model import Finding
from critiqor.model.timeline import cited_line

FINDINGS = 20
"""Findings on one page."""


class RunAddresses:
    """The addresses of one run, as they stand in its pages."""

    def __init__(self, run_id: str, findings: Sequence[Finding] = (), *, has_lines: bool = True) -> None:
        self._run = f"/runs/{run_id}"
        self._has_lines = has_lines
        """Whether lines of OpenClaw's timeline can be looked at."""
        self._places = {finding.id: place for place, finding in enumerate(findings)}

    def page(self, name: str = "", **asked: str | int) -> str:
        """A page by its name, the overview by none; what it is asked for stands behind it."""
        query = urlencode({key: value for key, value in asked.items() if value})
        return f"{self._run}{'/' * bool(name)}{name}{'?' * bool(query)}{query}"

    def event(self, event_id: str) -> str | None:
        """An event, or a line of the timeline; None where there is no page of it."""
        if not self._has_lines and cited_line(event_id) is not None:
            return None
        return f"{self._run}/events/{segment(event_id)}"

    def finding(self, finding_id: str) -> str:
        """A finding, on the page of the diagnosis that has it."""
        page = self._places.get(finding_id, 0) // FINDINGS + 1
        return f"{self.page('diagnosis', page=page if page > 1 else 0)}#{finding_id}"
