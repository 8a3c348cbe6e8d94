"""Drawing of `critiqor watch`: figures and latest events of a run that is being recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from critiqor.cli.drawings.show import head_line
from critiqor.cli.terminal.event_lines import EventLine
from critiqor.cli.terminal.styled_text import FAINT, READINESSES, SEVERITIES, side_by_side, styled, untrusted
from critiqor.live.verdict import LiveSession, LiveVerdict
from critiqor.model import RunHead, ms_from_iso
from critiqor.model.formatting import format_cost, format_number, format_session
from critiqor.run.tail import Totals

NAME, SHORT_NAME = 24, 12
"""Width of event names in columns, on a wide and on a narrow terminal."""
MIN_FIGURE_WIDTHS = {
    "model calls": 4,
    "tools": 4,
    "errors": 3,
    "tokens": 9,
    "cost": 7,
    "events": 6,
    "last": 9,
    "unreadable": 1,
}
"""Minimum columns of figures, so that growing numbers do not move the rest to another line."""
MAX_FINDINGS, MAX_LIMITS, MAX_SESSIONS = 5, 3, 6
"""Maximum number of findings, limits and sessions that are shown, the worst ones."""
MIN_EVENT_LINES = 2
"""Minimum number of lines for events, however small the terminal is."""
MIN_WIDTH_FULL_NAMES = 60
"""Minimum terminal columns for full names and milliseconds."""


class LiveRun:
    """The state of a run at one moment, in as many lines as the terminal has: others could not be redrawn."""

    def __init__(
        self,
        head: RunHead,
        totals: Totals,
        latest: Sequence[EventLine],
        now_ms: int,
        hints: Sequence[str] = (),
        verdict: LiveVerdict | None = None,
    ) -> None:
        self._head = head
        self._totals = totals
        self._latest = latest
        """The newest last."""
        self._now_ms = now_ms
        self._hints = hints
        """Available keys; one per line if they do not fit on one line."""
        self._verdict = verdict
        """The latest verdict; None if the run is not diagnosed while it is recorded."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, lines = options.max_width, max(1, console.height - 1)
        figures = list(side_by_side(_figure_texts(self._totals, self._now_ms), width))
        hints = list(side_by_side([Text(hint, FAINT) for hint in self._hints], width))
        judged = [] if self._verdict is None else [Text(), *verdict_lines(self._verdict)]
        above, below = [head_line(self._head), *figures, *judged, Text()], [Text(), *hints] if hints else []
        if lines - len(above) - len(below) < MIN_EVENT_LINES:
            above = [head_line(self._head), *figures, *judged[1:3], Text()]
        if lines - len(above) - len(below) < MIN_EVENT_LINES:
            # Events matter most, so everything else is dropped first if there is little room.
            above, below = [head_line(self._head), *figures][: max(0, lines - MIN_EVENT_LINES)], []
        room = max(1, lines - len(above) - len(below))
        latest = [_event_line(each, width) for each in self._latest[-room:]] or [Text("nothing yet", FAINT)]
        for line in (*above, *latest, *below):
            line.truncate(width, overflow="ellipsis")
            yield line


def verdict_lines(verdict: LiveVerdict) -> list[Text]:
    """Return the verdict of a run that is being recorded: its findings, its exceeded limits, and its sessions."""
    found = [
        styled(f"{finding.severity} ", SEVERITIES[finding.severity])
        .append_text(untrusted(finding.title))
        .append_text(_place(finding.session_key, verdict))
        for finding in verdict.findings[:MAX_FINDINGS]
    ]
    limits = [styled("limit ", "red").append_text(untrusted(limit.text)) for limit in verdict.limits[-MAX_LIMITS:]]
    none = [styled("no finding so far", "green")] if not found and verdict.trust_score is not None else []
    return [*limits, *found, *none, *(_session_line(session) for session in verdict.sessions[:MAX_SESSIONS])]


def _place(session_key: str | None, verdict: LiveVerdict) -> Text:
    named = session_key is not None and len(verdict.sessions) > 1
    return styled(f"  {format_session(session_key)}", FAINT) if named else Text()


def _session_line(session: LiveSession) -> Text:
    """Return what a session is doing, on one line: verdict, name, cost, and the agent's last words."""
    trust = "  -" if session.trust_score is None else f"{session.trust_score:>3}"
    line = styled(f"{session.readiness:<7} {trust}  ", READINESSES.get(session.readiness, ""))
    line.append(format_session(session.session_key)).append("  working" if session.is_working else "  idle", FAINT)
    line.append(f"  {format_cost(session.cost)}", "bold" if session.cost_usd else FAINT)
    return line.append("  ").append_text(untrusted(f"“{session.last_words}”", FAINT)) if session.last_words else line


def _figure_texts(totals: Totals, now_ms: int) -> Iterator[Text]:
    """Yield calls, tools, errors, tokens, cost, and how long ago the last event was."""
    figures = totals.figures
    last = ms_from_iso(figures.last_event_at) if figures.last_event_at else None
    texts = {
        "model calls": format_number(figures.model_calls),
        "tools": format_number(figures.tool_calls),
        "errors": format_number(figures.errors),
        "tokens": format_number(figures.tokens),
        "cost": format_cost(totals.cost),
        "events": format_number(figures.events),
        "last": "never" if last is None else f"{_whole_seconds(now_ms - last)} ago",
    }
    if figures.unreadable:
        texts["unreadable"] = format_number(figures.unreadable)
    for label, figure in texts.items():
        alarming = label in ("errors", "unreadable") and figure != "0"
        padded = figure.ljust(MIN_FIGURE_WIDTHS[label])
        yield styled(f"{label} ", FAINT).append(padded, "bold red" if alarming else "bold")


def _whole_seconds(milliseconds: int) -> str:
    """Return whole seconds or minutes; finer values would flicker."""
    seconds = max(0, milliseconds) // 1000
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min"


def _event_line(each: EventLine, width: int) -> Text:
    """Return an event on one line; the caller cuts it to the width of the terminal."""
    columns, clock = (NAME, each.clock) if width >= MIN_WIDTH_FULL_NAMES else (SHORT_NAME, each.clock[:8])
    style = "red" if each.failed else ""
    name = untrusted(each.name, style, max_length=columns)
    line = styled(f"{clock}  ", FAINT).append_text(name).append(" " * (columns - name.cell_len + 1))
    return line.append_text(untrusted(each.detail, style or FAINT))
