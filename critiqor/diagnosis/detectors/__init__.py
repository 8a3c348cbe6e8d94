"""The registry of detectors: one module per failure type."""

from __future__ import annotations

from typing import Any

from critiqor.diagnosis.detector import RunDetector, SessionDetector
from critiqor.diagnosis.detectors import (
    agent_failure,
    child_process_failure,
    compaction_loss,
    context_pollution,
    cost_explosion,
    false_success_claim,
    ignored_tool_output,
    inspection_incomplete,
    latency_stall,
    memory_failure,
    no_progress,
    premature_stop,
    process_failure,
    provider_failure,
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

_MODULES = (
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
    inspection_incomplete,
)
FAILURE_TYPES: dict[str, str] = {module.TYPE: module.MEANING for module in _MODULES}
"""Every failure type with its meaning, in the order of findings of the same severity."""

RUN_DETECTORS: tuple[type[RunDetector[Any]], ...] = (
    provider_failure.ProviderFailure,
    retry_storm.RetryStorm,
    agent_failure.AgentFailure,
    timeout.AgentTimeout,
    tool_loop.ToolLoop,
    repeated_tool_failure.RepeatedToolFailure,
    tool_misuse.ToolMisuse,
    false_success_claim.FalseSuccessClaim,
    unresolved_tool_error.UnresolvedToolError,
    ignored_tool_output.IgnoredToolOutput,
    repeated_side_effect.RepeatedSideEffect,
    memory_failure.MemoryFailure,
    context_pollution.ContextPollution,
    skill_failure.SkillFailure,
    premature_stop.PrematureStop,
    no_progress.NoProgress,
    secret_exposure.SecretExposure,
    slow_provider.SlowProvider,
    cost_explosion.CostExplosion,
)
"""Detectors that are created for every agent run. `CostExplosion` is last: it uses the findings of the others."""
SESSION_DETECTORS: tuple[type[SessionDetector[Any]], ...] = (
    memory_failure.ForgottenMemory,
    memory_failure.RedoneLookups,
    compaction_loss.CompactionLoss,
)
"""Detectors that are created for every session."""
RECORDING_DETECTORS = (
    process_failure.ProcessFailure,
    timeout.SupervisorTimeout,
    stuck_session.StuckSession,
    subagent_failure.SubagentFailure,
    inspection_incomplete.InspectionIncomplete,
)
"""Detectors that are created once per recording. They read what `Recording` has observed."""

EXPLAINED_BY = {
    unresolved_tool_error.TYPE: {repeated_tool_failure.TYPE, tool_misuse.TYPE, false_success_claim.TYPE},
    no_progress.TYPE: {repeated_tool_failure.TYPE, tool_loop.TYPE},
    repeated_tool_failure.TYPE: {skill_failure.TYPE},
    tool_loop.TYPE: {memory_failure.TYPE},
    memory_failure.TYPE: {tool_misuse.TYPE},
    process_failure.TYPE: {stuck_session.TYPE},
}
"""Failure types that are redundant if a finding of one of the other types explains the same events."""


__all__ = ["EXPLAINED_BY", "FAILURE_TYPES", "RECORDING_DETECTORS", "RUN_DETECTORS", "SESSION_DETECTORS"]
