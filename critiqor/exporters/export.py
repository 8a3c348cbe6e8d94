"""Writing and sending: what is known of a run goes through a reporter into a file, into a stream or to a collector."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from critiqor import __version__
from critiqor.errors import CritiqorError, UsageError
from critiqor.exporters.formats import FORMATS
from critiqor.exporters.materials import USUAL, Wishes, gather, gather_recorded
from critiqor.exporters.otlp.credentials import stays_here
from critiqor.exporters.sources import head_of, leaving_notes
from critiqor.model.report import RunHead
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR
from critiqor.storage import AtomicFile, SessionPaths, paths_for
from critiqor.storage import run_record as records

SENT_FORMAT = "otlp"
"""The format that a collector takes."""
MOST_MESSAGES = 3
"""Of a collector, that are passed on."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    run_id: str
    format: str
    file: str | None
    """Null for what went into a stream."""
    bytes: int
    opens_in: str
    notes: list[str]
    """What is missing, and why."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent."""

    run_id: str
    format: str
    endpoint: str
    spans: int
    requests: int
    bytes: int
    rejected: int
    """Spans that the collector did not take."""
    notes: list[str]
    """What is missing, and what the collector said."""


def export_run(
    run_id: str,
    format_name: str,
    output: Path | BinaryIO | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    wishes: Wishes = USUAL,
) -> Export:
    """Write a run in one of `FORMATS`: into a file, into a stream, or into `<run><suffix>` in the current folder."""
    format_ = FORMATS[format_name]
    paths = paths_for(runs_dir)
    records.load_head(paths, run_id)
    target = Path(f"{run_id}{format_.suffix}") if output is None else output
    if isinstance(target, Path):
        target = _checked(target, paths)
    reporter = _paged if format_.takes == "pages" else _reported
    pieces, notes = reporter(run_id, format_name, runs_dir, wishes)
    return Export(
        run_id=run_id,
        format=format_name,
        file=str(target) if isinstance(target, Path) else None,
        bytes=_written(pieces, target),
        opens_in=format_.opens_in,
        notes=notes,
    )


def send_run(run_id: str, address: str, runs_dir: str | Path = DEFAULT_RUNS_DIR, wishes: Wishes = USUAL) -> Sending:
    """Send the spans of a run to a collector, request by request. Ids stay the same, so that it can be done again."""
    from critiqor.exporters.otlp.endpoint import Endpoint
    from critiqor.exporters.otlp.otlp import requests

    endpoint = Endpoint(address, __version__, os.environ)
    gathered = gather_recorded(run_id, runs_dir, wishes)
    notes = [*_sent_away(gathered.material.run, endpoint.url), *gathered.notes]
    spans = count = size = rejected = 0
    messages: dict[str, None] = {}
    for request in requests(gathered.material):
        try:
            sent = endpoint.send(request)
        except CritiqorError as error:
            before = f" ({spans} spans were taken before; sending all again does no harm)" if spans else ""
            raise CritiqorError(f"{error.message}{before}", fix=error.fix) from error
        spans, count, size = spans + len(request.spans), count + 1, size + sent.bytes
        rejected += min(sent.taken.rejected, len(request.spans))
        if sent.taken.message:
            messages[f"The collector says: {sent.taken.message}"] = None
    return Sending(
        run_id=run_id,
        format=SENT_FORMAT,
        endpoint=endpoint.url,
        spans=spans,
        requests=count,
        bytes=size,
        rejected=rejected,
        notes=[*notes, *endpoint.credentials.notes, *list(messages)[:MOST_MESSAGES]],
    )


class _Report(NamedTuple):
    """What is to be written."""

    pieces: Iterator[bytes]
    notes: list[str]


def _reported(run_id: str, format_name: str, runs_dir: str | Path, wishes: Wishes) -> _Report:
    gathered = gather(FORMATS[format_name].takes, run_id, runs_dir, wishes)
    report: Callable[[Any], Iterator[bytes]] = importlib.import_module(f"critiqor.exporters.{format_name}").report
    return _Report(report(gathered.material), gathered.notes)


def _paged(run_id: str, format_name: str, runs_dir: str | Path, wishes: Wishes) -> _Report:
    """The pages of the dashboard as one file, or the same on paper."""
    from critiqor.exporters.pdf.chromium import find_chromium, printed

    if wishes.pages is None:
        raise UsageError("pages are drawn by the dashboard", fix=f"critiqor report {run_id} --format {format_name}")
    notes = leaving_notes(head_of(run_id, paths_for(runs_dir)))
    if format_name == "html":
        return _Report(wishes.pages(run_id, runs_dir), notes)
    # Before anything is drawn that could not be printed.
    chromium = find_chromium(f"critiqor report {run_id} --format html")
    return _Report(printed(wishes.pages(run_id, runs_dir), chromium), notes)


def _sent_away(head: RunHead, url: str) -> list[str]:
    """What is to be said of a run that leaves this machine."""
    if head.metadata.visibility == "private" and not stays_here(url):
        return [f"{head.run_id} is private, and went to another machine because you asked for that."]
    return leaving_notes(head)


def _checked(output: Path, paths: SessionPaths) -> Path:
    """Where to write, if nothing gets lost there."""
    file = output.resolve()
    if file.is_relative_to(paths.runs_dir.resolve()):
        message = f"{output} is in the runs folder, where it could be taken for a run"
        raise UsageError(message, fix="--output FILE   with a file elsewhere")
    if file.exists() and not file.is_file():
        raise UsageError(f"{output} is not a file", fix="--output FILE, or --output - for standard output")
    return file


def _written(pieces: Iterable[bytes], target: Path | BinaryIO) -> int:
    if isinstance(target, Path):
        with AtomicFile(target) as file:
            for piece in pieces:
                file.write(piece)
        return file.size
    size = 0
    for piece in pieces:
        target.write(piece)
        size += len(piece)
    target.flush()
    return size
