"""Import of runs that were recorded elsewhere: one module per format, each yielding traces of events.

for trace in read_traces(path):
    trace.trace_id, trace.events, trace.notes
"""

from __future__ import annotations

from critiqor.importers.formats import FORMATS, detect_format, read_traces
from critiqor.importers.trace import ImportedTrace

__all__ = ["FORMATS", "ImportedTrace", "detect_format", "read_traces"]
