"""Critiqor: a flight recorder and crash investigator for OpenClaw agents."""

__version__ = "0.1.0"
