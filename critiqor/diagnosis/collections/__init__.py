"""Collections for recordings of any length: what is remembered for comparison, fingerprints, and sets of positions."""
