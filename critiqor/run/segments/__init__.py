"""Recordings without an end: a recording is cut into runs that are sealed and diagnosed one by one."""
