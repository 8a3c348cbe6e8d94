"""Recorded facts: the numbers of outputs with what they belong to, which of them a claim means, and what was quoted."""
