"""The calls and messages after one compaction, as far as they were compared with what came before it."""

from __future__ import annotations

from critiqor.spans.calls import Message, Moment, ToolCall


class SinceCompaction:
    """The calls and messages after one compaction, as far as they were compared."""

    def __init__(self, compaction: Moment) -> None:
        self.compaction = compaction
        self.last_checked = compaction.order
        """Order of the last call that was checked."""
        self.redone: dict[bytes, ToolCall] = {}
        """Repeated calls by call and result."""
        self.is_changed = False
        """Whether a call has changed something since, so that repeating other calls is legitimate."""
        self.earlier: list[Message] | None = None
        """The last messages before the compaction; None until they are needed."""
        self.last_compared = compaction.order
        """Order of the last message that was compared with the earlier ones."""
        self.compared = 0
        """Number of messages that were compared."""
        self.repeated: Message | None = None
        """The first message that repeats an earlier one."""
        self.repeats: Message | None = None
        """The earlier message that it repeats."""

    def copy(self) -> SinceCompaction:
        """Return a copy that is compared further by itself."""
        same = SinceCompaction(self.compaction)
        same.__dict__.update(self.__dict__)
        same.redone = self.redone.copy()
        return same
