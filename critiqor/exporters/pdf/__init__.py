"""PDF export: print HTML with an installed Chromium."""
