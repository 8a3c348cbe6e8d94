"""Deep profiles: the files that Node's profilers write during a run.

`summarise_profiles` summarizes a folder, `profile_lines` and `profile_markdown` format the summary for people, and
`read_cpu_profiles` yields CPU profiles one by one, for export.
"""

from critiqor.timeline.profiles.cpu_reader import read_cpu_profiles
from critiqor.timeline.profiles.report import profile_lines, profile_markdown
from critiqor.timeline.profiles.summary import summarise_profiles

__all__ = ["profile_lines", "profile_markdown", "read_cpu_profiles", "summarise_profiles"]
