"""What calls of a finding cost, as columns of numbers: a loop can have more calls than fit into memory as objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from math import nan

from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.spans.calls import ModelCall, ToolCall
from critiqor.spans.late_usage import MAX_WAITING

UNKNOWN = -1
"""Number of tokens of a model call without known usage."""
_COLUMNS = 5


class CallCosts:
    """Tool calls with the model calls that requested them, or model calls alone, in the order of adding."""

    __slots__ = ("_costs", "_rows", "citations", "first", "is_estimated", "last", "late")

    def __init__(self) -> None:
        self._rows = array("q")
        """Five numbers for each call, see `rows`."""
        self._costs = array("d")
        """US dollars of the model calls; not a number if unknown."""
        self.is_estimated = False
        """Whether some of them were computed from list prices."""
        self.late: dict[int, ModelCall] = {}
        """Model calls whose usage may arrive with the end of the agent run, by index."""
        self.citations = CitedEvents()
        """The events of the tool calls themselves, not of their results."""
        self.first: tuple[int, str] | None = None
        """Position and event id of the tool call that was made first."""
        self.last: tuple[int, str] | None = None

    def __len__(self) -> int:
        return len(self._costs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CallCosts):
            return NotImplemented
        # Unknown costs are not equal to themselves, but their bytes are.
        return self._rows == other._rows and self._costs.tobytes() == other._costs.tobytes()

    __hash__ = None  # type: ignore[assignment]

    def rows(self, start: int = 0) -> Iterator[tuple[int, int, int, int, int, float]]:
        """Yield the calls from an index on.

        Position and milliseconds of the tool call (position 0: none); position, milliseconds, tokens and dollars of the
        model call (position 0: none).
        """
        numbers = iter(self._rows[_COLUMNS * start :])
        return zip(numbers, numbers, numbers, numbers, numbers, self._costs[start:], strict=True)

    def add_tool_call(self, call: ToolCall) -> None:
        """Add a tool call and the model call that requested it."""
        self._add(call.order, call.duration_ms, call.model_call)
        self.citations.add(call.call)
        place = (call.order, call.call)
        if self.first is None or place < self.first:
            self.first = place
        if self.last is None or place > self.last:
            self.last = place

    def add_model_call(self, call: ModelCall) -> None:
        """Add a model call."""
        self._add(0, 0, call)

    def _add(self, order: int, duration: int, request: ModelCall | None) -> None:
        if request is None:
            self._rows.extend((order, duration, 0, 0, UNKNOWN))
            self._costs.append(nan)
            return
        tokens, cost = request.tokens, request.cost_usd
        known_tokens = UNKNOWN if tokens is None else tokens
        self._rows.extend((order, duration, request.order, request.duration_ms, known_tokens))
        self._costs.append(nan if cost is None else cost)
        self.is_estimated = self.is_estimated or request.cost_is_estimated
        if tokens is None and cost is None and not request.failed:
            self.late[len(self._costs) - 1] = request
            if len(self.late) > 2 * MAX_WAITING:
                # Usage that arrives late is assigned to the latest calls only.
                self.late = dict(list(self.late.items())[MAX_WAITING:])

    def add(self, call: ToolCall | ModelCall) -> None:
        """Add a call."""
        if isinstance(call, ModelCall):
            self.add_model_call(call)
        else:
            self.add_tool_call(call)

    def extend(self, other: CallCosts) -> None:
        """Add the calls of another series."""
        start = len(self)
        self._rows.extend(other._rows)
        self._costs.extend(other._costs)
        self.is_estimated = self.is_estimated or other.is_estimated
        self.late.update({start + index: call for index, call in other.late.items()})
        self.citations.update(other.citations)
        self.first = min(filter(None, (self.first, other.first)), default=None)
        self.last = max(filter(None, (self.last, other.last)), default=None)


def costs_of(calls: Iterable[ToolCall | ModelCall]) -> CallCosts:
    """Return the costs of these calls."""
    costs = CallCosts()
    for call in calls:
        costs.add(call)
    return costs
