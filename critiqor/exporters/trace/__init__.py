"""A run as slices of time on lanes, for trace viewers and for charts."""
