"""Detection of what an agent claims about its own work."""
