"""Channels: messages to standard output, files and webhooks, and what is said when none can deliver them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from agentloop import Rig, Say, configuration

from critiqor.agentloop.replies.channels import Channels, FileOutbox, MemoryOutbox, StdoutOutbox
from critiqor.agentloop.tools.messaging import Delivery, Outbox, OutgoingMessage
from critiqor.errors import UsageError


def message(text: str = "Hello.", channel: str | None = None, target: str | None = None) -> OutgoingMessage:
    return OutgoingMessage(run_id="r", session_key="agent:main:main", text=text, channel=channel, target=target)


def send(outbox: Outbox, *messages: OutgoingMessage) -> list[Delivery]:
    async def scenario() -> list[Delivery]:
        return [await outbox.send(one) for one in messages]

    return asyncio.run(scenario())


def channels(folder: Path, environment: dict[str, str] | None = None, /, **settings: dict[str, Any]) -> Channels:
    return Channels(configuration(channels=settings).channels, folder, environment or {})


class Service(HTTPServer):
    """A webhook that keeps what it gets, and answers with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.got: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Service)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"what it says\nabout it")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def service(status: int = 204) -> Iterator[Service]:
    with Service(status) as made:
        thread = Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


def test_standard_output_shows_the_recipient_and_no_control_characters() -> None:
    stream = io.StringIO()
    send(StdoutOutbox(stream), message("one\ntwo"), message("red \x1b[31m text", target="ada"))
    first, second = stream.getvalue().split("\nto ada: ")
    assert first == "one\ntwo"
    assert "\x1b" not in second


def test_a_file_gets_one_line_for_each_message_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "messages.jsonl"
    first, second = send(FileOutbox(path), message("one\ntwo"), message("half \ud83d a pair", target="ada"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["one\ntwo", "half � a pair"]
    assert [line["messageId"] for line in lines] == [first.message_id, second.message_id]
    assert set(lines[0]) == {"messageId", "sentAt", "runId", "sessionKey", "text", "channel", "target"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_webhook_gets_the_message_with_headers_from_the_environment(tmp_path: Path) -> None:
    with service() as made:
        settings = {"outbox": "webhook", "url": "${TEAM_URL}/hook", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        team = channels(tmp_path, {"TEAM_URL": made.url, "TOKEN": "abc"}, team=settings)
        [delivery] = send(team, message(channel="team", target="ada"))
    assert delivery.error is None
    [(path, headers, body)] = made.got
    assert (path, headers["Authorization"]) == ("/hook", "Bearer abc")
    assert (body["text"], body["channel"], body["target"]) == ("Hello.", "team", "ada")
    assert body["messageId"] == delivery.message_id


def test_a_webhook_that_refuses_or_cannot_be_reached_is_an_error_without_its_address(tmp_path: Path) -> None:
    with service(503) as made:
        team = channels(tmp_path, team={"outbox": "webhook", "url": f"{made.url}/secret"})
        [refused] = send(team, message(channel="team"))
    [unreached] = send(team, message(channel="team"))
    assert refused.error == "channel 'team': the webhook answered with HTTP 503: what it says about it"
    assert unreached.error is not None
    assert unreached.error.startswith("channel 'team': the webhook could not be reached")
    assert "secret" not in unreached.error


def test_the_only_channel_is_the_default_and_of_several_none_is(tmp_path: Path) -> None:
    one = channels(tmp_path, chat={"outbox": "memory"})
    assert send(one, message())[0].error is None
    [kept] = one.outboxes.values()
    assert isinstance(kept, MemoryOutbox)
    assert kept.sent[0].channel == "chat"
    two = channels(tmp_path, chat={"outbox": "memory"}, log={"outbox": "memory"})
    error = send(two, message())[0].error
    assert error is not None
    assert "chat, log" in error


def test_a_channel_of_openclaw_itself_is_not_configured_here(tmp_path: Path) -> None:
    [delivery] = send(channels(tmp_path, telegram={"botToken": "1:x"}), message(channel="telegram"))
    assert delivery.error is not None
    assert "channels.telegram.outbox" in delivery.error


@pytest.mark.parametrize(
    "settings",
    [{"outbox": "pigeon"}, {"outbox": "file"}, {"outbox": "file", "path": ""}, {"outbox": "webhook", "url": "ftp://x"}],
)
def test_an_invalid_channel_is_an_error_that_names_it(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"channels\.team"):
        configuration(channels={"team": settings})


def test_a_file_that_cannot_be_written_is_a_failed_delivery(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = configuration(channels={"log": {"outbox": "file", "path": str(tmp_path)}})
        rig = Rig(tmp_path, Say("Hello."), settings=settings)
        outcome = await rig.ask(channel="log", deliver=True)
        assert outcome.delivery is not None
        assert "IsADirectoryError" in str(outcome.delivery.error)
        await rig.runtime.close()

    asyncio.run(scenario())


def test_the_reply_of_a_run_reaches_a_webhook_once(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        settings = configuration(channels={"team": {"outbox": "webhook", "url": url}})
        rig = Rig(tmp_path, Say("Hello."), settings=settings)
        outcome = await rig.ask(channel="team", deliver=True)
        assert outcome.delivery is not None
        assert outcome.delivery.status == "sent"
        await rig.runtime.close()

    with service() as made:
        asyncio.run(scenario(made.url))
    assert len(made.got) == 1
