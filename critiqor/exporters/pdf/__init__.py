"""PDF, printed by a Chromium of this machine."""
