"""Deep profiles: what Node's profilers wrote in a run, read, summarised and told.

`summarise_profiles` makes a summary of a folder, `profile_lines` and `profile_markdown` tell it to people, and
`read_cpu_profiles` hands out CPU profiles one by one, for export.
"""

from critiqor.timeline.profiles.report import profile_lines, profile_markdown
from critiqor.timeline.profiles.summary import read_cpu_profiles, summarise_profiles

__all__ = ["profile_lines", "profile_markdown", "read_cpu_profiles", "summarise_profiles"]
