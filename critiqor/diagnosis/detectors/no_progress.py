"""`no_progress`: many tool calls that change nothing and return nothing new."""

from __future__ import annotations

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.collections.recent import Recent
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.loops.clusters import begins_chapter
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "no_progress"
MEANING = "many tool calls in a row without an effect or a new result"
MIN_IDLE_CALLS = 8
"""Minimum number of consecutive idle calls."""
MAX_POSITIONS = 64
"""Maximum number of calls of a sequence whose positions are remembered by event."""
MIN_ECHOES = 3
"""Minimum number of results that only repeat the arguments: printing a request does not send it."""


class NoProgress(RunDetector[ToolCall | Message | Moment]):
    """Counts consecutive idle calls, and calls that only echo their arguments.

    A message of the user or a compaction ends a sequence of idle calls, because repeating calls after it is legitimate.
    """

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._calls = 0
        self._echoes: _Idle | None = None
        self._sequence: _Idle | None = None
        self._longest: _Idle | None = None
        self._seen: Recent[bytes, bool] = Recent()
        """Results, by the fingerprints of call and output."""
        self._failures: Recent[tuple[str, str], bool] = Recent()
        self._is_ordered = False
        """Whether the last request orders repetition."""

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if not isinstance(span, ToolCall):
            if begins_chapter(span):
                self._end_sequence()
                self._seen.clear()
                self._failures.clear()
            if isinstance(span, Message) and span.is_user:
                self._is_ordered = span.orders_repetition
        elif span.result and span.kind is not Kind.THOUGHT:
            self._calls += 1
            if span.echo and not span.has_failed:
                if self._echoes is None:
                    self._echoes = _Idle(span)
                else:
                    self._echoes.add(span)
            if not self._is_idle(span):
                if self._sequence is not None and span.same_call in self._sequence.distinct:
                    self._sequence = None  # the result changed at last: the agent was waiting for this
                elif self._sequence is not None:
                    self._end_sequence()
            elif span.kind is not Kind.WAIT and not span.is_pending and not self._is_ordered:
                # Waiting is neither progress nor a lack of it.
                self._begin(span)

    def _is_idle(self, call: ToolCall) -> bool:
        """Remember a call. Return whether its result has nothing new; a new error or an empty file counts as new."""
        result = call.same_call + call.same_output
        was_seen = result in self._seen
        self._seen[result] = True
        if call.has_failed:
            failure = (call.tool, call.error_kind)
            was_seen = failure in self._failures
            self._failures[failure] = True
            return was_seen
        return was_seen or (call.nothing_found and call.output != "" and not runs_commands(call.tool))

    def _end_sequence(self) -> None:
        self._longest, self._sequence = self._longest_so_far(), None

    def _begin(self, call: ToolCall) -> None:
        if self._sequence is None:
            self._sequence = _Idle(call)
        else:
            self._sequence.add(call)

    def _longest_so_far(self) -> _Idle | None:
        if self._sequence is None or (self._longest is not None and len(self._longest) >= len(self._sequence)):
            return self._longest
        return self._sequence

    def findings(self) -> list[Draft]:
        echoes = self._echoes
        if echoes is not None and len(echoes) >= MIN_ECHOES and 2 * len(echoes) >= self._calls:
            calls = counted(len(echoes), "call")
            return [self._draft(echoes, "echo", f"{calls} of `{echoes.first.tool}` only echoed their own arguments")]
        longest = self._longest_so_far()
        if longest is None or len(longest) < MIN_IDLE_CALLS:
            return []
        title = f"{counted(len(longest), 'tool call')} in a row had no effect and no new result"
        return [self._draft(longest, "idle", title)]

    def _draft(self, group: _Idle, how: str, title: str) -> Draft:
        second = group.second or group.first
        return Draft(
            type=TYPE,
            about=(how, *sorted(group.tools)),
            severity="medium",
            confidence=70,
            title=title,
            explanation="Each of them failed, found nothing, or returned what was already known. The first one: "
            + excerpt(group.first.arguments, 120),
            evidence=group.citations.cited(),
            occurrences=len(group),
            first_bad_step=second.call,
            chain=[
                CausalStep(group.first.evidence, "Nothing new", None),
                CausalStep(group.last.evidence, f"Still nothing new after {len(group)} calls", "retried"),
            ],
            wasted_tool_calls=group.wasted,
            explained_calls=group.cited_calls,
            scope=self.run.scope,
            recommendation="Give the agent a limit on calls without progress, after which it asks the user or reports "
            "what is missing.",
            verification="Run the same task again: fewer calls in a row without a new result.",
        )


class _Idle(CallGroup):
    """Calls without progress. Other findings explain them if they explain those that are cited."""

    __slots__ = ("_positions",)

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self._positions = {first.evidence: first.order}
        """Positions of the calls that are cited, and of some others."""

    def add(self, call: ToolCall) -> None:
        super().add(call)
        self._positions[call.evidence] = call.order
        if len(self._positions) > MAX_POSITIONS:
            self._positions = {event_id: self._positions[event_id] for event_id in self.citations.kept}

    @property
    def cited_calls(self) -> Orders:
        """The calls whose events are cited."""
        return Orders(self._positions[event_id] for event_id in self.citations.cited())
