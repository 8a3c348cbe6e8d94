"""The offline report: the pages of a run as one HTML file that needs no server and no network.

Each page is rendered as for a browser, with the permissions that the run's visibility grants, and becomes a part of the
file. The same run gives the same bytes: the file contains no time of creation.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from critiqor import __version__
from critiqor.dashboard.data.event_index import Numbered
from critiqor.dashboard.data.event_sample import AROUND, MAX_JSON, Choice, choose
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.run_pages import RunPages
from critiqor.dashboard.pages.site import PACKAGE_FOLDER, Site
from critiqor.dashboard.pages.timeline_page import TimelinePage
from critiqor.dashboard.render.formatting import raw
from critiqor.dashboard.render.offline_fragments import Anchors, FragmentExtractor, find_stylesheets
from critiqor.errors import BrokenRecordError
from critiqor.model import Claim, Diagnosis, Finding
from critiqor.model.timeline import line_of_id
from critiqor.privacy.visibility import EXPORT
from critiqor.run.store import Run

PARTS = {
    "overview": "Overview",
    "diagnosis": "Diagnosis",
    "timeline": "Timeline",
    "context": "Memory and context",
    "playbook": "Playbook",
    "evidence": "Evidence",
}
"""The pages in the file, by the last segment of their address."""
MAX_FINDINGS = 1000
"""Findings per page: more than a diagnosis lists, so that all findings are on one page."""
EVENTS = 50
"""Events that are shown at once."""
MAX_LINES = 100
"""Maximum number of cited lines of OpenClaw's timeline."""
INDEX_SECONDS = 600.0
"""Maximum time to wait for the index of the run, which the chart and the quoted events need."""
_CHUNK = 1 << 16
_STYLE, _SCRIPTS = "offline.css", ("theme.js", "offline.js")


def offline_pages(run: Run) -> Iterator[bytes]:
    """Render the file in chunks. A run without a diagnosis raises an error before the first chunk."""
    return _OfflineReport(run).chunks()


class _Sample(NamedTuple):
    """The evidence in the file."""

    choice: Choice
    lines: dict[str, Markup]
    """Cited lines of OpenClaw's timeline as recorded, by their ids."""
    problem: str | None
    """Why the evidence cannot be read; None if it can."""


class _OfflineReport:
    """The report of one run."""

    def __init__(self, run: Run) -> None:
        # The port is used only in addresses, which do not end up in the file.
        self._site = Site(run.store, 0)
        view = self._site.catalog.open(run.id, EXPORT)
        self._diagnosis: Diagnosis = view.require_diagnosis()
        self._site.indexes.index_of(view, INDEX_SECONDS)
        self._run_id = run.id
        self._data = RunPageData(view, self._site.indexes)

    def chunks(self) -> Iterator[bytes]:
        diagnosis = self._data.diagnosis or self._diagnosis
        findings = diagnosis.failure_analysis.findings
        sample = self._sample(findings, diagnosis.claims)
        anchors = Anchors(self._run_id, PARTS, {*sample.choice.events.values(), *sample.lines})
        pages = RunPages(self._site, MAX_FINDINGS)
        overview = self._render(pages.overview)
        parts = FragmentExtractor(anchors, {*PARTS, "main", "top", "run-nav", "site-nav", "theme-switch", "events"})
        pages_html = {
            "overview": parts.extract("overview", overview),
            "diagnosis": parts.extract("diagnosis", self._render(pages.diagnosis)),
            "timeline": parts.extract("timeline", self._render(TimelinePage(self._site).page)),
            "context": parts.extract("context", self._render(pages.context)),
            "playbook": parts.extract("playbook", self._render(pages.playbook)),
        }
        unseen = "" if sample.problem else parts.extract("evidence", self._render(pages.evidence), root="unseen")
        style, script = _style(overview), _text(*_SCRIPTS)
        text = self._site.template("offline.html").generate(
            run_data=self._data,
            version=__version__,
            part_names=PARTS,
            pages=pages_html,
            unseen=unseen,
            style=Markup(style),
            script=Markup(script),
            icon=f"data:image/svg+xml,{quote(_text('icon.svg'))}",
            policy=_policy(style, script),
            events=self._events(sample.choice),
            choice=sample.choice,
            around=AROUND,
            events_per_page=EVENTS,
            lines=sample.lines,
            problem=sample.problem,
            citing=_citing(findings),
        )
        return _encode(text)

    def _render(self, page: Callable[[Request], Response]) -> str:
        """Render a page for this viewer."""
        scope = {"type": "http", "query_string": b"", "headers": [], "path_params": {"run_id": self._run_id}}
        return bytes(page(Request({**scope, "state": {"viewer": EXPORT}})).body).decode()

    def _sample(self, findings: list[Finding], claims: list[Claim]) -> _Sample:
        named = [name for finding in findings for name in finding.cited_events]
        cited = dict.fromkeys([*named, *(name for claim in claims for name in (claim.event_id, *claim.evidence))])
        found = {name: self._data.timeline_line(name) for name in _timeline_lines(cited)}
        lines = {name: _format_json(line) for name, line in found.items() if line is not None}
        try:
            return _Sample(choose(self._data.every_event(), cited), lines, None)
        except BrokenRecordError as error:
            # The diagnosis can still be shown.
            return _Sample(Choice({}, 0, fits=True), lines, self._data.why_unreadable(error))

    def _events(self, choice: Choice) -> Iterator[tuple[Numbered, int, Markup]]:
        """Yield the sampled events, the number of events left out before each, and each as JSON."""
        before = 0
        last = max(choice.events, default=0)
        for each in self._data.every_event() if last else ():
            if each.number in choice.events:
                yield each, each.number - before - 1, _format_json(msgspec.to_builtins(each.event))
                before = each.number
            if each.number == last:
                return


def _timeline_lines(cited: dict[str, None]) -> list[str]:
    return [name for name in cited if line_of_id(name) is not None][:MAX_LINES]


def _citing(findings: list[Finding]) -> dict[str, list[Finding]]:
    """Return the findings that cite an event, by the id of the event."""
    citing: dict[str, list[Finding]] = {}
    for finding in findings:
        for name in finding.cited_events:
            citing.setdefault(name, []).append(finding)
    return citing


def _format_json(value: Any) -> Markup:
    return raw(value, MAX_JSON)


def _style(page: str) -> str:
    """Return the styles of the dashboard and those of the offline report."""
    names = [address.removeprefix("/static/") for address in find_stylesheets(page)]
    return _text(*names, _STYLE)


def _text(*names: str) -> str:
    return "\n".join((PACKAGE_FOLDER / "static" / name).read_text(encoding="utf-8").strip() for name in names)


def _policy(style: str, script: str) -> str:
    """Return a content security policy that allows no requests and only the script of the file."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _encode(texts: Iterator[str]) -> Iterator[bytes]:
    pending: list[str] = []
    size = 0
    for text in texts:
        pending.append(text)
        size += len(text)
        if size > _CHUNK:
            yield "".join(pending).encode()
            pending, size = [], 0
    yield "".join(pending).encode()
