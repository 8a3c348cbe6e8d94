"""A collector of spans on loopback, for tests that send to one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class Collector:
    """A server that remembers what it was sent, and answers as a test wants."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                collector.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer(self)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.requests]


def answering(status: int = 200, body: bytes = b"{}", **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextmanager
def collector(answer: Answer | None = None) -> Iterator[Collector]:
    made = Collector(answer or answering())
    thread = threading.Thread(target=made._server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made._server.shutdown()
        thread.join()
        made._server.server_close()
