"""A page of the dashboard as a part of one file.

What a server or a program gives life to is taken out: navigation, forms, buttons, scripts, and whatever a template
marks with `data-online`. Addresses become places in the file. Only what our own templates wrote is read here, in which
every text of an agent is escaped; texts go through as they stand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote

from markupsafe import Markup, escape

from critiqor.dashboard.render.formatting import segment

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ONLINE = {"nav", "form", "button", "script", "style", "link", "iframe", "img", "object", "embed", "video", "audio"}
_ONLINE_ATTRIBUTES = {"data-online", "aria-live"}
_REFERENCES = {"aria-labelledby", "aria-describedby", "aria-controls", "for", "headers"}
_REQUESTS = {"src", "srcset", "action", "formaction", "ping", "poster", "style", "data-stream"}


class Places(NamedTuple):
    """What is in the file, and where."""

    run_id: str
    parts: Collection[str]
    """The pages, by the last part of their address; that of the overview is `overview`."""
    events: Collection[str]

    def of(self, address: str) -> str | None:
        """The place in the file that an address of the dashboard leads to; None where that is not in the file."""
        path, _, fragment = address.partition("#")
        path = path.partition("?")[0]
        base = f"/runs/{self.run_id}"
        name = "overview" if path == base else path.removeprefix(f"{base}/")
        if name in self.parts:
            return f"#{fragment or name}"
        event_id = unquote(name.removeprefix("events/"))
        return f"#event-{segment(event_id)}" if name.startswith("events/") and event_id in self.events else None


class _Tag(NamedTuple):
    name: str
    attributes: dict[str, str | None]
    is_closed: bool
    """Whether it ends where it starts."""


class _Reader(HTMLParser):
    """Takes what is inside of one element of a page."""

    def __init__(self, root: str, instead: Mapping[str, Markup]) -> None:
        super().__init__(convert_charrefs=False)
        self._root = root
        self._instead = instead
        self._within: list[str] = []
        """The root and, inside of it, what is left out: names of the elements whose end is awaited."""
        self._nested: list[int] = []
        self.pieces: list[str | _Tag] = []
        self.stylesheets: list[str] = []

    @property
    def _is_taking(self) -> bool:
        return len(self._within) == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, dict(attrs), is_closed=False)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, dict(attrs), is_closed=True)

    def _start(self, tag: str, attributes: dict[str, str | None], *, is_closed: bool) -> None:
        if tag == "link" and attributes.get("rel") == "stylesheet":
            self.stylesheets.append(attributes.get("href") or "")
        has_end = not is_closed and tag not in _VOID
        if not self._within:
            if self._root in (tag, attributes.get("id")) and has_end:
                self._await(tag)
        elif not self._is_taking:
            self._nested[-1] += tag == self._within[-1] and has_end
        elif tag in _ONLINE or not _ONLINE_ATTRIBUTES.isdisjoint(attributes):
            if has_end:
                self._await(tag)
        elif (name := attributes.get("id")) is not None and name in self._instead:
            self.pieces.append(self._instead[name])
            if has_end:
                self._await(tag)
        else:
            self._nested[-1] += tag == self._within[-1] and has_end
            self.pieces.append(_Tag(tag, attributes, is_closed))

    def _await(self, tag: str) -> None:
        self._within.append(tag)
        self._nested.append(0)

    def handle_endtag(self, tag: str) -> None:
        if self._within and tag == self._within[-1]:
            if self._nested[-1] == 0:
                self._within.pop()
                self._nested.pop()
                return
            self._nested[-1] -= 1
        if self._is_taking and tag not in _VOID:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._is_taking:
            self.pieces.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


class PageParts:
    """Parts of one file, whose ids stay apart."""

    def __init__(self, places: Places, taken: Collection[str]) -> None:
        self._places = places
        self._taken = set(taken)

    def part(self, name: str, page: str, root: str = "main", instead: Mapping[str, Markup] | None = None) -> Markup:
        """What is inside of an element, named by its tag or its id; other content instead of some, by their ids."""
        reader = _read(page, root, instead or {})
        ids = {piece.attributes.get("id") or "" for piece in reader.pieces if isinstance(piece, _Tag)} - {""}
        renamed = {one: f"{name}-{one}" for one in ids & self._taken}
        self._taken |= ids
        written = (piece if isinstance(piece, str) else self._tag(piece, renamed) for piece in reader.pieces)
        return Markup("".join(written))

    def _tag(self, tag: _Tag, renamed: Mapping[str, str]) -> str:
        told = []
        for name, value in tag.attributes.items():
            new = value
            if name in _REQUESTS or name.startswith("on"):
                continue
            if name in ("href", "xlink:href"):
                new = self._place(value or "", renamed)
                if new is None:
                    continue
            elif name == "id":
                new = renamed.get(value or "", value)
            elif name in _REFERENCES:
                new = " ".join(renamed.get(one, one) for one in (value or "").split())
            told.append(f" {name}" if new is None else f' {name}="{escape(new)}"')
        return f"<{tag.name}{''.join(told)}{'/' * tag.is_closed}>"

    def _place(self, address: str, renamed: Mapping[str, str]) -> str | None:
        if address.startswith("#"):
            return f"#{renamed.get(address[1:], address[1:])}"
        return self._places.of(address)


def stylesheets_of(page: str) -> list[str]:
    """The addresses of what a page is styled with."""
    return _read(page, "main", {}).stylesheets


def _read(page: str, root: str, instead: Mapping[str, Markup]) -> _Reader:
    reader = _Reader(root, instead)
    reader.feed(page)
    reader.close()
    return reader
