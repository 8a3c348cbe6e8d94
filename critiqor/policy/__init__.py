"""Policies: what a user requires of a run, and the gate that checks it. Nothing here does I/O."""
