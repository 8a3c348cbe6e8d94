"""OpenClaw's diagnostics timeline, `openclaw.diagnostics.v1`: reading, aggregation, comparison and reports.

`read_timeline` summarizes a file. `Timing` combines the summary with the recorded events of the same run, to show where
the time of each turn went. `timeline_lines` and `timeline_markdown` format a summary for people.
"""

from critiqor.timeline.reports.timeline_report import timeline_lines, timeline_markdown
from critiqor.timeline.summary import SummaryBuilder, read_timeline
from critiqor.timeline.timing import Timing
from critiqor.timeline.turns.attribution import attribute_turns

__all__ = ["SummaryBuilder", "Timing", "attribute_turns", "read_timeline", "timeline_lines", "timeline_markdown"]
