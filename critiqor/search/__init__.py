"""Search in the content of all runs of a folder: terms, index and hits."""
