"""`secret_exposure`: credentials in arguments, outputs or replies, named by kind and place, never by value."""

from __future__ import annotations

from collections import defaultdict

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import SecretMark

TYPE = "secret_exposure"
_GRAVITY: dict[str, Severity] = {"reply": "high", "output": "medium", "arguments": "low"}
_WHERE = {
    "reply": "in what the agent said",
    "output": "in what a tool printed",
    "arguments": "in what the agent passed to a tool",
}
_SEEN_BY = {
    "reply": "the model wrote it, and whoever reads the answer has it.",
    "output": "the model and its provider have seen it, unless OpenClaw had masked it before.",
    "arguments": "the model wrote it, and the transcript of OpenClaw has it.",
}
_NAMES = {"assignment": "assigned password or token", "field": "value of a secret field"}
MOST_NAMED = 3


def detect(run: AgentRun) -> list[Draft]:
    """Secrets that passed through one agent run, by place."""
    places: dict[str, list[SecretMark]] = defaultdict(list)
    for mark in run.secrets:
        places[mark.place].append(mark)
    return [_draft(run, place, places[place]) for place in _GRAVITY if place in places]


def _draft(run: AgentRun, place: str, marks: list[SecretMark]) -> Draft:
    kinds = sorted({mark.kind for mark in marks})
    secrets = len({(mark.kind, mark.tag) for mark in marks})
    events = dict.fromkeys(mark.event_id for mark in marks)
    tools = sorted({mark.tool for mark in marks if mark.tool})[:MOST_NAMED]
    through = f" (`{'`, `'.join(tools)}`)" if tools else ""
    return Draft(
        type=TYPE,
        about=(place, *kinds),
        severity=_GRAVITY[place],
        confidence=85,
        title=f"A credential stood {_WHERE[place]}: {', '.join(map(_named, kinds))}",
        explanation=f"{counted(secrets, 'secret')} in {counted(len(events), 'event')}{through}. The value is not "
        f"in this record; {_SEEN_BY[place]}",
        evidence=cite(events),
        occurrences=len(events),
        first_bad_step=marks[0].event_id,
        chain=[CausalStep(marks[0].event_id, f"{_named(marks[0].kind)} {_WHERE[place]}", None)],
        scope=run.scope,
        recommendation="Replace the credential, and let the agent use it without seeing it (a secret store, an "
        "environment variable of the tool).",
        verification="Run the same task again: nothing is redacted in its evidence.",
    )


def _named(kind: str) -> str:
    return _NAMES.get(kind, kind.replace("_", " "))
