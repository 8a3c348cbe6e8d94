"""OpenTelemetry spans of a run: JSON or protobuf, into a file or to a collector."""

from critiqor.exporters.otlp.otlp import report, requests

__all__ = ["report", "requests"]
