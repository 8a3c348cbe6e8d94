"""Import of runs that were recorded elsewhere: one module per format, each yielding traces of events.

for trace in read_traces(path):
    trace.trace_id, trace.events, trace.notes
"""

from __future__ import annotations

from critiqor.importers.event_writer import EventFields, EventWriter
from critiqor.importers.files import InputFile
from critiqor.importers.formats import FORMATS, Importer, detect_format, read_traces
from critiqor.importers.trace import ImportedTrace

__all__ = [
    "FORMATS",
    "EventFields",
    "EventWriter",
    "ImportedTrace",
    "Importer",
    "InputFile",
    "detect_format",
    "read_traces",
]
