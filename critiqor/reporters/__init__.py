"""One file an output format, each with a function `report`: what is known of a run in, pieces of a file out."""

from __future__ import annotations

from typing import Literal, NamedTuple

Material = Literal["trace", "cpu_profiles"]
"""What a reporter takes: `trace`, the run as slices of time (`critiqor.model.trace.Trace`), or `cpu_profiles`, what its
threads were doing, one after the other (`critiqor.model.profiles.CpuProfile`)."""


class Format(NamedTuple):
    """What users need to know of a format, and what its reporter needs to know of a run."""

    suffix: str
    """The end of a file's name."""
    opens_in: str
    """Where to take the file."""
    takes: Material


FORMATS: dict[str, Format] = {
    "perfetto": Format(".perfetto.json", "https://ui.perfetto.dev or chrome://tracing", "trace"),
    "speedscope": Format(".speedscope.json", "https://www.speedscope.app", "cpu_profiles"),
}
"""Every format by its name. The reporter lives in the module of that name."""
