"""Conversations of a recording: what was said and done in each session, in order, and which of it is true.

Nothing here does I/O.
"""
