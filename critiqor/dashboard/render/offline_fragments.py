"""Fragments of dashboard pages for the offline report, which is one file.

What needs a server or a script is removed: navigation, forms, buttons, scripts, and elements that a template marks with
`data-online`. Addresses become anchors in the file. The input is the output of our own templates, in which all text of
an agent is already escaped; text is copied unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote

from markupsafe import Markup, escape

from critiqor.dashboard.web.links import path_segment

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ONLINE = {"nav", "form", "button", "script", "style", "link", "iframe", "img", "object", "embed", "video", "audio"}
_ONLINE_ATTRIBUTES = {"data-online", "aria-live"}
_REFERENCES = {"aria-labelledby", "aria-describedby", "aria-controls", "for", "headers"}
_REQUESTS = {"src", "srcset", "action", "formaction", "ping", "poster", "style", "data-stream"}


class Anchors(NamedTuple):
    """The pages and events in the offline report, and their anchors."""

    run_id: str
    parts: Collection[str]
    """The pages, by the last segment of their address; the overview is `overview`."""
    events: Collection[str]

    def find(self, address: str) -> str | None:
        """Return the anchor in the offline report for an address of the dashboard; None if its target is left out."""
        path, _, fragment = address.partition("#")
        path = path.partition("?")[0]
        base = f"/runs/{self.run_id}"
        name = "overview" if path == base else path.removeprefix(f"{base}/")
        if name in self.parts:
            return f"#{fragment or name}"
        event_id = unquote(name.removeprefix("events/"))
        return f"#event-{path_segment(event_id)}" if name.startswith("events/") and event_id in self.events else None


class _Tag(NamedTuple):
    name: str
    attributes: dict[str, str | None]
    is_closed: bool
    """Whether the tag is self-closing."""


class _Reader(HTMLParser):
    """Parser that collects the content of one element of a page."""

    def __init__(self, root: str) -> None:
        super().__init__(convert_charrefs=False)
        self._root = root
        self._open: list[str] = []
        """Tags of the open root element and of the open element inside it that is skipped."""
        self._nested: list[int] = []
        """Per open element: number of elements of the same tag that are open inside it."""
        self.pieces: list[str | _Tag] = []
        self.stylesheets: list[str] = []

    @property
    def _is_collecting(self) -> bool:
        return len(self._open) == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, dict(attrs), is_closed=False)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, dict(attrs), is_closed=True)

    def _start(self, tag: str, attributes: dict[str, str | None], *, is_closed: bool) -> None:
        if tag == "link" and attributes.get("rel") == "stylesheet":
            self.stylesheets.append(attributes.get("href") or "")
        has_end = not is_closed and tag not in _VOID
        if not self._open:
            if self._root in (tag, attributes.get("id")) and has_end:
                self._enter(tag)
        elif not self._is_collecting:
            self._nested[-1] += tag == self._open[-1] and has_end
        elif tag in _ONLINE or not _ONLINE_ATTRIBUTES.isdisjoint(attributes):
            if has_end:
                self._enter(tag)
        else:
            self._nested[-1] += tag == self._open[-1] and has_end
            self.pieces.append(_Tag(tag, attributes, is_closed))

    def _enter(self, tag: str) -> None:
        self._open.append(tag)
        self._nested.append(0)

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            if self._nested[-1] == 0:
                self._open.pop()
                self._nested.pop()
                return
            self._nested[-1] -= 1
        if self._is_collecting and tag not in _VOID:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._is_collecting:
            self.pieces.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


class FragmentExtractor:
    """Extracts fragments of pages, and keeps their ids unique within the file."""

    def __init__(self, anchors: Anchors, taken: Collection[str]) -> None:
        self._anchors = anchors
        self._taken = set(taken)

    def extract(self, name: str, page: str, root: str = "main") -> Markup:
        """Return the content of the element with the tag or id `root`."""
        reader = _parse(page, root)
        ids = {piece.attributes.get("id") or "" for piece in reader.pieces if isinstance(piece, _Tag)} - {""}
        renamed = {one: f"{name}-{one}" for one in ids & self._taken}
        self._taken |= ids
        written = (piece if isinstance(piece, str) else self._tag(piece, renamed) for piece in reader.pieces)
        return Markup("".join(written))

    def _tag(self, tag: _Tag, renamed: Mapping[str, str]) -> str:
        attributes = []
        for name, value in tag.attributes.items():
            new = value
            if name in _REQUESTS or name.startswith("on"):
                continue
            if name in ("href", "xlink:href"):
                new = self._anchor(value or "", renamed)
                if new is None:
                    continue
            elif name == "id":
                new = renamed.get(value or "", value)
            elif name in _REFERENCES:
                new = " ".join(renamed.get(one, one) for one in (value or "").split())
            attributes.append(f" {name}" if new is None else f' {name}="{escape(new)}"')
        return f"<{tag.name}{''.join(attributes)}{'/' * tag.is_closed}>"

    def _anchor(self, address: str, renamed: Mapping[str, str]) -> str | None:
        if address.startswith("#"):
            return f"#{renamed.get(address[1:], address[1:])}"
        return self._anchors.find(address)


def find_stylesheets(page: str) -> list[str]:
    """Return the addresses of the stylesheets that the fragments of a page need."""
    return _parse(page, "main").stylesheets


def _parse(page: str, root: str) -> _Reader:
    reader = _Reader(root)
    reader.feed(page)
    reader.close()
    return reader
