"""Comparisons of several runs: compare two runs, follow a trend, rank a run within a benchmark. Pure."""
