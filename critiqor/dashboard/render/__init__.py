"""Drawings as SVG, formatting of values, the offline report."""
