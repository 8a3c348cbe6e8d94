"""Agent runs and sessions while they are recorded: their detectors, and sums of those that are over."""
