"""A scripted model on loopback."""
