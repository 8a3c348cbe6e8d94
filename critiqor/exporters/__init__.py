"""Exports and reports: a run is gathered, passed to the reporter of a format, and written or sent."""

from critiqor.exporters.export import SENT_FORMAT, Export, Sending, export_run, send_run
from critiqor.exporters.formats import Format
from critiqor.exporters.gathering import ExportOptions, load_report
from critiqor.exporters.trace.trace_builder import gather_trace

__all__ = [
    "SENT_FORMAT",
    "Export",
    "ExportOptions",
    "Format",
    "Sending",
    "export_run",
    "gather_trace",
    "load_report",
    "send_run",
]
