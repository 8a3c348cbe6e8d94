"""What a look brought: content, names of things whose content was not shown, or nothing."""

from __future__ import annotations

import re

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


def brought_nothing(call: EpisodeCall) -> bool:
    """Return whether a look has shown nothing: the call failed, or returned nothing that says anything."""
    if call.meaning.state == "failure":
        return True
    text = _EXIT.sub("", call.text).strip()
    return not text or finds_nothing(call.text) or _is_hollow(text) or _is_wall(call)


def _is_wall(call: EpisodeCall) -> bool:
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


def _refers_only(call: EpisodeCall) -> bool:
    """Return whether a call lists or searches: what it names was not opened by it."""
    if call.line:
        return _LISTING.match(call.line) is not None
    return call.kind is Kind.LOOKUP and not words_of_tool(call.tool).isdisjoint(_REFERS)


def is_answered_search(call: EpisodeCall) -> bool:
    """Return whether a look at something was only a search: it found a name, and showed no more of it."""
    if not _refers_only(call) or brought_nothing(call):
        return False
    return _is_named_in_json(call.text) if call.text.lstrip()[:1] in ("{", "[") else _is_named_in_lines(call.text)


def _is_named_in_lines(text: str) -> bool:
    lines = [line for line in text.lower().splitlines() if line.strip()]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        has_snippet = _KEY.search(after) is None and len(after.strip()) >= MIN_SNIPPET
        if not has_snippet and _KEY.search(line) is not None:
            return True
    return False


def _is_named_in_json(text: str) -> bool:
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return False
    lists = [value] if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return any(_is_only_named(record) for entries in lists if isinstance(entries, list) for record in entries)


def _is_only_named(record: object) -> bool:
    """Return whether an entry of a list is an address or the name of a file, without anything of its content."""
    if isinstance(record, str):
        return _KEY.fullmatch(record.lower()) is not None
    if not isinstance(record, dict):
        return False
    texts = {name.lower(): value for name, value in record.items() if isinstance(value, str)}
    is_shown = any(len(value) >= MIN_SNIPPET for name, value in texts.items() if name in _CONTENTS)
    return not is_shown and any(_KEY.search(value.lower()) for value in texts.values())
