"""Writes a run in an output format to a file or a stream, or sends it to a collector."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from critiqor import __version__
from critiqor.errors import CritiqorError, UsageError
from critiqor.exporters.export_notes import visibility_notes
from critiqor.exporters.formats import FORMATS, Format, extension_formats, find_format
from critiqor.exporters.gathering import DEFAULT_OPTIONS, ExportOptions, gather, gather_recorded
from critiqor.exporters.otlp.collector_address import is_on_this_machine
from critiqor.privacy.visibility import EXPORT
from critiqor.run.store import Run
from critiqor.run.view import RunView
from critiqor.storage import AtomicFile

SENT_FORMAT = "otlp"
"""The format that collectors accept."""
MAX_MESSAGES = 3
"""Maximum number of collector messages that are repeated in the notes."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Result of writing an export."""

    run_id: str
    format: str
    file: str | None
    """Null for an export to a stream."""
    bytes: int
    opens_in: str
    notes: list[str]
    """What is missing, and why."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """Result of sending a run to a collector."""

    run_id: str
    format: str
    endpoint: str
    spans: int
    requests: int
    bytes: int
    rejected: int
    """Spans that the collector rejected."""
    notes: list[str]
    """What is missing, and messages of the collector."""


def export_run(
    run: Run,
    format_name: str,
    output: Path | BinaryIO | None = None,
    options: ExportOptions = DEFAULT_OPTIONS,
) -> Export:
    """Write a run in one of `FORMATS`: to a file, to a stream, or to `<run><suffix>` in the current folder."""
    format_ = find_format(format_name)
    run.head()
    target = Path(f"{run.id}{format_.suffix}") if output is None else output
    if isinstance(target, Path):
        target = _checked(target, run)
    if format_.takes == "pages":
        pieces, notes = _prepare_pages(run, format_name, options)
    else:
        gathered = gather(format_.takes, run, options)
        pieces, notes = _pieces(format_name, format_, gathered.material), gathered.notes
    return Export(
        run_id=run.id,
        format=format_name,
        file=str(target) if isinstance(target, Path) else None,
        bytes=_write(pieces, target),
        opens_in=format_.opens_in,
        notes=notes,
    )


def send_run(run: Run, address: str, options: ExportOptions = DEFAULT_OPTIONS) -> Sending:
    """Export a run to a collector: send its spans in several requests. Ids are stable, so sending can be repeated."""
    from critiqor.exporters.otlp.endpoint import Endpoint
    from critiqor.exporters.otlp.otlp import requests

    endpoint = Endpoint(address, __version__, os.environ)
    view = RunView(run, EXPORT)
    gathered = gather_recorded(view, options)
    notes = [*_sending_notes(view, endpoint.url), *gathered.notes]
    spans = count = size = rejected = 0
    messages: dict[str, None] = {}
    for request in requests(gathered.material):
        try:
            sent = endpoint.send(request)
        except CritiqorError as error:
            before = (
                f" ({spans} spans were accepted before that; it is safe to send all of them again)" if spans else ""
            )
            raise CritiqorError(f"{error.message}{before}", fix=error.fix) from error
        spans, count, size = spans + len(request.spans), count + 1, size + sent.bytes
        rejected += min(sent.taken.rejected, len(request.spans))
        if sent.taken.message:
            messages[f"The collector says: {sent.taken.message}"] = None
    return Sending(
        run_id=run.id,
        format=SENT_FORMAT,
        endpoint=endpoint.url,
        spans=spans,
        requests=count,
        bytes=size,
        rejected=rejected,
        notes=[*notes, *endpoint.credentials.notes, *list(messages)[:MAX_MESSAGES]],
    )


class _Prepared(NamedTuple):
    """An export that is ready to be written."""

    pieces: Iterator[bytes]
    notes: list[str]


def _pieces(format_name: str, format_: Format, material: Any) -> Iterator[bytes]:
    """Yield the pieces of a file. An extension may raise anything, or yield something else than bytes."""
    assert format_.report is not None
    if format_name in FORMATS:
        yield from format_.report(material)
        return
    try:
        for piece in format_.report(material):
            if not isinstance(piece, bytes):
                raise TypeError(f"its report yields {type(piece).__name__} instead of bytes")
            yield piece
    except CritiqorError:
        raise
    except (Exception, SystemExit) as error:
        raise extension_formats().failure(format_name, error) from error


def _prepare_pages(run: Run, format_name: str, options: ExportOptions) -> _Prepared:
    """Render the pages of the dashboard as one HTML file, or print them to PDF."""
    from critiqor.exporters.pdf.chromium import find_chromium, print_pdf

    if options.pages is None:
        message = "HTML and PDF need ExportOptions.pages, which is not set"
        raise UsageError(message, fix=f"critiqor report {run.id} --format {format_name}")
    notes = visibility_notes(RunView(run, EXPORT))
    if format_name == "html":
        return _Prepared(options.pages(run), notes)
    # Check for a browser before rendering anything.
    chromium = find_chromium(f"critiqor report {run.id} --format html")
    return _Prepared(print_pdf(options.pages(run), chromium), notes)


def _sending_notes(view: RunView, url: str) -> list[str]:
    """Return notes on a run that is sent to another machine."""
    if view.head.metadata.visibility == "private" and not is_on_this_machine(url):
        return [f"{view.run_id} is private; it was sent to another machine because you used --endpoint."]
    return visibility_notes(view)


def _checked(output: Path, run: Run) -> Path:
    """Return the resolved file to write. Raise an error if it is in the runs folder or is not a regular file."""
    file = output.resolve()
    if file.is_relative_to(run.store.runs_dir.resolve()):
        message = f"{output} is in the runs folder, where it could be mistaken for a run"
        raise UsageError(message, fix="choose a file outside the runs folder: --output FILE")
    if file.exists() and not file.is_file():
        raise UsageError(f"{output} is not a file", fix="--output FILE, or --output - for standard output")
    return file


def _write(pieces: Iterable[bytes], target: Path | BinaryIO) -> int:
    """Write the pieces. Return their size in bytes."""
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
