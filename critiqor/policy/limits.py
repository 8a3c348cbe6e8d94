"""Limits on what an agent may spend and repeat while it works, and the tracker that compares events with them.

`LimitTracker` is incremental and does no I/O: it gets every event of one recording once, in order, and returns the
limits that were exceeded by it. Each limit is returned once per agent run, session, run or day. Who acts on it is not
decided here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from critiqor.diagnosis.call_descriptions import exit_code_of, is_expected_failure
from critiqor.diagnosis.collections.fingerprints import canonical_json, fingerprint
from critiqor.diagnosis.prices.price import price_of, tokens_of
from critiqor.diagnosis.signals.noise import NoiseFilter
from critiqor.diagnosis.signals.outputs import cut_digests, cut_size
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Event, EventType, Scope, iso_from_ms, ms_from_iso
from critiqor.model.event import HOUSEKEEPING
from critiqor.model.formatting import format_session
from critiqor.model.sanitize import sanitize_line
from critiqor.policy.meters import MAX_SCOPES, DayAmounts, Meter, OpenCall, Per, Place, Streaks
from critiqor.spans.calls import is_own_call
from critiqor.spans.hidden_calls import HiddenCalls
from critiqor.spans.late_usage import LateUsage, has_usage
from critiqor.spans.pairing import SpanPairer
from critiqor.spans.span import Span

LimitName = Literal["cost_usd", "repeats", "tool_calls", "tokens", "model_calls", "minutes", "failures_in_a_row"]
Action = Literal["notify", "stop"]

LIMIT_NAMES: tuple[LimitName, ...] = get_args(LimitName)


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of something is allowed, for which part of a recording, and what follows if it is exceeded."""

    # TOML can express infinity; the upper bound excludes it.
    max: Annotated[float, Meta(ge=0, le=1e12)]
    """The largest amount that is allowed."""
    per: Per = "agent_run"
    """What the amount is counted for. A day is a day in UTC; other recordings can share it, see `LimitTracker`."""
    action: Action = "notify"
    """`stop` ends the agent run, or the monitored process, that exceeds it."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a policy; those that are left out do not apply."""

    cost_usd: Limit | None = None
    """Dollars for model calls; those without a known price count nothing."""
    repeats: Limit | None = None
    """How often the same call is made again, although its last result was no news and nothing else was."""
    tool_calls: Limit | None = None
    tokens: Limit | None = None
    """Tokens of model calls, input and output, cached or not."""
    model_calls: Limit | None = None
    """Model calls that were answered or failed."""
    minutes: Limit | None = None
    """Minutes in which agent runs were under way; those of agent runs at the same time add up."""
    failures_in_a_row: Limit | None = None
    """Tool calls that failed, without one that succeeded in between."""

    @property
    def given(self) -> dict[LimitName, Limit]:
        """The limits that apply, by name."""
        named = {name: getattr(self, name) for name in LIMIT_NAMES}
        return {name: limit for name, limit in named.items() if limit is not None}


