"""Ways to spend many tokens on little: a large file read piece by piece, and costly agents for a short answer."""

from __future__ import annotations

from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.spans.calls import Kind, ModelCall, ToolCall

MIN_PIECES = 4
"""Minimum number of large results in a row."""
MIN_PIECE_TOKENS = 25_000
"""Minimum number of tokens by which a result made the next request larger."""
MIN_CARRIED_TOKENS = 1_000_000
"""Minimum number of tokens of all requests that only sent these results again."""
MIN_AGENTS = 4
"""Minimum number of other agents that answered a question."""
MIN_AGENT_TOKENS = 200_000
"""Minimum number of tokens that they spent together."""
MAX_SHORT_ANSWER = 300
"""Maximum size in bytes of an answer that needs no work of its own."""
_READING = (Kind.LOOKUP, Kind.COMMAND, Kind.OTHER)


class Pieces(CallGroup):
    """Large results that were read one after the other, with the tokens that sending them again has cost."""

    __slots__ = ("carried", "read")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.read = 0
        """Tokens of the results so far."""
        self.carried = 0
        """Tokens of all requests that sent earlier results again."""


class PieceReader:
    """Measures results by the growth of the requests that follow them, because outputs may be recorded in part."""

    def __init__(self) -> None:
        self._input = 0
        """Tokens of the last request; 0 if unknown."""
        self._call: ToolCall | None = None
        """The only call since the last request."""
        self._between = 0
        self._current: Pieces | None = None
        self.best: Pieces | None = None

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call, on which tokens may be spent without need."""
        self._call = call
        self._between += 1

    def add_request(self, request: ModelCall) -> None:
        """Add a model call, which spends tokens on what was read piece by piece."""
        tokens = request.input_tokens or 0
        growth = tokens - self._input if tokens and self._input else 0
        call = self._call
        pieces = self._current
        if pieces is not None:
            pieces.carried += pieces.read
        is_piece = call is not None and self._between == 1 and call.kind in _READING and not call.failed
        if call is not None and is_piece and growth >= MIN_PIECE_TOKENS:
            if pieces is None or pieces.first.tool != call.tool:
                pieces = self._current = Pieces(call)
            else:
                pieces.add(call)
            pieces.read += growth
            if self.best is None or pieces.carried >= self.best.carried:
                self.best = pieces
        elif growth < 0 or (call is not None and call.kind not in _READING):
            self._current = None  # a compaction, or work on what was read
        self._input, self._call, self._between = tokens, None, 0

    def found(self) -> Pieces | None:
        """Return the results that were read piece by piece, if they cost enough."""
        best = self.best
        return best if best is not None and len(best) >= MIN_PIECES and best.carried >= MIN_CARRIED_TOKENS else None


class Delegations:
    """Other agents that answered a short question at a high price."""

    def __init__(self) -> None:
        self.group: CallGroup | None = None
        self.tokens = 0
        """Tokens that they spent together."""

    def begin(self) -> None:
        """Begin the next request, on which costly agents may be spent."""
        self.group, self.tokens = None, 0

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call, on which tokens may be spent without need."""
        if not call.spent_tokens or call.output_size > MAX_SHORT_ANSWER:
            return
        self.tokens += call.spent_tokens
        if self.group is None:
            self.group = CallGroup(call)
        else:
            self.group.add(call)

    def found(self, request: str) -> CallGroup | None:
        """Return the calls of agents, if they spent enough and the request is a question."""
        group = self.group
        if group is None or len(group) < MIN_AGENTS or self.tokens < MIN_AGENT_TOKENS:
            return None
        return group if any(mark in request for mark in _QUESTION_MARKS) else None


_QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
