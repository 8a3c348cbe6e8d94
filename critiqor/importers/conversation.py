"""A conversation with an agent as events: agent runs, model calls, messages, tool calls and their results.

When an agent run began and ended is derived: it begins with a message of the user, and has ended when the last message
of the agent requests no tool.
"""

from __future__ import annotations

from typing import Any

from critiqor.importers.atif_steps import Call, Result, Step
from critiqor.importers.event_writer import EventFields, EventWriter
from critiqor.model import EventType
from critiqor.spans.tool_results import REPORTED_FAILURE, text_outcome


class Conversation:
    """The agent runs of one agent, one after the other."""

    def __init__(self, writer: EventWriter, name: str, facts: dict[str, Any], source: str = "trajectory") -> None:
        """`name` begins the ids of its agent runs; `source` says in each tool call where it is from."""
        self._writer = writer
        self._source = source
        self._name = name
        self._facts = facts
        self._runs = 0
        self._last: Step | None = None
        """The last response, if it requests no tool and nothing followed it."""
        self._is_asking = False
        self._open: list[Call] = []

    def ask(self, step: Step) -> None:
        """Write a message of the user; several in a row are one request."""
        if not self._is_asking:
            self.end()
            self._begin(step)
        self._is_asking, self._last = True, None
        self._write("input", step, {"role": "user", "text": step.text, "step_id": step.id})

    def call_model(
        self, step: Step, model: dict[str, Any], usage: dict[str, Any] | None, *, outcome: str = "completed"
    ) -> None:
        """Write a model call, which has ended with this step."""
        self._require_run(step)
        self._write("before_provider_request", step, model)
        self._write(EventType.TOKEN_USAGE, step, {**model, "outcome": outcome, "usage": usage})

    def reply(self, response: list[Step], model: dict[str, Any]) -> None:
        """Write a message of the agent. A response without content that does not end anything is left out."""
        first = response[0]
        self._require_run(first)
        self._is_asking = False
        calls = [{"id": call.id, "name": call.name} for step in response for call in step.calls]
        if not first.text and not calls and first.stop_reason is None:
            return
        content = {"role": "assistant", "text": first.text, "tool_calls": calls or None, "step_id": first.id}
        self._write("message_end", first, content | model | {"stop_reason": first.stop_reason})
        self._last = None if calls else first

    def call_tool(self, step: Step, call: Call) -> None:
        """Write the start of a tool call."""
        self._require_run(step)
        self._open.append(call)
        self._writer.write_tool_call(self._fields(step, call), call.arguments, source=self._source)

    def answer(self, step: Step, result: Result) -> None:
        """Write the end of the tool call that a result names, or else of the last one without a result."""
        named = next((call for call in self._open if call.id == result.call_id), None)
        call = named or (self._open[-1] if self._open and result.call_id is None else None)
        if call is None:
            self._writer.notes.add("results without a tool call", f"step {step.id}", not_understood=True)
            return
        self._open.remove(call)
        outcome = text_outcome(result.text, is_error=result.is_error)
        fields = self._fields(step, call)
        fields.error = outcome.failure
        text = result.text.removesuffix(REPORTED_FAILURE)
        content = text if result.cut is None else {**result.cut, "excerpt": text}
        self._writer.write_tool_result(
            fields, call.arguments, content, exit_code=outcome.exit_code, source=self._source
        )
        self._last = None

    def compact(self, step: Step) -> None:
        """Write that the context was reduced."""
        self._require_run(step)
        self._write("compaction_end", step, {"summary": step.text})

    def end(self, usage: dict[str, Any] | None = None, model: str | None = None) -> None:
        """Write the end of the agent run, if it has ended; `usage` is that of all its model calls together."""
        if self._last is None:
            return
        payload: dict[str, Any] = {"success": True, "stop_reason": self._last.stop_reason, "source": "derived"}
        if usage is not None:
            payload |= {"recovered_usage": [{"turn": None, "usage": usage}], "model": model}
        self._write("agent_end", self._last, payload)
        self._last = None

    def fail_model_call(self, step: Step, model: dict[str, Any], error: str) -> None:
        """Write a model call that failed."""
        self._require_run(step)
        self._last = None
        self._write("before_provider_request", step, model)
        fields = self._fields(step)
        fields.error = error
        self._writer.write(EventType.TOKEN_USAGE, fields, {**model, "outcome": "error"})

    def interrupt(self, step: Step) -> None:
        """Write that the user stopped the agent run."""
        self._last = None
        self._write("agent_end", step, {"success": False, "aborted": True, "source": "derived"})

    def _require_run(self, step: Step) -> None:
        if self._runs == 0:
            self._begin(step)

    def _begin(self, step: Step) -> None:
        self._runs += 1
        self._open = []
        self._write("agent_start", step, {**self._facts, "source": "derived"})

    def _write(self, event_type: str, step: Step, payload: dict[str, Any]) -> None:
        self._writer.write(event_type, self._fields(step), payload)

    def _fields(self, step: Step, call: Call | None = None) -> EventFields:
        fields = EventFields(at=step.at, agent_run_id=f"{self._name}turn-{self._runs}", raw=f"{step.source} step")
        if call is not None:
            fields.tool_call_id, fields.tool_name = call.id, call.name
        return fields
