"""Checks of the way an agent works, on episodes: stopping early, ignoring results, memory, subagents or the user."""
