"""The diagnostics timeline of OpenClaw, `openclaw.diagnostics.v1`: read, matched, summarised and told.

`read_timeline` makes a summary of a file, `Timing` adds what the events of the same run tell, above all where the time
of each turn went, and `timeline_lines` and `timeline_markdown` tell it to people.
"""

from critiqor.timeline.reader.reading import Timeline, read_timeline
from critiqor.timeline.report import timeline_lines, timeline_markdown
from critiqor.timeline.timing import Timing
from critiqor.timeline.turns.attribution import attribute_turns

__all__ = ["Timeline", "Timing", "attribute_turns", "read_timeline", "timeline_lines", "timeline_markdown"]