class LimitReached(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that was exceeded, once per agent run, session, run or day."""

    name: LimitName
    max: float
    per: Per
    action: Action
    actual: float
    """The amount that exceeds it."""
    session_key: str | None
    """Session and agent run that exceeded it: what is to be stopped."""
    agent_run_id: str | None
    event_id: str | None
    """The event that exceeded it; None if only time passed."""
    day: str | None = None
    """The day in UTC, for a limit per day."""
    tool: str | None = None
    """The tool, for a limit on tool calls."""
    is_estimated: bool = False
    """Whether a part of the cost was computed from list prices."""

    @property
    def text(self) -> str:
        """A sentence without a full stop: what was exceeded, by how much, and where."""
        about = "estimated " if self.is_estimated else ""
        tool = f" ({self.tool})" if self.tool else ""
        where = {"session": f"session {format_session(self.session_key)}", "run": "the run", "day": f"{self.day}"}
        place = where.get(self.per, f"one agent run of session {format_session(self.session_key)}")
        amount, most = _amount(self.name, self.actual), _amount(self.name, self.max)
        return f"limits.{self.name}: {about}{amount}{tool} in {place}, at most {most} allowed"


def _amount(name: LimitName, value: float) -> str:
    if name == "cost_usd":
        return f"${value:.6f}".rstrip("0").rstrip(".")
    return f"{value:.1f}".removesuffix(".0") + f" {name.replace('_', ' ')}"


class LimitTracker:
    """Compares the events of one recording with limits.

    `day_amounts` are the amounts of limits per day so far. Trackers of several recordings can share the dictionary, and
    its owner can store it; only the days of observed events are changed.
    """

    def __init__(self, limits: Limits, day_amounts: DayAmounts | None = None) -> None:
        days = {} if day_amounts is None else day_amounts
        self._limits = limits.given
        self._meters = {name: Meter(name, limit.per, limit.max, days) for name, limit in self._limits.items()}
        self._has_calls = not {"repeats", "tool_calls", "failures_in_a_row"}.isdisjoint(self._limits)
        self._reached: list[LimitReached] = []
        """What the current event exceeds."""
        self._pairer = SpanPairer[OpenCall](("tool",))
        self._order: OrderedDict[Scope, None] = OrderedDict()
        """Agent runs, those with the latest events last."""
        self._since: dict[Scope, int] = {}
        """Agent runs that are under way, with the time until which their minutes were counted, in milliseconds."""
        self._current: dict[str | None, Scope] = {}
        """The newest agent run of each session."""
        self._late_usage = LateUsage[tuple[object, object]]()
        self._hidden_calls = HiddenCalls()
        self._streaks: OrderedDict[Hashable, Streaks] = OrderedDict()
        self._answers = NoiseFilter()

    def observe(self, event: Event) -> list[LimitReached]:
        """Process the next event of the recording. Return the limits that it exceeds for the first time."""
        kind = event.event_type
        if event.source_layer == "supervisor":
            if kind == EventType.PROCESS_END:
                self._since.clear()
            return []
        if not self._limits or kind in HOUSEKEEPING or kind == "message_received":
            return []
        place = Place(Scope(event.session_key, event.agent_run_id), event.timestamp[:10], event.event_id)
        is_new = self._note_run(place.scope)
        if "minutes" in self._limits:
            self._add_time(event, place, is_new=is_new)
        self._add_spending(event, place)
        if self._has_calls and (pairing := self._pairer.observe(event)) is not None:
            if pairing.opened is not None:
                self._start_call(event, pairing.opened, place)
            elif pairing.closed is not None:
                self._end_call(event, pairing.closed, place)
        return self._take_reached()

    def advance(self, at_ms: int) -> list[LimitReached]:
        """Note that time has passed without events, until `at_ms` in milliseconds since 1970.

        A silent agent run exceeds its limit on minutes all the same. Call it every few seconds, but not after the end
        of the recorded process.
        """
        day = iso_from_ms(at_ms)[:10]
        for scope in list(self._since):
            self._add_minutes(at_ms, Place(scope, day, None))
        return self._take_reached()

    def _take_reached(self) -> list[LimitReached]:
        reached, self._reached = self._reached, []
        return reached

    def _add(self, name: LimitName, amount: float, place: Place, tool: str | None = None) -> None:
        """Count an amount, if it has a limit."""
        if name in self._meters:
            self._note(name, self._meters[name].add(amount, place), place, tool)

    def _note(self, name: LimitName, exceeding: float | None, place: Place, tool: str | None = None) -> None:
        if exceeding is None:
            return
        limit = self._limits[name]
        self._reached.append(
            LimitReached(
                name=name,
                max=limit.max,
                per=limit.per,
                action=limit.action,
                actual=exceeding,
                session_key=place.scope.session_key,
                agent_run_id=place.scope.agent_run_id,
                event_id=place.event_id,
                day=place.day if limit.per == "day" else None,
                tool=tool,
                is_estimated=self._meters[name].is_estimated,
            )
        )

    def _note_run(self, scope: Scope) -> bool:
        """Note an event of an agent run. Return whether it is the first one."""
        is_new = scope not in self._order
        if is_new:
            before = self._current.get(scope.session_key)
            if before is not None:
                self._since.pop(before, None)  # its session has gone on
            self._current[scope.session_key] = scope
            if len(self._order) >= MAX_SCOPES:
                self._forget(next(iter(self._order)))
        self._order[scope] = None
        self._order.move_to_end(scope)
        return is_new

    def _forget(self, scope: Scope) -> None:
        del self._order[scope]
        self._since.pop(scope, None)
        if self._current.get(scope.session_key) == scope:
            del self._current[scope.session_key]
        if scope in self._pairer.runs:
            self._pairer.forget(self._pairer.runs[scope])

    def _add_time(self, event: Event, place: Place, *, is_new: bool) -> None:
        at_ms = ms_from_iso(event.timestamp)
        if at_ms is None:
            return
        if place.scope in self._since:
            self._add_minutes(at_ms, place)
        elif is_new or event.event_type == "agent_start":
            self._since[place.scope] = at_ms
        if event.event_type == "agent_end":
            self._since.pop(place.scope, None)

    def _add_minutes(self, at_ms: int, place: Place) -> None:
        passed = at_ms - self._since[place.scope]
        if passed > 0:  # several recorders can write a little out of order
            self._since[place.scope] = at_ms
            self._add("minutes", passed / 60_000, place)

    def _add_spending(self, event: Event, place: Place) -> None:
        payload, names = event.payload, (event.payload.get("provider"), event.payload.get("model"))
        if event.event_type == EventType.TOKEN_USAGE or has_usage(event):
            self._hidden_calls.observe_model_call(event)
            self._add("model_calls", 1, place)
            usage = payload.get("usage")
            if isinstance(usage, dict):
                self._add_usage(usage, names, place)
            elif event.status == "ok":
                self._late_usage.add(event, names)
        elif event.event_type == "agent_end":
            for known, late in self._late_usage.take(event):
                self._add_usage(late, known or names, place)
            total = payload.get("usage_total")
            if self._hidden_calls.end_attempt(event) and isinstance(total, dict):
                self._add_usage(total, names, place)

    def _add_usage(self, usage: dict[str, object], names: tuple[object, object], place: Place) -> None:
        self._add("tokens", sum(tokens_of(usage)), place)
        meter = self._meters.get("cost_usd")
        if meter is not None and (price := price_of(usage, *names)) is not None:
            meter.is_estimated = meter.is_estimated or price.is_estimated
            self._add("cost_usd", price.usd, place)

    def _start_call(self, event: Event, span: Span[OpenCall], place: Place) -> None:
        payload = event.payload
        arguments = payload["arguments"] if "arguments" in payload else payload.get("args")
        span.data = call = _open_call(event, arguments)
        if is_own_call(event.tool_name, arguments):
            call.is_own = True
            return
        outer = span.outer.data if span.outer is not None else None
        if outer is not None and not outer.wraps:
            outer.wraps = True  # a call that only makes another call counts together with it
        else:
            self._add("tool_calls", 1, place, call.tool)
        if (repeats := self._meters.get("repeats")) is not None:
            count = self._streaks_of("repeats", place).count_repeat(call)
            self._note("repeats", repeats.set(count, place), place, call.tool)

    def _end_call(self, event: Event, span: Span[OpenCall], place: Place) -> None:
        call, payload = span.data or _open_call(event, None), event.payload
        if call.is_own or is_own_call(event.tool_name):
            return
        result = payload["result"] if "result" in payload else payload.get("output")
        text = plain_text(result)
        if "repeats" in self._limits:
            key = (self._meters["repeats"].key_of(place), call.same_call)
            cut = cut_digests(result) if cut_size(result) else ""
            answer = f"{event.error}\n{text}" if event.error else text
            self._streaks_of("repeats", place).add_result(call, self._answers.mark(key, answer, cut))
        if (failures := self._meters.get("failures_in_a_row")) is not None:
            streaks, code = self._streaks_of("failures_in_a_row", place), exit_code_of(event)
            failed = event.status == "error" and not is_expected_failure(call.tool, call.arguments, code, text)
            streaks.failures = streaks.failures + 1 if failed else 0
            self._note("failures_in_a_row", failures.set(streaks.failures, place), place, call.tool)

    def _streaks_of(self, name: LimitName, place: Place) -> Streaks:
        key = (name, self._meters[name].key_of(place))
        streaks = self._streaks.pop(key, None) or Streaks()
        self._streaks[key] = streaks
        if len(self._streaks) > MAX_SCOPES:
            self._streaks.popitem(last=False)
        return streaks


def _open_call(event: Event, arguments: object) -> OpenCall:
    tool, text = sanitize_line(event.tool_name or "unknown"), canonical_json(arguments)
    return OpenCall(tool, text, fingerprint(tool, text))
