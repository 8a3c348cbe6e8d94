"""What a user requires of a run, and whether the run meets it. Pure."""
