"""Classes of checks, such as tests and builds: which of them a call runs, and whether a statement gives a result."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.speech import Speech, Stance

CHECKS = {
    "test": re.compile(r"test|spec\b|jest|\btox\b|\bnox\b|cypress|playwright|mocha|coverage"),
    "build": re.compile(r"build|compil|\btsc\b|webpack|gradle|\bmvn|cmake"),
    "lint": re.compile(r"lint|ruff|mypy|flake8|\bblack\b|prettier|rubocop|clippy|typecheck|shellcheck"),
}
"""What the command lines of checks look like."""


def check_classes(call: EpisodeCall) -> set[str]:
    """Return what a call checks; empty if its name does not tell."""
    return {name for name, pattern in CHECKS.items() if pattern.search(call.line or call.tool)}


def gives_result(speech: Speech, stance: Stance, classes: set[str]) -> bool:
    """Return whether a statement gives the result of checks of these classes: all tests pass, the build is green."""
    if not any(speech.has(stance, f"subjects.{name}") for name in classes):
        return False
    return speech.has(stance, "totality") or any(speech.has(stance, f"actions.{name}") for name in CHECKS)
