"""Pages about the runs of many machines: lists and statistics from the index, runs from the store."""
