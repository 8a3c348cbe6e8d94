"""External agents as processes: the protocol on standard input and output, failures, and aborts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest
from agentloop import Rig, defaults, roles
from support import PATIENCE_SECONDS, wait_until

from critiqor.agentloop.runs import RunOutcome

START = """
import json, sys, time, os
turn = json.loads(sys.stdin.readline())
def say(**line):
    print(json.dumps(line), flush=True)
"""


def rig_of(folder: Path, code: str, **settings: object) -> Rig:
    """A rig whose messages a program answers, which has read the turn."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    (folder / "state" / "agent.py").write_text(START + code)
    external = {"command": [sys.executable, "agent.py"], "env": {"WHO": "a program"}}
    return Rig(folder, settings=defaults(external=external, **settings))


def asked(rig: Rig, message: str = "hi") -> RunOutcome:
    async def scenario() -> RunOutcome:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await rig.ask(message)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("say(type='text', text='Hel'); say(type='text', text='lo.'); say(type='end')", "Hello."),
        ("say(type='text', text='Hello.')", "Hello."),
        ("say(type='progress', step=1); say(type='end', text='Hello.')", "Hello."),
        ("say(type='end', text=f\"{turn['type']} {turn['message']} {os.environ['WHO']}\")", "turn hi a program"),
        ("say(type='end', text=turn['sessionKey']); time.sleep(60)", "agent:main:main"),
    ],
)
def test_a_program_answers_over_its_standard_output(tmp_path: Path, code: str, answer: str) -> None:
    rig = rig_of(tmp_path, code)
    outcome = asked(rig)
    assert (outcome.status, [payload.text for payload in outcome.payloads]) == ("ok", [answer])
    assert roles(rig.transcript()) == ["user", "assistant"]
    assert rig.model.requests == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("say(type='error', message='no quota')", "failed: no quota"),
        ("sys.exit('cannot log in')", "ended with exit code 1: cannot log in"),
        ("print('hello', flush=True)", "printed a line that is not understood"),
        ("say(type='shout', text='x')", "an unknown type: shout"),
        ("print('x' * 9_000_000, flush=True); time.sleep(60)", "limit"),
    ],
)
def test_a_program_that_fails_fails_the_run_with_the_reason(tmp_path: Path, code: str, reason: str) -> None:
    outcome = asked(rig_of(tmp_path, code))
    assert outcome.status == "error"
    assert reason in (outcome.error or "")


def test_a_program_that_cannot_be_started_fails_the_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path, settings=defaults(external={"command": ["./missing"]}))
    (tmp_path / "state").mkdir(exist_ok=True)
    assert "./missing could not be started" in (asked(rig).error or "")


def test_a_program_without_progress_is_aborted_and_its_processes_end(tmp_path: Path) -> None:
    code = "import subprocess; c = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(c.pid)); c.wait()"
    outcome = asked(rig_of(tmp_path, code, externalIdleSeconds=5))
    assert "made no progress for 5 seconds" in (outcome.error or "")
    pid = int((tmp_path / "state" / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_chat_commands_are_not_sent_to_the_program(tmp_path: Path) -> None:
    outcome = asked(rig_of(tmp_path, "say(type='end', text='mine')"), "/new")
    assert [payload.text for payload in outcome.payloads] == ["A new session has begun."]
