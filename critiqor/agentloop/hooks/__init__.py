"""Plugin hooks and internal hooks."""
