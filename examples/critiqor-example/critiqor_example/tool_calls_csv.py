"""`tool-calls-csv`: one line per finished tool call, for a spreadsheet."""

import csv
import io
from collections.abc import Iterator

from critiqor.exporters import Format
from critiqor.model.report import Recorded

COLUMNS = ("time", "agent_run", "tool", "status", "duration_ms", "event")


def report(recorded: Recorded) -> Iterator[bytes]:
    """Yield the lines of the file."""
    yield _line(COLUMNS)
    for event in recorded.events:
        if event.event_type == "tool_output":
            yield _line(
                (
                    event.timestamp,
                    event.agent_run_id or "",
                    event.tool_name or "",
                    event.status,
                    "" if event.duration_ms is None else str(event.duration_ms),
                    event.event_id,
                )
            )


def _line(values: tuple[str, ...]) -> bytes:
    text = io.StringIO()
    # A spreadsheet would compute a value that begins like a formula.
    csv.writer(text).writerow(f"'{value}" if value.startswith(("=", "+", "-", "@")) else value for value in values)
    return text.getvalue().encode()


FORMAT = Format(suffix=".tools.csv", opens_in="any spreadsheet", takes="recorded", report=report)
