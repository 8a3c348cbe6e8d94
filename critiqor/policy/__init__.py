"""What a user demands of a run, and whether it holds. Pure."""
