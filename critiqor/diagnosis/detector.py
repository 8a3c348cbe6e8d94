"""The interface of detectors: they observe spans as these complete, and return findings at any time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import Event
from critiqor.spans.agent_run import AgentRun

if TYPE_CHECKING:
    from critiqor.diagnosis.recording import Recording

Need = type | Literal["failed call", "action"]
"""A kind of span, a failed tool call, or a tool call that is an action."""
Observed = TypeVar("Observed", contravariant=True)


class Detector(Protocol[Observed]):
    """Detects one type of failure.

    It observes every span once, in order of start. `findings` may be called at any time and any number of times; it
    returns the findings for the spans so far, and calling it does not change later results. A span can still get values
    after it was observed (the usage of a model call often arrives with the end of the agent run), so such values are
    read in `findings` or when the agent run ends.
    """

    def observe(self, span: Observed, /) -> None:
        """Process one span."""

    def findings(self) -> list[Draft]:
        """Return the findings for the observed spans."""


class EventDetector(Protocol):
    """Detects failures in events, because it needs more of them than spans keep: the contracts of a policy."""

    def observe(self, event: Event, /) -> None:
        """Process one event of any source, in order."""

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the findings for the observed events; `is_over` if no more follow."""


class RunDetector(ABC, Generic[Observed]):
    """A detector for one agent run."""

    NEEDS: ClassVar[tuple[Need, ...]]
    """The detector is created as soon as the agent run has a span of one of these kinds."""
    OBSERVES: ClassVar[tuple[type, ...]]
    """Kinds of spans that are passed to `observe`."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run

    @abstractmethod
    def observe(self, span: Observed, /) -> None:
        """Process one span."""

    @abstractmethod
    def findings(self) -> list[Draft]:
        """Return the findings for the observed spans."""


class SessionDetector(ABC, Generic[Observed]):
    """A detector that compares the agent runs of a session."""

    OBSERVES: ClassVar[tuple[type, ...]]
    """Kinds of spans that are passed to `observe`."""

    @classmethod
    @abstractmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        """Return whether a session with these agent runs can have findings."""

    @abstractmethod
    def begin_run(self, run: AgentRun) -> None:
        """Begin the next agent run: the detector gets its spans from now on."""

    @abstractmethod
    def observe(self, span: Observed, /) -> None:
        """Process one span."""

    @abstractmethod
    def findings(self) -> list[Draft]:
        """Return the findings for the observed spans."""

    def fork(self) -> Self:
        """Return a copy that observes other spans from here on."""
        return deepcopy(self)


class RecordingDetector(ABC):
    """A detector that gets no spans: it reads what a `Recording` has observed."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @abstractmethod
    def findings(self) -> list[Draft]:
        """Return the findings for the recording so far."""


class TimelineDetector(ABC, Generic[Observed]):
    """A detector for parts of OpenClaw's timeline."""

    @abstractmethod
    def observe(self, span: Observed, /) -> None:
        """Process one part of the timeline."""

    @abstractmethod
    def findings(self) -> list[Draft]:
        """Return the findings for the observed parts."""
