"""Policies: what a user requires of runs: the gate, limits, and contracts over expressions. Nothing here does I/O."""
