"""ATIF, the Agent Trajectory Interchange Format of Harbor, version 1.2 and later: one trajectory is one run.

A step of the agent is a response of its model: a message, the tool calls that it requests, and their results. Steps
have a time, their results have none, so that a result is at the time of its step. When an agent run began and ended is
derived, as for a transcript: it begins with a message of the user, and has ended when the last message of the agent
requests no tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from critiqor.importers.atif_steps import Metrics, Step, read_metrics, read_steps
from critiqor.importers.conversation import Conversation
from critiqor.importers.event_writer import EventWriter
from critiqor.importers.files import Entry, read_entries
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_list, as_ms, as_object, as_text

NAME = "atif"
_SIDECHAIN = "sidechain"
_IDS = ("trajectory_id", "session_id")
_MAX_DEPTH = 32
"""Maximum depth of subagents of subagents that are written where they are referred to."""
_KNOWN = tuple(f"ATIF-v1.{minor}" for minor in range(10))


def is_atif(value: Any) -> bool:
    """Return whether a value is a trajectory in ATIF."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return False
    return (as_text(value.get("schema_version")) or "").upper().startswith("ATIF-")


def read_atif(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the trajectories of a file: usually one, or one per line."""
    for entry in read_entries(path):
        yield _read_trace(entry, path, key)


def _read_trace(entry: Entry, path: Path, key: bytes) -> ImportedTrace:
    fallback = path.stem if entry.line == 1 else f"line-{entry.line}"
    if not is_atif(entry.value):
        writer = EventWriter(fallback, key)
        problem = entry.problem or "no trajectory"
        writer.notes.add("lines that could not be read", f"{entry.line}: {problem}", not_understood=True)
        return writer.trace(NAME)
    document = entry.value
    start = _first_time(document)
    session_id = as_text(document.get("session_id"))
    trace_id = as_text(document.get("trajectory_id")) or session_id or fallback
    writer = EventWriter(trace_id, key, session_key=session_id, start=start)
    if start is None:
        writer.notes.add("traces without any time, placed in the year 2000")
    if not str(document["schema_version"]).startswith(_KNOWN):
        writer.notes.add("files of an unknown version of the format", str(document["schema_version"])[:40])
    trajectory = _Trajectory(document, writer, _Subagents())
    trajectory.write()
    trajectory.write_unreferenced_subagents()
    return writer.trace(NAME)


def _first_time(document: dict[str, Any]) -> int | None:
    times = (as_ms(as_object(step).get("timestamp")) for step in document["steps"])
    return next((time for time in times if time is not None), None)


class _Subagents:
    """Trajectories of subagents inside the file that were not written yet."""

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []
        self.depth = 0
        """Number of subagents that are being written, each inside the one before it."""

    def add(self, document: dict[str, Any]) -> None:
        """Add the subagents inside a trajectory."""
        inner = as_list(document.get("subagent_trajectories"))
        self._waiting += [item for item in inner if isinstance(item, dict)]

    def take(self, reference: dict[str, Any]) -> dict[str, Any] | None:
        """Return the trajectory that a result refers to, once."""
        names = {as_text(reference.get(name)) for name in _IDS} - {None}
        found = next((item for item in self._waiting if names & {as_text(item.get(name)) for name in _IDS}), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    def take_any(self) -> dict[str, Any] | None:
        """Return the next trajectory that no result refers to."""
        return self._waiting.pop(0) if self._waiting else None


class _Trajectory:
    """Writes the events of one trajectory; those of a subagent come before the result that they led to."""

    def __init__(self, document: dict[str, Any], writer: EventWriter, subagents: _Subagents, name: str = "") -> None:
        agent = as_object(document.get("agent"))
        self._writer = writer
        self._subagents = subagents
        subagents.add(document)
        self._steps = read_steps(document, writer.notes)
        self._model = as_text(agent.get("model_name"))
        self._total = read_metrics(document.get("final_metrics"), "total_") or Metrics()
        self._tokens = sum(step.metrics.tokens for step in self._steps if step.metrics is not None)
        self._has_costs = any(step.metrics.cost_usd is not None for step in self._steps if step.metrics is not None)
        facts = {"agent_name": agent.get("name"), "agent_version": agent.get("version")}
        self._main = Conversation(writer, name, facts)
        self._sidechain = Conversation(writer, f"{name}{_SIDECHAIN}-", facts)
        if reference := as_text(document.get("continued_trajectory_ref")):
            writer.notes.add("trajectories that continue in another file", reference[:100])

    def write(self) -> None:
        """Write all steps."""
        if self._total.cost_usd and not self._has_costs and self._tokens:
            self._writer.notes.add("costs of a whole trajectory, divided among its model calls by their tokens")
        responses = list(_responses(self._steps))
        for response, following in zip_longest(responses, responses[1:]):
            first = response[0]
            conversation = self._sidechain if first.is_sidechain else self._main
            if _was_abandoned(response, following):
                conversation.call_model(first, self._model_of(first), None, outcome="abandoned")
                self._writer.notes.add("responses that were broken off and requested again, left out")
                continue
            if first.source == "agent":
                self._respond(conversation, response)
            elif first.source == "user":
                conversation.ask(first)
            elif first.is_compaction:
                conversation.compact(first)
            else:
                self._writer.notes.add("messages of the system, left out")
            for step in response:
                self._answer(conversation, step)
        self._sidechain.end()
        self._main.end(None if self._tokens else self._total.usage(), self._model)

    def write_unreferenced_subagents(self) -> None:
        """Write the subagents inside the file to which no result refers."""
        while (document := self._subagents.take_any()) is not None:
            self._write_subagent(document)

    def _respond(self, conversation: Conversation, response: list[Step]) -> None:
        first = response[0]
        model = self._model_of(first)
        if (metrics := first.metrics) is not None:
            share = None
            if self._total.cost_usd is not None and not self._has_costs and self._tokens:
                share = self._total.cost_usd * metrics.tokens / self._tokens
            conversation.call_model(first, model, metrics.usage(share))
        conversation.reply(response, model)

    def _model_of(self, step: Step) -> dict[str, Any]:
        return {"model": step.model or self._model}

    def _answer(self, conversation: Conversation, step: Step) -> None:
        for call in step.calls:
            conversation.call_tool(step, call)
        for result in step.results:
            for reference in result.subagents:
                if self._subagents.depth >= _MAX_DEPTH:
                    continue  # it is written later, as if nothing referred to it
                document = self._subagents.take(reference)
                if document is not None:
                    self._write_subagent(document)
                else:
                    named = (as_text(reference.get(name)) for name in ("trajectory_path", *_IDS))
                    place = next((name for name in named if name), "unnamed")
                    self._writer.notes.add("trajectories of subagents in other files, not read", place[:100])
            conversation.answer(step, result)

    def _write_subagent(self, document: dict[str, Any]) -> None:
        names = (as_text(document.get(name)) for name in _IDS)
        name = next((name for name in names if name), "subagent")
        self._subagents.depth += 1
        _Trajectory(document, self._writer, self._subagents, f"{name}-").write()
        self._subagents.depth -= 1


def _responses(steps: list[Step]) -> Iterator[list[Step]]:
    """Group the steps of each response of a model; all others are alone."""
    has_metrics = any(step.metrics is not None for step in steps)
    group: list[Step] = []
    for step in steps:
        last = group[-1] if group else None
        follows = last is not None and last.source == "agent" and last.is_sidechain == step.is_sidechain
        at_once = last is not None and step.at is not None and step.at == last.at
        if not (follows and step.is_part and (has_metrics or at_once)):
            if group:
                yield group
            group = []
        group.append(step)
    if group:
        yield group


def _was_abandoned(response: list[Step], following: list[Step] | None) -> bool:
    """Return whether a client broke off a response and requested it again, as Claude Code does with a broken stream.

    Such a response states neither tokens nor why it ended, and its tool calls were never made.
    """
    first = response[0]
    if first.metrics is None or first.metrics.tokens or first.stop_reason is not None:
        return False
    was_repeated = following is not None and following[0].source == "agent"
    return was_repeated and not any(step.results for step in response)
