"""What authors of detectors import. The same classes are used by the built-in detectors.

A detector is a module with a `TYPE`, its `MEANING`, and a class that inherits from `RunDetector` or `SessionDetector`.
"""

from critiqor.diagnosis.detector import RunDetector, SessionDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, MemoryLookup, Message, ModelCall, Moment, Plan, SecretMark, ToolCall

__all__ = [
    "AgentRun",
    "CausalStep",
    "Draft",
    "Kind",
    "MemoryLookup",
    "Message",
    "ModelCall",
    "Moment",
    "Plan",
    "RunDetector",
    "Scope",
    "SecretMark",
    "SessionDetector",
    "Severity",
    "ToolCall",
    "cite_events",
]
