"""The index of the runs of many machines: rows in SQLite or PostgreSQL, rebuilt from the store at any time."""
