"""Recorded runs as the rest of the program sees them: state machine, view, diagnosis, explanation, timing."""
