"""A run in a format of others: what is known of it is gathered, handed to a reporter, and written down or sent."""

from critiqor.exporters.export import SENT_FORMAT, Export, Sending, export_run, send_run
from critiqor.exporters.materials import Wishes
from critiqor.exporters.sources import load_report
from critiqor.exporters.trace.gather import gather_trace

__all__ = ["SENT_FORMAT", "Export", "Sending", "Wishes", "export_run", "gather_trace", "load_report", "send_run"]
