"""Conversations of a run: the entries of a session as the pages show them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from critiqor.conversation.checked_text import Piece, checked_text, with_code, worst_first
from critiqor.conversation.entries import Entry, Session, tool_arguments
from critiqor.conversation.entry_text import SPEAKING_ARGUMENTS, call_title, entry_text, tool_result
from critiqor.dashboard.data.conversation_source import EntryFilter, Shown
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.diagnosis.prices.price import price_of
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Claim, Event, Finding, SessionDiagnosis
from critiqor.model.formatting import counted, format_duration, format_money, format_number
from critiqor.model.sanitize import remove_escape_sequences
from critiqor.spans.tool_results import tool_outcome

ENTRIES = 50
"""Number of entries on one page."""
MAX_WORDS = 12_000
"""Maximum length of a message on a page in characters; the page of its event has all of it."""
MAX_OUTPUT = 6000
"""Maximum length of the arguments and the result of a tool call in characters."""
NESTED = 8
"""Number of entries of a subagent that are shown within the conversation of its parent."""
MAX_REPEATED = 20
"""Maximum number of findings whose calls are all marked, although they cite only some of them."""


class Pin(NamedTuple):
    """A finding at an entry that it cites."""

    finding: Finding
    is_first: bool
    """Whether it began here."""


class ShownEntry(NamedTuple):
    """One entry of a conversation."""

    entry: Entry
    event: Event
    pieces: list[Piece]
    """The words of a message, or what an interruption is; empty for a tool call."""
    more: int
    """Number of characters that are left out."""
    title: str
    """What a tool call does, on one line."""
    arguments: str
    result: str
    """The result of a tool call as text."""
    end: Event | None
    facts: list[str]
    """Duration, tokens and cost."""
    claims: list[Claim]
    """The claims in it that do not hold, the worst first."""
    pins: list[Pin]
    child: Session | None
    nested: list[ShownEntry]
    """The first entries of a subagent."""

    @property
    def is_open(self) -> bool:
        """Whether the tool call of this entry is shown with its result from the start: where a finding began."""
        return any(pin.is_first for pin in self.pins)

    @property
    def ids(self) -> list[str]:
        """The ids of the events of this entry of a conversation."""
        return [self.event.event_id, *([self.end.event_id] if self.end is not None else [])]


class Conversations:
    """The conversations of one run, as one viewer may see them."""

    def __init__(self, data: RunPageData) -> None:
        self._data = data
        self.source = data.conversations

    @cached_property
    def judged(self) -> dict[str | None, SessionDiagnosis]:
        """The verdicts on sessions by the names of the sessions."""
        diagnosis = self._data.diagnosis
        return {} if diagnosis is None else {session.session_key: session for session in diagnosis.sessions}

    @cached_property
    def _pins(self) -> dict[str, list[Pin]]:
        pins: dict[str, list[Pin]] = {}
        for finding in self._data.findings:
            for event_id in finding.cited_events:
                pins.setdefault(event_id, []).append(Pin(finding, event_id == finding.first_event))
        # A finding cites the first and the last of many equal calls; those between them are as much a part of it.
        many = [finding for finding in self._data.findings if finding.occurrences > len(finding.evidence) > 1]
        for finding in many[:MAX_REPEATED]:
            for event_id in self.source.repeats(finding.evidence):
                if all(pin.finding is not finding for pin in pins.get(event_id, ())):
                    pins.setdefault(event_id, []).append(Pin(finding, False))
        return pins

    @cached_property
    def _claims(self) -> dict[str, list[Claim]]:
        claims: dict[str, list[Claim]] = {}
        for claim in self._data.diagnosis.claims if self._data.diagnosis is not None else ():
            claims.setdefault(claim.event_id, []).append(claim)
        return claims

    def filter(self, session: Session, shown: Shown = "", text: str = "") -> EntryFilter:
        """Return the filter for entries of a session; problems are also what findings and refuted claims point at."""
        if shown != "problems":
            return EntryFilter(session.number, shown, text)
        doubted = {
            claim.event_id
            for claims in self._claims.values()
            for claim in claims
            if claim.status in ("contradicted", "unsupported")
        }
        return EntryFilter(session.number, shown, text, frozenset(self._pins) | doubted)

    def name(self, session: Session) -> str | None:
        """Return the key of a session as far as the viewer may see it; None for events without a session."""
        return session.key if session.key is None or not self._data.is_anonymous else f"session_{session.number}"

    def find(self, name: str | None) -> Session | None:
        """Return a session by its name as the viewer sees it."""
        if not self._data.is_anonymous or name is None:
            return self.source.session(name)
        return next((session for session in self.source.sessions() if self.name(session) == name), None)

    def main(self) -> Session | None:
        """Return the session to look at first: the one with the least trust, else the first."""
        for key in self.judged:
            session = self.find(key)
            if session is not None and session.entries:
                return session
        return next(iter(self.source.sessions()), None)

    def parent(self, session: Session) -> Session | None:
        """Return the session whose agent started a session."""
        sessions = self.source.sessions() if session.parent is not None else []
        return next((each for each in sessions if each.number == session.parent), None)

    def findings(self, session: Session) -> list[Finding]:
        """Return the findings of a session, the worst first."""
        name = self.name(session)
        judged = self.judged.get(name)
        named = set(judged.findings) if judged is not None else set()
        return [one for one in self._data.findings if one.id in named or (not named and one.session_key == name)]

    def entries(self, wanted: EntryFilter, offset: int, limit: int = ENTRIES) -> tuple[list[ShownEntry], int]:
        """Return a page of entries, and the number of all entries that match."""
        found, total = self.source.entries(wanted, offset, limit)
        return self._shown(found, nests=True), total

    def message(self, number: int | None) -> ShownEntry | None:
        """Return the message of an event as an entry."""
        if number is None or number not in (events := self._events([number])):
            return None
        role: Any = "user" if events[number].event_type == "input" else "agent"
        return self._entry(Entry(session=0, place=0, kind=role, number=number), events, [])

    def _shown(self, entries: list[Entry], *, nests: bool = False) -> list[ShownEntry]:
        events = self._events(
            number for each in entries for number in (each.number, each.end, each.model) if number is not None
        )
        shown = []
        for each in entries:
            child = self.source.session(each.child) if each.child is not None else None
            nested = (
                self._shown(self.source.entries(EntryFilter(child.number), 0, NESTED)[0])
                if nests and child is not None
                else []
            )
            if each.number in events:
                shown.append(self._entry(each, events, nested, child))
        return shown

    def _events(self, numbers: Iterable[int]) -> dict[int, Event]:
        found = self.source.events(numbers)
        return {number: self._data.shown_event(event) for number, event in found.items()}

    def _entry(
        self, entry: Entry, events: dict[int, Event], nested: list[ShownEntry], child: Session | None = None
    ) -> ShownEntry:
        event, end = events[entry.number], events.get(entry.end or 0)
        last = end if end is not None and end is not event else None
        ids = [event.event_id, *([last.event_id] if last is not None else [])]
        is_tool = entry.kind == "tool"
        text = "" if is_tool else entry_text(entry, event, last)
        claims = self._claims.get(event.event_id, []) if text and not self._data.is_anonymous else []
        called = event if event.event_type == "tool_call" else None
        arguments = tool_arguments(called) if called is not None else None
        return ShownEntry(
            entry=entry,
            event=event,
            pieces=with_code(checked_text(text[:MAX_WORDS], claims)),
            more=max(0, len(text) - MAX_WORDS),
            title=call_title(arguments) if is_tool else "",
            arguments=_readable(arguments)[:MAX_OUTPUT] if is_tool and arguments is not None else "",
            result=_result(end) if is_tool and end is not None else "",
            end=last,
            facts=_facts(entry, event, end, events.get(entry.model or 0)),
            claims=[claim for claim in worst_first(claims) if claim.status != "supported"],
            pins=_once(pin for event_id in ids for pin in self._pins.get(event_id, ())),
            child=child,
            nested=nested,
        )


def _once(pins: Iterable[Pin]) -> list[Pin]:
    """Return each finding once; a call and its result can both be cited."""
    kept: dict[str, Pin] = {}
    for pin in pins:
        kept[pin.finding.id] = Pin(pin.finding, pin.is_first or kept.get(pin.finding.id, pin).is_first)
    return list(kept.values())


def _readable(value: object) -> str:
    """Return arguments as text: a single command as it is, everything else as JSON."""
    if isinstance(value, dict) and len(value) == 1:
        [(name, only)] = value.items()
        if name in SPEAKING_ARGUMENTS and isinstance(only, str):
            return only
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _result(event: Event) -> str:
    value = tool_result(event)
    text = remove_escape_sequences(plain_text(value)[: 2 * MAX_OUTPUT]) if value is not None else ""
    if len(text) > MAX_OUTPUT:
        return text[:MAX_OUTPUT] + "…"
    return text


def _facts(entry: Entry, event: Event, end: Event | None, usage_event: Event | None) -> list[str]:
    """Return duration, exit code, tokens and cost of an entry."""
    facts = []
    last = end or event
    if entry.kind in ("tool", "compaction") and last.duration_ms is not None:
        facts.append(format_duration(last.duration_ms))
    if entry.kind == "tool" and end is not None:
        code = tool_outcome(end.payload.get("result"), reported_exit_code=end.payload.get("exit_code")).exit_code
        facts += [f"exit code {code}"] if code is not None else []
    payload = usage_event.payload if usage_event is not None else {}
    usage = payload.get("usage")
    if entry.kind == "agent" and usage_event is not None and isinstance(usage, dict):
        if usage_event.duration_ms is not None:
            facts.append(format_duration(usage_event.duration_ms))
        sent, received = usage.get("input"), usage.get("output")
        if isinstance(sent, int) and isinstance(received, int):
            facts.append(f"{counted(sent, 'token')} in, {format_number(received)} out")
        price = price_of(usage, payload.get("provider"), payload.get("model"))
        facts += [format_money(price.usd, is_estimated=price.is_estimated)] if price is not None else []
    return facts
