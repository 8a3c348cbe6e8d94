"""Runs of many machines: an object store for sealed runs, an index of their diagnoses, and computing over them."""
