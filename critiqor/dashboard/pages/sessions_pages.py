"""Tables of sessions: those of one run, and those of all runs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from critiqor.conversation.entries import message_text
from critiqor.dashboard.data.conversation_source import IndexedConversations
from critiqor.dashboard.data.conversations import Conversations
from critiqor.dashboard.data.session_rows import (
    MAX_WORDS,
    SORTS,
    SessionFilter,
    SessionRow,
    run_session_rows,
    with_words,
)
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.pages.sorting import Sorting
from critiqor.model.diagnosis import READINESSES
from critiqor.model.sanitize import excerpt
from critiqor.privacy.visibility import Viewer

ROWS = 50
"""Number of sessions on one page."""
FILTERS = ("q", "verdict", "agent", "sort")


class SessionsPages:
    """`/runs/{run}/sessions` and `/sessions`, with `?q=…&verdict=…&agent=…&sort=…&page=…`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def of_run(self, request: Request) -> Response:
        """Show the sessions of a run with their last words, as a tree of subagents."""
        data = self._site.run_data(request)
        if not data.conversations.is_complete:
            data.conversations_with_index()
        conversations = Conversations(data)
        rows = run_session_rows(data, conversations)
        wanted = _wanted(request)
        if wanted.text and not data.is_anonymous:
            rows = with_words(conversations, rows)
        values = self._values(request, rows, wanted, data.addresses.page("sessions"))
        values["rows"] = with_words(conversations, values["rows"])
        values["addresses"] = {data.run_id: data.addresses}
        return self._site.page(
            request,
            "sessions.html",
            run_data=data,
            current="conversation",
            diagnosis=data.diagnosis,
            is_complete=conversations.source.is_complete,
            **values,
        )

    def of_all(self, request: Request) -> Response:
        """Show the sessions of all runs, the newest run first."""
        viewer = self._site.user(request)
        rows = [session for row in self._site.catalog.rows(viewer) for session in row.judged_sessions]
        values = self._values(request, rows, _wanted(request), "/sessions")
        values["rows"] = [self._with_request(row, viewer) for row in values["rows"]]
        return self._site.page(request, "sessions.html", is_complete=True, **values)

    def _with_request(self, row: SessionRow, viewer: Viewer) -> SessionRow:
        """Return a row with the first words of the user, if its run is indexed and the list has not found them."""
        if row.asked:
            return row
        index = self._site.indexes.ready(self._site.catalog.open(row.run_id, viewer))
        source = None if index is None else IndexedConversations(index)
        session = None if source is None else source.session(row.key)
        if source is None or session is None or session.request is None:
            return row
        [event] = source.events([session.request]).values()
        return row._replace(asked=excerpt(message_text(event), MAX_WORDS))

    def _values(self, request: Request, rows: list[SessionRow], wanted: SessionFilter, path: str) -> dict[str, Any]:
        found = wanted.apply(rows)
        query = {name: request.query_params[name] for name in FILTERS if request.query_params.get(name)}
        pages = Pages(page_number(request.query_params.get("page")), ROWS, len(found), path, urlencode(query)).within()
        shown = found[pages.offset : pages.offset + ROWS]
        return {
            "path": path,
            "rows": shown,
            "pages": pages,
            "wanted": wanted,
            "sorting": Sorting(path, query, tuple(SORTS)),
            "verdicts": [each for each in READINESSES if any(row.readiness == each for row in rows)],
            "agents": sorted({row.agent for row in rows}),
            "has_tasks": any(row.task for row in rows),
            "addresses": {row.run_id: RunAddresses(row.run_id) for row in shown},
        }


def _wanted(request: Request) -> SessionFilter:
    query = request.query_params
    names = {"text": "q", "verdict": "verdict", "agent": "agent", "sort": "sort"}
    return SessionFilter(**{field: query.get(name, "") for field, name in names.items()})
