"""Data behind the pages: run catalog, event index, view models."""
