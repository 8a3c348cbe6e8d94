"""Calling a model: client, HTTP, streaming, retries, failures."""
