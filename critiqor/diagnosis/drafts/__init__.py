"""Drafts of findings: what detectors return, the events that it cites and the tool calls that it names."""
