"""`secret_exposure`: credentials in arguments, outputs or replies, named by kind and place, never by value."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import SecretMark

TYPE = "secret_exposure"
MEANING = "credentials appeared in arguments, outputs or replies"
MAX_NAMED_TOOLS = 3
"""Maximum number of tools that the explanation names."""
_SEVERITY: dict[str, Severity] = {"reply": "high", "output": "medium", "arguments": "low"}
_PLACE_NAMES = {
    "reply": "in the agent's reply",
    "output": "in the output of a tool",
    "arguments": "in the arguments of a tool call",
}
_SEEN_BY = {
    "reply": "The model wrote it, and everyone who reads the reply can see it.",
    "output": "The model and its provider saw it, unless OpenClaw masked it first.",
    "arguments": "The model wrote it, and OpenClaw's transcript contains it.",
}
_NAMES = {"assignment": "assigned password or token", "field": "value of a secret field"}


class _Place:
    """The secrets found at one place."""

    def __init__(self, first: SecretMark) -> None:
        self.first = first
        self.kinds: set[str] = set()
        self.secrets: set[tuple[str, str]] = set()
        self.events = 0
        """Number of events with a secret."""
        self._last_event = ""
        self.citations = CitedEvents()
        self.tools: set[str] = set()

    def add(self, mark: SecretMark) -> None:
        self.kinds.add(mark.kind)
        self.secrets.add((mark.kind, mark.tag))
        if mark.event_id != self._last_event:  # the marks of an event follow each other
            self.events += 1
            self._last_event = mark.event_id
            self.citations.add(mark.event_id)
        if mark.tool:
            self.tools.add(mark.tool)


class SecretExposure(RunDetector[SecretMark]):
    """Groups the secrets by where they appeared."""

    NEEDS = (SecretMark,)
    OBSERVES = (SecretMark,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._places: dict[str, _Place] = {}

    def observe(self, span: SecretMark, /) -> None:
        place = self._places.get(span.place)
        if place is None:
            place = self._places[span.place] = _Place(span)
        place.add(span)

    def findings(self) -> list[Draft]:
        return [self._draft(name, self._places[name]) for name in _SEVERITY if name in self._places]

    def _draft(self, name: str, place: _Place) -> Draft:
        kinds = sorted(place.kinds)
        tools = sorted(place.tools)[:MAX_NAMED_TOOLS]
        through = f" (`{'`, `'.join(tools)}`)" if tools else ""
        return Draft(
            type=TYPE,
            about=(name, *kinds),
            severity=_SEVERITY[name],
            confidence=85,
            title=f"A credential appeared {_PLACE_NAMES[name]}: {', '.join(map(_kind_name, kinds))}",
            explanation=f"{counted(len(place.secrets), 'secret')} in {counted(place.events, 'event')}{through}. "
            f"{_SEEN_BY[name]} The value is not stored in this recording.",
            evidence=place.citations.cited(),
            occurrences=place.events,
            first_bad_step=place.first.event_id,
            chain=[CausalStep(place.first.event_id, f"{_kind_name(place.first.kind)} {_PLACE_NAMES[name]}", None)],
            scope=self.run.scope,
            recommendation="Rotate the credential. Let the agent use it without seeing it: from a secret store or an "
            "environment variable of the tool.",
            verification="Run the same task again: the new run has no secret_exposure finding.",
        )


def _kind_name(kind: str) -> str:
    return _NAMES.get(kind, kind.replace("_", " "))
