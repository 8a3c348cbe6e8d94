"""Questions about several runs: compare two, follow a trend, rank within a benchmark. Pure."""
