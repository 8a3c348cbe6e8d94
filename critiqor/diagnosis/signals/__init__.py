"""Heuristics on texts, tool names, numbers and redaction marks, without a language model."""
