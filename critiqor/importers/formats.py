"""The formats that can be imported: built-in ones and those of extensions, registered by the same checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from critiqor.errors import CritiqorError, RegistrationError, UsageError
from critiqor.extensions.entry_points import describe_error
from critiqor.importers.atif import NAME as ATIF
from critiqor.importers.atif import is_atif, read_atif
from critiqor.importers.coding_agents.claude_code import NAME as CLAUDE_CODE
from critiqor.importers.coding_agents.claude_code import is_claude_code, read_claude_code
from critiqor.importers.coding_agents.codex import NAME as CODEX
from critiqor.importers.coding_agents.codex import is_codex, read_codex
from critiqor.importers.files import InputFile, reject_binary_file
from critiqor.importers.neutral import NAME as NEUTRAL
from critiqor.importers.neutral import is_neutral, read_neutral
from critiqor.importers.otel.records import contains_spans
from critiqor.importers.otel.traces import NAME as SPANS
from critiqor.importers.otel.traces import read_spans
from critiqor.importers.session_documents import NAME as SESSION
from critiqor.importers.session_documents import is_session_document, read_session_document
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.transcripts import (
    TRAJECTORY,
    TRANSCRIPT,
    is_trajectory,
    is_transcript,
    read_trajectory,
    read_transcript,
)

if TYPE_CHECKING:
    from critiqor.extensions.loading import Loaded

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class Importer(NamedTuple):
    """A format that can be imported: how a file of it is recognized and read."""

    description: str
    """The format in a few words."""
    detects: Callable[[InputFile], bool]
    """Returns whether a file has this format."""
    read: Callable[[Path, bytes], Iterable[ImportedTrace]]
    """Yields the traces of a file; the key is for the redaction of secrets, see `EventWriter`."""


def check_importer(name: str, importer: object) -> Importer:
    """Return an importer that can be registered. Raise `RegistrationError` if its name is taken or it is invalid."""
    if not _NAME.fullmatch(name):
        raise RegistrationError("the name must be a word of lowercase letters, digits, hyphens and underscores")
    if name in _BUILT_IN:
        raise RegistrationError(f"the name {name} is taken")
    if not isinstance(importer, Importer):
        raise RegistrationError("it must be a critiqor.importers.Importer")
    if not isinstance(importer.description, str) or not importer.description.strip():
        raise RegistrationError("description must say what the format is")
    if not callable(importer.detects) or not callable(importer.read):
        raise RegistrationError("detects and read must be functions")
    return importer


@cache
def extension_importers() -> Loaded[Importer]:
    """Load the importers of installed extensions."""
    from critiqor.extensions.loading import load_parts

    return load_parts("critiqor.importers", check_importer)


def detect_format(path: str | Path) -> str:
    """Return the name of the format of a file. Raises UsageError if it cannot be imported.

    Extensions are loaded only if the file has none of the built-in formats.
    """
    file = InputFile(Path(path))
    try:
        reject_binary_file(file.path)
    except UsageError:
        if not file.path.is_file() or (name := _detect_extension(file)) is None:
            raise
        return name
    for name, importer in _BUILT_IN.items():
        if importer.detects(file):
            return name
    if (name := _detect_extension(file)) is not None:
        return name
    first = next(iter(file.entries), None)
    what = "nothing" if first is None else first.problem or _describe(first.value)
    extensions = extension_importers()
    problems = "".join(f"; {problem}" for problem in extensions.problems)
    known = [*FORMATS.values(), *(importer.description for importer in extensions.parts.values())]
    raise UsageError(
        f"{file.path.name} is not in a format that can be imported; its first value is {what}{problems}",
        fix="supported formats: " + "; ".join(known),
    )


def _detect_extension(file: InputFile) -> str | None:
    extensions = extension_importers()
    for name, importer in list(extensions.parts.items()):
        try:
            if importer.detects(file):
                return name
        except (Exception, SystemExit) as error:
            # It is not asked again, and reported like one that cannot be loaded.
            extensions.failed.append((extensions.origins[name], describe_error(error)))
            del extensions.parts[name]
    return None


def read_traces(path: str | Path, key: bytes = b"import") -> Iterator[ImportedTrace]:
    """Yield the trace of every run in a file, whose format is detected.

    A trace that cannot be read has no events, and its notes say why. Secrets are replaced by tags derived from `key`;
    if the key is secret, a guessed secret cannot be checked against a tag.
    """
    name = detect_format(path)
    return iter(_BUILT_IN[name].read(Path(path), key)) if name in _BUILT_IN else _read_extension(name, Path(path), key)


def _read_extension(name: str, path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the traces that an extension reads. It may raise anything, or yield something else than traces."""
    extensions = extension_importers()
    try:
        for trace in extensions.parts[name].read(path, key):
            # Structs do not check the types of their fields.
            checked = msgspec.convert(msgspec.to_builtins(trace), ImportedTrace)
            yield msgspec.structs.replace(checked, format=name)
    except CritiqorError:
        raise
    except (Exception, SystemExit) as error:
        raise extensions.failure(name, error) from error


def describe_format(name: str) -> str:
    """Return the description of a format that can be imported."""
    return FORMATS[name] if name in FORMATS else extension_importers().parts[name].description


def extension_problems(name: str) -> list[str]:
    """Return the problems with extensions, if they were loaded to import this format."""
    return [] if name in FORMATS else extension_importers().problems


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(str(name)[:40] for name in islice(value, 6))
        return f"an object with {names}" if names else "an empty object"
    return "a list" if isinstance(value, list) else "a plain value"


def _has_value(matches: Callable[[Any], bool]) -> Callable[[InputFile], bool]:
    return lambda file: any(matches(value) for value in file.values)


_BUILT_IN: dict[str, Importer] = {}
for _name, _importer in {
    # First, because it is recognized without decoding the file, and has a list of events too.
    SESSION: Importer("session.json or the record of a run of Critiqor", is_session_document, read_session_document),
    TRANSCRIPT: Importer("a session transcript of OpenClaw (JSON Lines)", _has_value(is_transcript), read_transcript),
    TRAJECTORY: Importer("events.jsonl of an OpenClaw trajectory export", _has_value(is_trajectory), read_trajectory),
    CLAUDE_CODE: Importer("a transcript of Claude Code (JSON Lines)", _has_value(is_claude_code), read_claude_code),
    CODEX: Importer("a rollout file of Codex (JSON Lines)", _has_value(is_codex), read_codex),
    # Before the neutral format, because a span has a list of events too.
    SPANS: Importer(
        "OpenTelemetry spans (OTLP/JSON, OpenInference or GenAI conventions)", _has_value(contains_spans), read_spans
    ),
    ATIF: Importer("an agent trajectory of Harbor (ATIF)", _has_value(is_atif), read_atif),
    NEUTRAL: Importer('JSON Lines of {"labels": …, "events": […]}', _has_value(is_neutral), read_neutral),
}.items():
    _BUILT_IN[_name] = check_importer(_name, _importer)
FORMATS: dict[str, str] = {name: importer.description for name, importer in _BUILT_IN.items()}
"""Descriptions of the built-in formats, by name."""
