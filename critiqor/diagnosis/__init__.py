"""From evidence to diagnosis: pure, deterministic, one pass over the events, no model in the loop."""

from critiqor.diagnosis.engine import ENGINE_VERSION, Examination

__all__ = ["ENGINE_VERSION", "Examination"]
