"""What pages show: the run catalog, the event index, view models."""
