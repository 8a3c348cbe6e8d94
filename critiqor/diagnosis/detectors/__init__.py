"""The registry of detectors: one module per failure type."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CLAIM_TYPES
from critiqor.diagnosis.detectors import (
    agent_failure,
    child_process_failure,
    compaction_loss,
    context_pollution,
    cost_explosion,
    evidence_tampered,
    false_success_claim,
    ignored_tool_output,
    inspection_incomplete,
    latency_stall,
    memory_failure,
    no_progress,
    premature_stop,
    process_failure,
    provider_failure,
    records_lost,
    repeated_side_effect,
    repeated_tool_failure,
    retry_storm,
    secret_exposure,
    skill_failure,
    slow_provider,
    slow_startup,
    stuck_session,
    subagent_failure,
    timeout,
    tool_loop,
    tool_misuse,
    unresolved_tool_error,
)
from critiqor.diagnosis.hazards.hazard import FAILURE_TYPES as HAZARDS
from critiqor.diagnosis.registry import DetectorRegistry

CONTRACT_VIOLATION = "contract_violation"
"""Type of the findings about contracts, which are checked by `critiqor.policy.contracts`."""

_MODULES = (
    evidence_tampered,
    process_failure,
    timeout,
    stuck_session,
    provider_failure,
    retry_storm,
    agent_failure,
    false_success_claim,
    repeated_side_effect,
    secret_exposure,
    tool_loop,
    repeated_tool_failure,
    context_pollution,
    compaction_loss,
    memory_failure,
    tool_misuse,
    unresolved_tool_error,
    ignored_tool_output,
    subagent_failure,
    skill_failure,
    cost_explosion,
    premature_stop,
    no_progress,
    child_process_failure,
    latency_stall,
    slow_provider,
    slow_startup,
    records_lost,
    inspection_incomplete,
)


def _register_modules() -> DetectorRegistry:
    registry = DetectorRegistry()
    for module in _MODULES:
        registry.register(module, built_in=True)
        if module is false_success_claim:
            registry.meanings |= CLAIM_TYPES
    registry.meanings.update(HAZARDS)
    registry.meanings[CONTRACT_VIOLATION] = "The agent violated a contract of the user's policy."
    return registry


BUILT_IN = _register_modules()
"""The built-in detectors."""
FAILURE_TYPES: dict[str, str] = BUILT_IN.meanings
"""Every built-in failure type with its meaning, in the order of findings of the same severity."""

EXPLAINED_BY = {
    unresolved_tool_error.TYPE: {
        repeated_tool_failure.TYPE,
        tool_misuse.TYPE,
        false_success_claim.TYPE,
        unresolved_tool_error.TYPE,
        "unsupported_claim",
    },
    ignored_tool_output.TYPE: {"unsupported_claim", "misreported_value"},
    no_progress.TYPE: {repeated_tool_failure.TYPE, tool_loop.TYPE},
    repeated_tool_failure.TYPE: {skill_failure.TYPE},
    tool_loop.TYPE: {memory_failure.TYPE},
    memory_failure.TYPE: {tool_misuse.TYPE},
    process_failure.TYPE: {stuck_session.TYPE},
}
"""Failure types that are redundant if a finding of one of the other types explains the same events.

Of two findings of one type about the same event, the less severe one is redundant.
"""


__all__ = ["BUILT_IN", "CONTRACT_VIOLATION", "EXPLAINED_BY", "FAILURE_TYPES"]
