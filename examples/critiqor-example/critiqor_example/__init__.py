"""Example extensions of Critiqor."""
