"""Recorder and diagnostics timeline of the embedded loop."""
