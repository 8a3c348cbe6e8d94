"""A dashboard in its own process, and requests over a raw socket: no client library normalizes the paths."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from support import PATIENCE_SECONDS, Runs, critiqor_command, environment


class Response(NamedTuple):
    """Answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Served:
    """A running dashboard. As a context manager, it is killed at the end."""

    def __init__(self, runs: Runs, home: Path, *arguments: str) -> None:
        command = critiqor_command("dashboard", "--json", "--no-browser", "--runs-dir", runs.folder, *arguments)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, **pipes, env=environment(home), cwd=home, text=True)
        assert self.process.stdout
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line == "}\n":
                break
        self.data: dict[str, Any] = json.loads("".join(lines))["data"]
        self.port: int = self.data["port"]
        self.host = f"127.0.0.1:{self.port}"
        self.token = parse_qs(urlsplit(self.data["link"]).query)["token"][0]

    @property
    def cookie(self) -> str:
        """Cookie that the user's browser sends."""
        return f"critiqor_{self.port}={self.token}"

    def ended(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.killed()

    def killed(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(
        self, path: str, method: str = "GET", *, host: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send one request with exactly this path, `Host`, and these headers."""
        named = {"Host": self.host if host is None else host, "Connection": "close", **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
        return self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def send(self, request: bytes) -> Response:
        """Send these bytes, and read until the connection is closed."""
        address = (urlsplit(self.data["address"]).hostname or "127.0.0.1", self.port)
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(request)
            answer = b""
            try:
                while piece := connection.recv(1 << 16):
                    answer += piece
            except ConnectionResetError:
                pass  # it closed the connection before it had read the whole request
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return Response(int(first.split()[1]), headers, body)
