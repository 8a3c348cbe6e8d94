"""`forbidden_tool`: the agent called a tool that the environment variable FORBIDDEN_TOOLS names."""

import os

from critiqor.extensions.detector import AgentRun, CausalStep, Draft, RunDetector, ToolCall, cite_events

TYPE = "forbidden_tool"
MEANING = "the agent called a tool that it must not call"


class ForbiddenTool(RunDetector[ToolCall]):
    """Collects the calls of forbidden tools."""

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._forbidden = {name.strip() for name in os.environ.get("FORBIDDEN_TOOLS", "").split(",")}
        self._calls: dict[str, list[ToolCall]] = {}

    def observe(self, span: ToolCall, /) -> None:
        if span.tool in self._forbidden:
            self._calls.setdefault(span.tool, []).append(span)

    def findings(self) -> list[Draft]:
        return [
            Draft(
                type=TYPE,
                about=(tool,),
                severity="high",
                confidence=100,
                title=f"`{tool}` was called, but it is forbidden",
                explanation=f"FORBIDDEN_TOOLS names {tool}, and the agent called it {len(calls)} times.",
                evidence=cite_events(call.evidence for call in calls),
                occurrences=len(calls),
                first_bad_step=calls[0].call,
                chain=[CausalStep(calls[0].call, f"The agent called {calls[0].name}")],
                scope=self.run.scope,
                recommendation=f"Remove {tool} from the tools of the agent.",
                verification="Run the same task again: this finding is gone.",
            )
            for tool, calls in self._calls.items()
        ]
