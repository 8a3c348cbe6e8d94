"""What a detector is: it observes spans as they complete and can be asked for its findings at any moment."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from critiqor.diagnosis.draft import Draft
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, Moment, RunSpan

Need = type | Literal["failed call", "action"]
"""A kind of span, a tool call that failed, or one that is an action."""
Observed = TypeVar("Observed", contravariant=True)


class Detector(Protocol[Observed]):
    """Looks for one type of failure.

    It sees every span once, in the order in which spans began. `findings` may be called at any moment and any number of
    times: it says what the spans so far show, and does not change what it will say later. A span can still get values
    after it was observed (the usage of a model call often comes with the end of the agent run), so such values are
    read in `findings` or when the agent run ends.
    """

    def observe(self, span: Observed, /) -> None:
        """Take in one span."""

    def findings(self) -> list[Draft]:
        """Return what the observed spans show."""


class RunDetector(Generic[Observed]):
    """A detector for one agent run."""

    NEEDS: ClassVar[tuple[Need, ...]]
    """Kinds of spans. While there is none of any of them there is nothing to find, and the detector is not made."""
    OBSERVES: ClassVar[tuple[type, ...]]
    """The kinds of spans that it is shown."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run

    def observe(self, span: Observed, /) -> None:
        """Take in one span."""
        raise NotImplementedError

    def findings(self) -> list[Draft]:
        """Return what the observed spans show."""
        raise NotImplementedError


class SessionDetector(Generic[Observed]):
    """A detector for what shows only from one agent run of a session to the next."""

    OBSERVES: ClassVar[tuple[type, ...]]

    @classmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        """Return whether there can be anything to find in a session with these agent runs."""
        raise NotImplementedError

    def begin_run(self, run: AgentRun) -> None:
        """Take in that the spans to come belong to the next agent run."""
        raise NotImplementedError

    def observe(self, span: Observed, /) -> None:
        """Take in one span."""
        raise NotImplementedError

    def findings(self) -> list[Draft]:
        """Return what the observed spans show."""
        raise NotImplementedError


def begins_chapter(span: RunSpan) -> bool:
    """Return whether repeating a call after this has its reasons: a message of the user, or a compaction."""
    if isinstance(span, Message):
        return span.is_user
    return isinstance(span, Moment) and span.event_type == "compaction_end"
