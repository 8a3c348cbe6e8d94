"""Failure types that come from checking claims, with their meanings: no detector observes spans for them."""

from __future__ import annotations

CLAIM_TYPES: dict[str, str] = {
    "unsupported_claim": "the agent asserted something that no recorded call supports",
    "misreported_value": "the agent reported a value that differs from the recorded one",
    "weakened_check": "a check was made to pass instead of what it checks, and the report does not say so",
    "wrong_target": "an action reached another target than the one that was named",
}
"""In the order of findings of the same severity."""
