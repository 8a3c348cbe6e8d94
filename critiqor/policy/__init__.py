"""Policies: what a user requires of a run, and the gate that checks it. Pure."""
