"""Cutting the recording of a launched OpenClaw into segments while it runs."""
