"""The texts of a run that are searched in the index: request, final answers, titles of findings, claims.

They are bounded, and come from evidence and diagnoses that were redacted before they were sealed. A run of which only
the structure was pushed has none. PostgreSQL gets the words as `tsvector` and `tsquery`, made here by the rules of
`critiqor.search.terms`: its own parsers split paths and names in other ways.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.conversation.entries import ConversationBuilder, message_text
from critiqor.fleet.index.rows import TextKind
from critiqor.model import Event
from critiqor.model.diagnosis import Diagnosis
from critiqor.search.terms import Search, split_words

MAX_TEXT = 2_000
"""Maximum number of characters of one text."""
MAX_SESSIONS = 20
"""Maximum number of sessions whose request and answer are searched: the first ones."""
MAX_FINDINGS = 30
MAX_CLAIMS = 30
_MAX_WORD = 200
"""Maximum length of a word in characters; PostgreSQL refuses those of 2 kB and more."""
_MAX_PLACE = 16_383
_MAX_PLACES = 250
"""Bounds of a `tsvector`: the highest place of a word, and the number of places of each word."""


class SearchText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a run."""

    kind: TextKind
    source: str
    """Id of the event, finding or claim."""
    session_key: str | None
    text: str


def conversation_texts(events: Iterable[Event]) -> tuple[SearchText, ...]:
    """Return the first request and the last answer of each session. The events come in true order and are not kept."""
    conversations = ConversationBuilder()
    found: dict[tuple[str | None, TextKind], SearchText] = {}
    for number, event in enumerate(events, start=1):
        entry = conversations.observe(number, event)
        if entry is None or entry.number != number or entry.kind not in ("user", "agent"):
            continue
        text = message_text(event)[:MAX_TEXT]
        kind: TextKind = "request" if entry.kind == "user" else "answer"
        key = event.session_key, kind
        if not text.strip() or (kind == "request" and key in found):
            continue
        if len(conversations.sessions) <= MAX_SESSIONS or key in found:
            found[key] = SearchText(kind=kind, source=event.event_id, session_key=event.session_key, text=text)
    return tuple(found.values())


def diagnosis_texts(diagnosis: Diagnosis) -> tuple[SearchText, ...]:
    """Return the titles of the worst findings, and the first claims."""
    findings = (
        SearchText(kind="finding", source=each.id, session_key=each.session_key, text=each.title[:MAX_TEXT])
        for each in diagnosis.failure_analysis.findings[:MAX_FINDINGS]
    )
    claims = (
        SearchText(kind="claim", source=each.id, session_key=each.session_key, text=each.text[:MAX_TEXT])
        for each in diagnosis.claims[:MAX_CLAIMS]
    )
    return (*findings, *claims)


def word_vector(text: str) -> str:
    """Return the words of a text with their places, as PostgreSQL reads a `tsvector`."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(split_words(text)[:_MAX_PLACE], start=1):
        known = places.setdefault(word[:_MAX_WORD], [])
        if len(known) < _MAX_PLACES:
            known.append(place)
    # Words consist of letters, digits and underscores, so nothing needs escaping.
    return " ".join(f"'{word}':{','.join(map(str, numbers))}" for word, numbers in places.items())


def word_query(words: str) -> str:
    """Return a search in the indexed texts as PostgreSQL reads a `tsquery`; empty if it has no words."""
    phrases = []
    for phrase in Search(words).phrases:
        parts = " <-> ".join(f"'{word[:_MAX_WORD]}'" for word in phrase)
        phrases.append(f"({parts}:*)")
    return " & ".join(phrases)
