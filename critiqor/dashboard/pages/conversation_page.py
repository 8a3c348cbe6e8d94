"""The conversation of a session: what was said and done, in order, with the findings where they happened."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from critiqor.conversation.entries import Session
from critiqor.dashboard.data.conversation_source import Shown
from critiqor.dashboard.data.conversations import ENTRIES, Conversations
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.run_addresses import session_key_of
from critiqor.dashboard.pages.site import Site
from critiqor.search.terms import Search

SHOWN: dict[Shown, str] = {"": "Everything", "messages": "Messages", "tools": "Tool calls", "problems": "Problems"}


class ConversationPage:
    """`/runs/{run}/sessions/{session}?event=…&q=…&show=…&page=…`, and `/runs/{run}/conversation` for the main one."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def main(self, request: Request) -> Response:
        """Show the conversation of the session to look at first."""
        data = self._site.run_data(request)
        return self._render(request, data, Conversations(data).main())

    def page(self, request: Request) -> Response:
        """Show the conversation of the session in the address."""
        data = self._site.run_data(request)
        name = session_key_of(request.path_params["session"])
        session = Conversations(data).find(name)
        if session is None and not data.conversations.is_complete:
            data.conversations_with_index()
            session = Conversations(data).find(name)
        if session is None:
            raise HTTPException(404, "There is no such session in this run.")
        return self._render(request, data, session)

    def _render(self, request: Request, data: RunPageData, session: Session | None) -> Response:
        query = request.query_params
        text = "" if data.is_anonymous else query.get("q", "").strip()
        shown: Shown = next((each for each in get_args(Shown) if each == query.get("show", "")), "")
        event_id, number = query.get("event", ""), page_number(query.get("page"))
        if not data.conversations.is_complete and (text or shown or event_id or number > 1):
            data.conversations_with_index()
        conversations = Conversations(data)
        values = {"q": text, "show": shown}
        if session is None:
            return self._page(request, data, conversations, session, values)
        wanted = conversations.filter(session, shown, text)
        if event_id and (place := conversations.source.place(wanted, event_id)) is not None:
            number = place // ENTRIES + 1
        entries, total = conversations.entries(wanted, (number - 1) * ENTRIES)
        path = data.addresses.session(conversations.name(session))
        kept = urlencode({name: value for name, value in values.items() if value})
        pages = Pages(number, ENTRIES, total, path, kept)
        if not entries and total:
            pages = pages.within()
            entries, total = conversations.entries(wanted, pages.offset)
        return self._page(request, data, conversations, session, values, entries=entries, pages=pages, path=path)

    def _page(
        self,
        request: Request,
        data: RunPageData,
        conversations: Conversations,
        session: Session | None,
        query: dict[str, str],
        **values: Any,
    ) -> Response:
        return self._site.page(
            request,
            "conversation.html",
            run_data=data,
            current="conversation",
            diagnosis=data.diagnosis,
            conversations=conversations,
            session=session,
            name=None if session is None else conversations.name(session),
            judged=None if session is None else conversations.judged.get(conversations.name(session)),
            findings=[] if session is None else conversations.findings(session),
            parent=None if session is None else conversations.parent(session),
            query=query,
            search=Search(query["q"]).pattern,
            choices=SHOWN,
            **values,
        )
