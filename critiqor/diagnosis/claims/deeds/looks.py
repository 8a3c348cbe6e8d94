"""What a look brought: content, references to content that was not shown, or nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.signals.outputs import finds_nothing
from critiqor.diagnosis.signals.text import decode_json
from critiqor.diagnosis.signals.tool_calls import words_of_tool
from critiqor.spans.calls import Kind

MAX_WALL = 2_000
"""Maximum number of characters of a page that is only a wall in front of another one."""
MAX_HOLLOW = 300
"""Maximum number of characters of a JSON answer that holds nothing."""
MIN_SNIPPET = 40
"""Minimum number of characters that show something of what a reference leads to."""
MAX_REFERENCES = 60
_WALL = re.compile(
    r"subscri(?:be|ption|bers?)\b|\bsign in to\b|\blog ?in to\b|already a (?:member|subscriber)|\bpaywall|(?:get"
    r"|full) access\b"
    r"|\baccess (?:denied|required)|just a moment|verif\w+ (?:that )?you are (?:a )?human|are you (?:a )?(?:human"
    r"|robot)"
    r"|captcha|enable (?:javascript|cookies)|unusual traffic|preview only|\bfull text\b.{0,40}(?:sign|log|purchase"
    r"|access)"
    r"|abonnieren|abonnent|anmelden, um|abonnez-vous|réservé aux abonnés|suscr[ií]b|solo para suscriptores|assin(?:e"
    r"|antes)\b"
    r"|abbonati|riservato agli abbonati|abonnees|alleen voor abonnees|zaloguj się|dla prenumerator|оформите подписку"
    r"|только для подписчиков|abone ol|prenumerera|登录后|订阅后|会員限定|有料会員|구독자 전용|로그인 후|للمشتركين",
    re.IGNORECASE,
)
"""What a page says that shows its content only to others, or to people."""
_EXIT = re.compile(r"\(?command exited with code \d+\)?", re.IGNORECASE)
_REFERS = frozenset(
    (
        *("search", "find", "list", "browse", "ls", "glob", "tree", "dir", "folder", "directory", "files", "lookup"),
        *("buscar", "listar", "chercher", "lister", "suche", "suchen", "cerca", "elenca", "zoek", "szukaj", "ara"),
    )
)
"""Words of tools that return references: hits of a search, names of files."""
_LISTING = re.compile(r"\s*(?:cd \S+ && )?(?:ls|find|tree|fd|dir|rg -l|grep -\w*l)\b")
_KEY = re.compile(
    r"(?:https?://)?(?:[\w-]+\.)+[a-z]{2,}(?:/[^\s<>\"')\]]*)?|[\w%+~/-][\w.%+~/-]*\.[A-Za-z]\w{1,4}\b", re.UNICODE
)
"""An address or the name of a file."""
_CONTENTS = frozenset(
    ("snippet", "description", "content", "text", "summary", "body", "excerpt", "abstract", "extract")
)


class Reference(msgspec.Struct, frozen=True):
    """Something that a look named without showing it."""

    key: str
    """Its address or the name of its file, in lower case."""
    text: str
    """How it was named, in lower case."""


def brought_nothing(call: EpisodeCall) -> bool:
    """Return whether a call failed, or returned nothing that says anything."""
    if call.meaning.state == "failure":
        return True
    text = _EXIT.sub("", call.text).strip()
    return not text or finds_nothing(call.text) or _is_hollow(text) or is_wall(call)


def is_wall(call: EpisodeCall) -> bool:
    """Return whether a page says that it shows its content only to others."""
    return call.kind is Kind.LOOKUP and len(call.text) <= MAX_WALL and _WALL.search(call.text) is not None


def _is_hollow(text: str) -> bool:
    """Return whether a JSON answer holds nothing but empty lists, and short values about the call."""
    if text[:1] not in ("[", "{") or "[]" not in text.replace(" ", "") or len(text) > MAX_HOLLOW:
        return False
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return False
    members = value.values() if isinstance(value, dict) else ()
    return not any(isinstance(member, dict | list) and member for member in members)


def refers_only(call: EpisodeCall) -> bool:
    """Return whether a call lists or searches: what it names was not opened by it."""
    if call.line:
        return _LISTING.match(call.line) is not None
    return call.kind is Kind.LOOKUP and not words_of_tool(call.tool).isdisjoint(_REFERS)


def is_answered_search(call: EpisodeCall) -> bool:
    """Return whether a look at something was only a search: it found a name, and showed no more of it."""
    return refers_only(call) and not brought_nothing(call) and bool(references(call))


def references(call: EpisodeCall) -> list[Reference]:
    """Return what a search or a listing names without showing more of it than its name."""
    if not refers_only(call):
        return []
    found = _in_json(call.text) if call.text.lstrip()[:1] in ("{", "[") else _in_lines(call.text)
    return [one for one, _ in zip(found, range(MAX_REFERENCES), strict=False)]


def _in_lines(text: str) -> Iterator[Reference]:
    lines = [line for line in text.lower().splitlines() if line.strip()]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        key = _KEY.search(line)
        if key is None:
            continue
        rest = _KEY.sub("", after)
        has_snippet = _KEY.search(after) is None and len(rest.strip()) >= MIN_SNIPPET
        if not has_snippet:
            yield Reference(key[0], line)


def _in_json(text: str) -> Iterator[Reference]:
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return
    lists = [value] if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    for record in (record for entries in lists if isinstance(entries, list) for record in entries):
        if isinstance(record, str):
            yield from (Reference(record.lower(), record.lower()) for _ in (0,) if _KEY.fullmatch(record.lower()))
        elif isinstance(record, dict):
            shown = [value for name, value in record.items() if name.lower() in _CONTENTS and isinstance(value, str)]
            named = " ".join(value for value in record.values() if isinstance(value, str)).lower()
            key = _KEY.search(named)
            if key is not None and not any(len(value) >= MIN_SNIPPET for value in shown):
                yield Reference(key[0], named)


def folded(text: str) -> str:
    """Return a text in lower case without accents: file names often lack them."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in plain if not unicodedata.combining(char)).replace("ı", "i")
