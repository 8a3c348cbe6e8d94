"""The recorder and the diagnostics timeline of the embedded loop."""
