"""The pages of a run as one file that needs no server, no network and no program.

Each page is asked for as a browser would ask, by a viewer who may see as much as the run's visibility lets out, and
becomes a part of the file. The same run gives the same bytes: nothing tells when the file was made.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from critiqor import __version__
from critiqor.dashboard.data.event_index import Numbered
from critiqor.dashboard.data.event_sample import AROUND, LONGEST_JSON, Choice, choose
from critiqor.dashboard.data.run_view import Showing
from critiqor.dashboard.pages.run_pages import RunPages
from critiqor.dashboard.pages.site import HERE, Site
from critiqor.dashboard.pages.timeline_page import TimelinePage
from critiqor.dashboard.render.causal_picture import BOX_HEIGHT, BOX_WIDTH, Picture, causal_picture
from critiqor.dashboard.render.formatting import raw
from critiqor.dashboard.render.html_fragment import PageParts, Places, stylesheets_of
from critiqor.dashboard.web.access import STRANGER, Viewer
from critiqor.errors import BrokenRecordError
from critiqor.exporters.findings import cited_by
from critiqor.model import Diagnosis, Finding
from critiqor.model.timeline import cited_line
from critiqor.storage import paths_for
from critiqor.storage import run_record as records

PARTS = {
    "overview": "Overview",
    "diagnosis": "Diagnosis",
    "timeline": "Timeline",
    "playbook": "Playbook",
    "evidence": "Evidence",
}
"""The pages that are in the file, by the last part of their address."""
MOST_FINDINGS = 1000
"""More than a diagnosis lists."""
MOST_LINES = 100
"""Cited lines of OpenClaw's timeline."""
INDEX_SECONDS = 600.0
"""How long the index of a run is waited for; the chart and the quotes come from it."""
_PIECE = 1 << 16
BOX = {"box_width": BOX_WIDTH, "box_height": BOX_HEIGHT}
_STYLE, _SCRIPTS = "offline.css", ("theme.js", "offline.js")


def offline_pages(run_id: str, runs_dir: str | Path) -> Iterator[bytes]:
    """The file, piece by piece. A run of which nothing was concluded is refused before the first one."""
    return _Offline(run_id, runs_dir).pieces()


class _Chosen(NamedTuple):
    """What of the evidence is in the file."""

    choice: Choice
    lines: dict[str, Markup]
    """Cited lines of OpenClaw's timeline as they were recorded, by their ids."""
    problem: str | None
    """Why the evidence cannot be read."""


class _Offline:
    """One run that is made into a file."""

    def __init__(self, run_id: str, runs_dir: str | Path) -> None:
        paths = paths_for(runs_dir)
        head = records.load_head(paths, run_id)
        # Nobody listens at a port; only the addresses in the pages are made of it, and those do not stay.
        self._site = Site(paths, 0)
        self._viewer = _viewer(head["metadata"])
        run = self._site.library.open(run_id, self._viewer)
        self._diagnosis: Diagnosis = run.diagnosis()
        self._site.shelf.index_of(run, INDEX_SECONDS)
        self._run_id = run_id
        self._showing = Showing(run, self._site.shelf)

    def pieces(self) -> Iterator[bytes]:
        diagnosis = self._showing.diagnosis or self._diagnosis
        findings = diagnosis.failure_analysis.findings
        chosen = self._chosen(findings)
        places = Places(self._run_id, PARTS, {*chosen.choice.events.values(), *chosen.lines})
        picture = causal_picture(diagnosis)
        pages = RunPages(self._site, MOST_FINDINGS)
        overview = self._asked(pages.overview)
        parts = PageParts(places, {*PARTS, "main", "top", "run-nav", "site-nav", "theme-switch", "events"})
        lifted = {
            "overview": parts.part("overview", overview),
            "diagnosis": parts.part(
                "diagnosis", self._asked(pages.diagnosis), instead={"graph": self._drawn(picture, places)}
            ),
            "timeline": parts.part("timeline", self._asked(TimelinePage(self._site).page)),
            "playbook": parts.part("playbook", self._asked(pages.playbook)),
        }
        unseen = "" if chosen.problem else parts.part("evidence", self._asked(pages.evidence), root="unseen")
        style, script = _style(overview), _text(*_SCRIPTS)
        text = self._site.template("offline.html").generate(
            showing=self._showing,
            version=__version__,
            part_names=PARTS,
            pages=lifted,
            unseen=unseen,
            style=Markup(style),
            script=Markup(script),
            icon=f"data:image/svg+xml,{quote(_text('icon.svg'))}",
            policy=_policy(style, script),
            events=self._events(chosen.choice),
            choice=chosen.choice,
            around=AROUND,
            lines=chosen.lines,
            problem=chosen.problem,
            citing=_citing(findings),
        )
        return _encoded(text)

    def _asked(self, page: Callable[[Request], Response]) -> str:
        """A page as this viewer gets it."""
        scope = {"type": "http", "query_string": b"", "headers": [], "path_params": {"run_id": self._run_id}}
        return bytes(page(Request({**scope, "state": {"viewer": self._viewer}})).body).decode()

    def _chosen(self, findings: list[Finding]) -> _Chosen:
        cited = dict.fromkeys(name for finding in findings for name in cited_by(finding))
        told = {name: self._showing.timeline_line(name) for name in _lines(cited)}
        lines = {name: _recorded(line) for name, line in told.items() if line is not None}
        try:
            return _Chosen(choose(self._showing.every_event(), cited), lines, None)
        except BrokenRecordError as error:
            # What was concluded can still be read.
            return _Chosen(Choice({}, 0, fits=True), lines, self._showing.why_unreadable(error))

    def _events(self, choice: Choice) -> Iterator[tuple[Numbered, int, Markup]]:
        """The chosen events, how many were left out before each, and each as it was recorded."""
        before = 0
        last = max(choice.events, default=0)
        for each in self._showing.every_event() if last else ():
            if each.number in choice.events:
                yield each, each.number - before - 1, _recorded(msgspec.to_builtins(each.event))
                before = each.number
            if each.number == last:
                return

    def _drawn(self, picture: Picture | None, places: Places) -> Markup:
        if picture is None:
            return Markup("")
        return Markup(self._site.template("offline_graph.html").render(picture=picture, places=places, **BOX))


def _viewer(metadata: dict[str, Any]) -> Viewer:
    """Somebody who sees of a run what it lets out: a file goes where nobody asks any more who looks."""
    return STRANGER if metadata["visibility"] == "anonymous" else Viewer(tenants=frozenset({metadata["tenant_id"]}))


def _lines(cited: dict[str, None]) -> list[str]:
    return [name for name in cited if cited_line(name) is not None][:MOST_LINES]


def _citing(findings: list[Finding]) -> dict[str, list[Finding]]:
    """The findings that rest on an event, by its id."""
    citing: dict[str, list[Finding]] = {}
    for finding in findings:
        for name in cited_by(finding):
            citing.setdefault(name, []).append(finding)
    return citing


def _recorded(value: Any) -> Markup:
    return raw(value, LONGEST_JSON)


def _style(page: str) -> str:
    """What the dashboard's pages are styled with, and what the file needs beside it."""
    named = [address.removeprefix("/static/") for address in stylesheets_of(page)]
    return _text(*named, _STYLE)


def _text(*names: str) -> str:
    return "\n".join((HERE / "static" / name).read_text(encoding="utf-8").strip() for name in names)


def _policy(style: str, script: str) -> str:
    """No request to anywhere, and no program but the one that is in here."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _encoded(texts: Iterator[str]) -> Iterator[bytes]:
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size > _PIECE:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()
