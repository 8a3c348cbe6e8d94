"""One file an output format, each with a function `report`: what is known of a run in, pieces of a file out."""

from __future__ import annotations

from typing import Literal, NamedTuple

Material = Literal["trace", "cpu_profiles", "recorded", "report", "gate", "cited", "bundle", "pages"]
"""What a reporter takes: `trace`, the run as slices of time (`critiqor.model.trace.Trace`), `cpu_profiles`, what its
threads were doing, one after the other (`critiqor.model.profiles.CpuProfile`), or one of `critiqor.model.report`:
events one by one (`Recorded`), the diagnosis with what is around it (`RunReport`), held against a policy
(`GateReport`), with the places of all that it cites (`CitedReport`), or files (`Bundle`). `pages` are those of the
dashboard, which draws them itself."""


class Format(NamedTuple):
    """What users need to know of a format, and what its reporter needs to know of a run."""

    suffix: str
    """The end of a file's name."""
    opens_in: str
    """Where to take the file."""
    takes: Material
    is_report: bool = False
    """Whether it is a report, and no matter for other tools."""


FORMATS: dict[str, Format] = {
    "perfetto": Format(".perfetto.json", "https://ui.perfetto.dev or chrome://tracing", "trace"),
    "speedscope": Format(".speedscope.json", "https://www.speedscope.app", "cpu_profiles"),
    "otlp": Format(".otlp.json", "an OpenTelemetry collector, Phoenix or any backend that takes OTLP", "recorded"),
    "sarif": Format(".sarif", "code scanning of GitHub, or a SARIF viewer of your editor", "cited"),
    "junit": Format(".junit.xml", "the test report of your CI", "gate"),
    "markdown": Format(".md", "a pull request, a ticket, or any viewer of Markdown", "report", is_report=True),
    "json": Format(".report.json", "jq, or a program of your own", "report", is_report=True),
    "html": Format(".html", "any browser; it needs no network", "pages", is_report=True),
    "pdf": Format(".pdf", "any viewer of PDF, or a printer", "pages", is_report=True),
    "zip": Format(".zip", "any unzip; in its folder, sha256sum -c SHA256SUMS checks it", "bundle"),
}
"""Every format by its name. The reporter lives in the module of that name; pages have none."""
