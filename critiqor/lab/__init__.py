"""Scripted scenarios that run an agent reproducibly, on the embedded loop or a real OpenClaw, to test the diagnosis."""
