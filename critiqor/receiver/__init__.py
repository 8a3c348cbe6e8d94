"""Receiver of OTLP/HTTP: traces that other tools send become runs. Requests, a spool on disk, and the import."""
