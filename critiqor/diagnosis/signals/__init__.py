"""Heuristics on texts, tool calls, outputs, errors, numbers and redaction marks, without a language model."""
