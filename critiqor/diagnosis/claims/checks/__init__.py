"""Checks of claims: each compares what an agent says with one kind of evidence."""
