"""What verbs and pages show of the fleet: trends and ranks from the index, comparisons of runs from the store."""
