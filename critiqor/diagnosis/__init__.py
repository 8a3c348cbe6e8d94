"""Diagnosis of evidence: pure, deterministic, one pass over the events, without a language model."""

from critiqor.diagnosis.detectors import FAILURE_TYPES
from critiqor.diagnosis.diagnoser import ENGINE_VERSION, RULE_SET_VERSION, Diagnoser

__all__ = ["ENGINE_VERSION", "FAILURE_TYPES", "RULE_SET_VERSION", "Diagnoser"]
