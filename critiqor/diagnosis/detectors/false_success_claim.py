"""`false_success_claim`: success that is claimed in words, which `critiqor.diagnosis.claims` checks and reports.

Here, an agent run is found that reported success without answering. It claims nothing, so it is a `premature_stop`.
"""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ModelCall, Moment, ToolCall

TYPE = "false_success_claim"
MEANING = "the agent claimed success, but the recorded calls contradict it or do not support it"


ENDED = "premature_stop"
"""The type of an agent run that ended without an answer."""


class FalseSuccessClaim(RunDetector[ToolCall | ModelCall | Message | Moment]):
    """Looks at the last message of an agent run that reports its own success."""

    NEEDS = (Message,)
    OBSERVES = (ToolCall, ModelCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._has_request = False
        self._reply: Message | None = None
        """The last message of the agent."""
        self._acted = False
        """Whether an action succeeded that may have been the agent's answer."""
        self._is_for_user = True
        self._end: Moment | None = None
        self._model_call: ModelCall | None = None
        """The last model call."""

    def observe(self, span: ToolCall | ModelCall | Message | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._acted |= span.result is not None and span.kind is Kind.ACTION and not span.failed
        elif isinstance(span, ModelCall):
            self._model_call = span
        elif isinstance(span, Moment):
            if span.event_type == "agent_end":
                self._end = span
            elif span.event_type == "agent_start":
                self._is_for_user = span.payload.get("trigger") not in ("heartbeat", "cron")
        elif span.is_user:
            self._has_request = True
        else:
            self._reply = span

    def findings(self) -> list[Draft]:
        end, last = self._end, self._reply
        if end is None or end.payload.get("success") is not True or end.status != "ok":
            return []
        if not self._is_for_user or not self._has_request or last is None or self._acted:
            return []
        if last.text or last.asks_tools or last.stop_reason not in (None, "stop"):
            return []
        written = self._written_tokens()
        return [
            Draft(
                type=ENDED,
                about=("no text",),
                severity="medium",
                confidence=80 if written == 0 else 70,
                title="The agent run ended without an answer",
                explanation="The agent's last message is empty, and it sent nothing through a tool either."
                + _sentence_on(written),
                evidence=cite_events([last.event_id, end.event_id]),
                first_bad_step=last.event_id,
                chain=[
                    CausalStep(last.event_id, "The answer is empty", None),
                    CausalStep(end.event_id, "The agent run ended as if complete", "precedes"),
                ],
                scope=self.run.scope,
                recommendation="Send the request again when the model writes nothing, and look for the reason at its "
                "provider."
                if written == 0
                else "Check the stop reason and the output limit of the model, and ask the agent for a final summary.",
                verification="Run the same task again: the last message has text.",
            )
        ]

    def _written_tokens(self) -> int | None:
        """Return how many tokens the last model call wrote; None if its usage is unknown."""
        call = self._model_call
        return call.tokens - (call.input_tokens or 0) if call is not None and call.tokens else None


def _sentence_on(written: int | None) -> str:
    """Return what a model call wrote that led to no answer, as a sentence to append."""
    if written is None:
        return ""
    if written == 0:
        return " The last model call wrote no token at all."
    return f" The last model call wrote {counted(written, 'token')}, none of them as a text or a tool call."
