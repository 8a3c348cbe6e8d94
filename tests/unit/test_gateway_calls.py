"""Calls of a running gateway, with OpenClaw's own command and credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import script

from critiqor.openclaw import GatewayCalls, Installation, client_environment, runs_gateway


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("gateway", "run"), True),
        (("--profile", "work", "gateway"), True),
        (("agent", "--local", "--message", "gateway"), False),
        ((), False),
    ],
)
def test_a_gateway_is_known_by_its_command(arguments: tuple[str, ...], expected: bool) -> None:
    assert runs_gateway(arguments) is expected


def test_clients_get_the_port_and_the_credentials_of_the_gateway_but_not_the_marks_of_the_run() -> None:
    given = {"KEPT": "yes", "CRITIQOR_RUN_ID": "run_001", "CRITIQOR_WITNESS": "socket"}
    arguments = ("gateway", "run", "--port", "18790", "--token=secret", "--password")
    expected = {"KEPT": "yes", "OPENCLAW_GATEWAY_PORT": "18790", "OPENCLAW_GATEWAY_TOKEN": "secret"}
    assert client_environment(arguments, given) == expected


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ('echo \'{"status": "aborted"}\'', None),
        ('echo warning; echo \'{"status":"not_running"}\'', "OpenClaw says not_running"),
        ("echo nothing", "OpenClaw says nothing about it"),
        (
            "echo first >&2; printf 'the gateway\\033[2J is gone' >&2; exit 2",
            "OpenClaw did not abort it: the gateway is gone",
        ),
    ],
)
def test_what_openclaw_answers_decides_whether_an_agent_run_was_aborted(
    tmp_path: Path, text: str, failure: str | None
) -> None:
    openclaw = script(tmp_path / "openclaw", f"#!/bin/sh\n{text}\n")
    assert GatewayCalls(Installation(str(openclaw)), {}).abort("agent:main:main", "run-1") == failure


def test_an_openclaw_that_cannot_be_started_and_a_session_without_a_name_are_failures() -> None:
    assert "could not be asked" in str(
        GatewayCalls(Installation("/no/such/openclaw"), {}).abort("agent:main:main", None)
    )
    assert GatewayCalls(Installation("/no/such/openclaw"), {}).abort(None, "run-1") == "its session is not known"
