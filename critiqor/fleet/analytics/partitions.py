"""Parquet files of one table, in folders by day and host, written row by row with bounded memory.

Rows wait in memory until there are enough of them for a row group. A few files are open at a time; when another day or
host comes up, the one that was not used for longest is finished, and later rows of its folder begin another file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from critiqor.fleet.analytics.tables import Table
from critiqor.fleet.errors import FleetError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_OPEN = 4
"""Maximum number of files of a table that are open at a time."""
GROUP_ROWS = 10_000
"""Rows of a row group."""
GROUP_CHARACTERS = 8_000_000
"""Characters of the texts of a row group, after which it is written even if it has few rows."""

_LIMIT = 1 << 63


class PartitionedTable:
    """Writes the files of one table."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.rows = 0
        self.files = 0
        self._folder = folder / table.name
        self._schema = table.schema()
        self._texts = [column.name for column in table.columns if column.is_content]
        self._integers = [column.name for column in table.columns if column.type == "integer"]
        self._numbers = [column.name for column in table.columns if column.type == "number"]
        self._open: dict[tuple[str, str], _Part] = {}
        """In the order of their last use."""

    def add(self, day: str, host: str, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows of a day and a host. Raise `FleetError` if a number does not fit into its column."""
        for row in rows:
            self._check(row)
            part = self._open.pop((day, host), None) or self._begin(day, host)
            self._open[day, host] = part
            part.add(row, sum(len(row[name] or "") for name in self._texts))
            self.rows += 1

    def close(self) -> None:
        """Finish all files."""
        while self._open:
            self._finish_oldest()

    def _check(self, row: dict[str, Any]) -> None:
        """Check numbers, which others may have made up, before they make a whole row group fail."""
        try:
            for name in self._numbers:
                if (number := row.get(name)) is not None:
                    row[name] = float(number)
            fits = all(-_LIMIT <= (row.get(name) or 0) < _LIMIT for name in self._integers)
        except OverflowError:
            fits = False
        if not fits:
            raise FleetError(f"{row['run_id']} has a number that does not fit into the table {self._folder.name}")

    def _begin(self, day: str, host: str) -> _Part:
        if len(self._open) >= MAX_OPEN:
            self._finish_oldest()
        folder = self._folder / f"day={day}" / f"host={quote(host, safe='')}"
        folder.mkdir(parents=True, exist_ok=True)
        self.files += 1
        return _Part(folder / f"part-{self.files:05d}.parquet", self._schema)

    def _finish_oldest(self) -> None:
        self._open.pop(next(iter(self._open))).close()


class _Part:
    """One file."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = schema
        self._writer = ParquetWriter(path, schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._characters = 0

    def add(self, row: dict[str, Any], characters: int) -> None:
        self._rows.append(row)
        self._characters += characters
        if len(self._rows) >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._write_group()

    def close(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows.clear()
        self._characters = 0
