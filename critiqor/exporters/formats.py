"""The output formats: built-in ones and those of extensions, registered by the same checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from critiqor.errors import RegistrationError, UsageError

if TYPE_CHECKING:
    from critiqor.extensions.loading import Loaded

Material = Literal["trace", "cpu_profiles", "recorded", "report", "timed", "gate", "cited", "bundle", "pages"]
"""What a reporter takes: `trace`, the run as slices of time (`critiqor.model.trace.Trace`); `cpu_profiles`, one profile
per thread (`critiqor.model.profiles.CpuProfile`); or one of `critiqor.model.report`: events one by one (`Recorded`), a
report (`RunReport`), a report with the timing of the run (`TimedReport`), with policy results (`GateReport`) or with
the file and line of everything it cites (`CitedReport`), or files (`Bundle`). `pages` are rendered by the dashboard."""
Reporter = Callable[[Any], Iterable[bytes]]
"""Turns its material into the pieces of a file."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9_-]{1,20}){1,3}")


class Format(NamedTuple):
    """An output format: what users need to know about it, and the function that writes it."""

    suffix: str
    """Suffix of the file name."""
    opens_in: str
    """Programs or sites that open the file."""
    takes: Material
    is_report: bool = False
    """Whether it is a report for people, which `critiqor report` writes."""
    report: Reporter | None = None
    """The reporter; None only for `pages`."""


def check_format(name: str, format_: object, *, built_in: bool = False) -> Format:
    """Return a format that can be registered. Raise `RegistrationError` if its name is taken or a part is invalid."""
    if not _NAME.fullmatch(name):
        raise RegistrationError("the name must be a word of lowercase letters, digits, hyphens and underscores")
    if name in FORMATS:
        raise RegistrationError(f"the name {name} is taken")
    if not isinstance(format_, Format):
        raise RegistrationError("it must be a critiqor.exporters.Format")
    if not isinstance(format_.suffix, str) or not _SUFFIX.fullmatch(format_.suffix):
        raise RegistrationError("suffix must be that of a file name, such as .csv")
    if not isinstance(format_.opens_in, str) or not format_.opens_in.strip():
        raise RegistrationError("opens_in must say what opens the file")
    materials = [each for each in get_args(Material) if built_in or each != "pages"]
    if format_.takes not in materials:
        raise RegistrationError(f"takes must be one of {', '.join(materials)}")
    if format_.takes != "pages" and not callable(format_.report):
        raise RegistrationError("report must be a function")
    return format_


def find_format(name: str) -> Format:
    """Return a format by its name. Extensions are loaded only if it is not built in."""
    if name in FORMATS:
        return FORMATS[name]
    extensions = extension_formats()
    if name in extensions.parts:
        return extensions.parts[name]
    problems = "".join(f"; {problem}" for problem in extensions.problems)
    names = ", ".join([*FORMATS, *extensions.parts])
    raise UsageError(f"there is no export format {name!r}{problems}", fix=f"choose one of {names}")


@cache
def extension_formats() -> Loaded[Format]:
    """Load the formats of installed extensions."""
    from critiqor.extensions.loading import load_parts

    return load_parts("critiqor.exporters", check_format)


def _report(name: str, material: Any) -> Iterable[bytes]:
    """Call the reporter of a built-in format, which is in the module of that name. Some of them import slowly."""
    pieces: Iterable[bytes] = import_module(f"critiqor.exporters.{name}").report(material)
    return pieces


_BUILT_IN = {
    "perfetto": Format(".perfetto.json", "https://ui.perfetto.dev or chrome://tracing", "trace"),
    "speedscope": Format(".speedscope.json", "https://www.speedscope.app", "cpu_profiles"),
    "otlp": Format(".otlp.json", "an OpenTelemetry collector, Phoenix or any backend that accepts OTLP", "recorded"),
    "atif": Format(".atif.jsonl", "tools that read agent trajectories, such as Harbor; critiqor import", "recorded"),
    "sarif": Format(".sarif", "GitHub code scanning, or a SARIF viewer in your editor", "cited"),
    "junit": Format(".junit.xml", "your CI's test report", "gate"),
    "markdown": Format(".md", "a pull request, a ticket, or any Markdown viewer", "timed", is_report=True),
    "json": Format(".report.json", "jq, or your own program", "report", is_report=True),
    "html": Format(".html", "any browser; it needs no network", "pages", is_report=True),
    "pdf": Format(".pdf", "any PDF viewer, or print it", "pages", is_report=True),
    "zip": Format(
        ".zip", "any unzip program; to check the files, run in their folder: sha256sum -c SHA256SUMS", "bundle"
    ),
}
FORMATS: dict[str, Format] = {}
"""The built-in formats by name."""
for _name, _format in _BUILT_IN.items():
    FORMATS[_name] = check_format(_name, _format._replace(report=partial(_report, _name)), built_in=True)
