"""Scripted models and scenarios that run an agent the same way every time."""
