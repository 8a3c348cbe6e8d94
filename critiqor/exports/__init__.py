"""A run in a format of others: what is known of it is gathered, handed to a reporter, and written down or sent."""

from critiqor.exports.export import SENT_FORMAT, Export, Sending, export_run, send_run
from critiqor.exports.materials import Wishes
from critiqor.exports.sources import load_report
from critiqor.exports.traces import gather_trace

__all__ = ["SENT_FORMAT", "Export", "Sending", "Wishes", "export_run", "gather_trace", "load_report", "send_run"]
