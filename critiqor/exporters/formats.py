"""The output formats. The module of a format has a function `report` from its material to pieces of a file."""

from __future__ import annotations

from typing import Literal, NamedTuple

Material = Literal["trace", "cpu_profiles", "recorded", "report", "gate", "cited", "bundle", "pages"]
"""What a reporter takes: `trace`, the run as slices of time (`critiqor.model.trace.Trace`); `cpu_profiles`, one profile
per thread (`critiqor.model.profiles.CpuProfile`); or one of `critiqor.model.report`: events one by one (`Recorded`), a
report (`RunReport`), a report with policy results (`GateReport`) or with the file and line of everything it cites
(`CitedReport`), or files (`Bundle`). `pages` are rendered by the dashboard."""


class Format(NamedTuple):
    """An output format: what users need to know about it, and the input of its reporter."""

    suffix: str
    """Suffix of the file name."""
    opens_in: str
    """Programs or sites that open the file."""
    takes: Material
    is_report: bool = False
    """Whether it is a report for people, which `critiqor report` writes."""


FORMATS: dict[str, Format] = {
    "perfetto": Format(".perfetto.json", "https://ui.perfetto.dev or chrome://tracing", "trace"),
    "speedscope": Format(".speedscope.json", "https://www.speedscope.app", "cpu_profiles"),
    "otlp": Format(".otlp.json", "an OpenTelemetry collector, Phoenix or any backend that accepts OTLP", "recorded"),
    "sarif": Format(".sarif", "GitHub code scanning, or a SARIF viewer in your editor", "cited"),
    "junit": Format(".junit.xml", "your CI's test report", "gate"),
    "markdown": Format(".md", "a pull request, a ticket, or any Markdown viewer", "report", is_report=True),
    "json": Format(".report.json", "jq, or your own program", "report", is_report=True),
    "html": Format(".html", "any browser; it needs no network", "pages", is_report=True),
    "pdf": Format(".pdf", "any PDF viewer, or print it", "pages", is_report=True),
    "zip": Format(
        ".zip", "any unzip program; to check the files, run in their folder: sha256sum -c SHA256SUMS", "bundle"
    ),
}
"""All formats by name. The reporter of a format is in the module of the same name; pages have no reporter."""
