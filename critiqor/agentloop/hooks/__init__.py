"""Hooks: plugin hooks (Python handlers) and internal hooks (scripts)."""
