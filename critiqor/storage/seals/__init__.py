"""Seals of a run: digests of its evidence, record and diagnosis, signatures with the user's key, and verification."""
