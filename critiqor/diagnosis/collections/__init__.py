"""Collections for recordings of any length: what is remembered for comparison, and sets of positions."""
