"""Data behind the pages: run catalog, event index, values of pages."""
