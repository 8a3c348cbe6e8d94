"""Whom and what an action reached: the records that a lookup listed, and the values that a request names."""
