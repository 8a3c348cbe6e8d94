"""`critiqor watch` follows a run while it is recorded, without disturbing the recorder."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pexpect
import pytest
from rich.console import Console
from support import (
    PATIENCE_SECONDS,
    Cli,
    Fields,
    Runs,
    attached,
    critiqor_command,
    environment,
    line_of,
    recorded,
    start_python,
    wait_until,
)
from terminal import displayed, spawn

from critiqor.cli.drawings.watch import LiveRun
from critiqor.cli.terminal.event_lines import EventLine
from critiqor.errors import ExitCode
from critiqor.model import now_ms
from critiqor.model.record import Metadata, RunHead, Timestamps
from critiqor.model.usage import Cost
from critiqor.run.store import Run
from critiqor.run.tail import Figures, Follower, Totals
from critiqor.session import abort_session, append_event_to_run, request_finalize
from critiqor.storage.journal import MAX_LINE
from critiqor.storage.journal_tail import MAX_READ_BYTES
from critiqor.storage.lock import exclusive

CTRL_C = "\x03"
USAGE = {"input": 1000, "output": 20, "cacheRead": 500, "cost": {"total": 0.25}}
MODEL = {"provider": "lab", "model": "scripted"}


def model_call(sequence: int, **payload: Any) -> dict[str, Any]:
    return recorded(sequence, "after_provider_response", duration_ms=120, payload={**MODEL, "usage": USAGE, **payload})


def tool(sequence: int, **fields: Any) -> list[dict[str, Any]]:
    named: Fields = {"tool_name": "exec", "tool_call_id": f"call_{sequence}"}
    return [recorded(sequence, "tool_call", **named), recorded(sequence + 1, "tool_result", **{**named, **fields})]


def note(runs: Runs, run_id: str, event_type: str, **payload: Any) -> None:
    """What the supervisor sees, a moment after all that was recorded before."""
    before = now_ms()
    wait_until(lambda: now_ms() > before)
    append_event_to_run(run_id, {"event_type": event_type, "payload": payload}, runs_dir=runs.folder)


def names(follower: Follower) -> list[str]:
    """What is new, by its names."""
    return [event.event_type for event in follower.update().events]


def test_every_look_tells_what_came_since_the_last_one(runs: Runs) -> None:
    run_id = runs.start()
    follower = Follower(Run.load(run_id, runs.folder))
    assert names(follower) == ["state_transition"]
    assert names(follower) == []
    runs.write(run_id, attached(), *tool(2))
    assert names(follower) == ["recorder_attached", "tool_call", "tool_output"]
    note(runs, run_id, "process_start", pid=7)
    runs.write(run_id, model_call(4))
    assert sorted(names(follower)) == ["process_start", "token_usage"]
    assert names(follower) == []


def test_a_partly_written_record_is_reported_once_it_is_complete(runs: Runs) -> None:
    run_id = runs.start()
    follower = Follower(Run.load(run_id, runs.folder))
    follower.update()
    line = line_of(recorded(1, "input"))
    runs.write(run_id, line[:40])
    assert names(follower) == []
    runs.write(run_id, line[40:])
    assert names(follower) == ["input"]


def test_unreadable_lines_do_not_affect_other_records(runs: Runs) -> None:
    run_id = runs.start()
    too_long = b'{"event_type":"' + b"x" * (MAX_LINE + 5) + b'"}\n'
    deep = b'{"payload":' + b"[" * 5000 + b"]" * 5000 + b"}\n"
    garbage = b'\xff\xfe\n\n[1]\n"text"\n{"event_type":7}\n{"payload":{"a":1}}\n'
    runs.write(run_id, recorded(1, "input"), too_long, deep, garbage, recorded(2, "message_end"))
    follower = Follower(Run.load(run_id, runs.folder))
    seen = []
    while True:
        look = follower.update()
        seen += [event.event_type for event in look.events]
        if not look.more:
            break
    assert [name for name in seen if name in ("input", "message_end")] == ["input", "message_end"]
    unreadable = follower.totals().figures.unreadable
    runs.finalize(run_id)
    assert unreadable == Run.load(run_id, runs.folder).coverage().damaged_records == 7


def test_a_long_journal_is_read_in_pieces_and_nothing_is_lost(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *(recorded(number, payload={"text": "x" * 3000}) for number in range(1, 1001)))
    follower = Follower(Run.load(run_id, runs.folder))
    note(runs, run_id, "process_end", exit_code=0)
    looks = [follower.update()]
    while looks[-1].more:
        looks.append(follower.update())
    assert len(looks) == runs.paths.journal_path(run_id).stat().st_size // MAX_READ_BYTES + 1
    assert [look.over for look in looks[:-1]] == [None] * (len(looks) - 1)
    assert looks[-1].over == "its process has ended"
    assert sum(event.event_type == "agent_start" for look in looks for event in look.events) == 1000


def test_figures_add_up(runs: Runs) -> None:
    run_id = runs.start()
    failed = tool(4, status="error", error="exit code 1")
    runs.write(run_id, attached(), model_call(2), model_call(3, usage=None), *failed, *tool(6))
    follower = Follower(Run.load(run_id, runs.folder))
    follower.update()
    figures = follower.totals().figures
    assert (figures.events, figures.model_calls, figures.tool_calls, figures.errors) == (8, 2, 2, 1)
    assert (figures.tokens, figures.cost_usd) == (1520, 0.25)


@pytest.mark.parametrize("reason", ["finalized", "aborted", "ended"])
def test_a_run_is_over_when_nothing_more_can_come(runs: Runs, reason: str) -> None:
    run_id = runs.start()
    runs.write(run_id, attached())
    follower = Follower(Run.load(run_id, runs.folder))
    assert follower.update().over is None
    runs.write(run_id, recorded(2, "input"))
    if reason == "finalized":
        request_finalize(run_id, runs_dir=runs.folder)
        runs.write(run_id, recorded(3, "message_end"))  # behind the cut: it belongs to no evidence
    elif reason == "aborted":
        abort_session(run_id, runs_dir=runs.folder)
    else:
        note(runs, run_id, "process_end", exit_code=0)
    look = follower.update()
    assert look.over is not None
    assert "input" in [event.event_type for event in look.events]
    assert "message_end" not in [event.event_type for event in look.events]


def test_a_run_is_over_when_the_process_that_recorded_it_is_gone(runs: Runs) -> None:
    code = "import sys; from critiqor.session import create_session; create_session(runs_dir=sys.argv[1])"
    assert start_python(code, runs.folder).wait(PATIENCE_SECONDS) == 0
    runs.write("run_001", line_of(recorded(1, "input")).rstrip(b"\n"))
    look = Follower(Run.load("run_001", runs.folder)).update()
    assert look.over == "the process that recorded it is gone"
    assert [event.event_type for event in look.events] == ["state_transition", "input"]


def test_an_agent_cannot_end_watching_with_a_forged_record(runs: Runs) -> None:
    run_id = runs.start()
    follower = Follower(Run.load(run_id, runs.folder))
    runs.write(run_id, recorded(1, "process_end", source_layer="supervisor", payload={"exit_code": 0}))
    look = follower.update()
    assert look.over is None
    assert {event.source_layer for event in look.events if event.event_type == "process_end"} == {"extension_api"}


def test_secrets_that_another_recorder_did_not_redact_are_not_shown(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    secret = "sk-" + "proj" + "A1b2C3d4E5f6G7h8I9j0" * 2
    failed = tool(1, status="error", error=f"refused: Authorization: Bearer {secret}", payload={"apiKey": secret})
    runs.write(run_id, *failed)
    note(runs, run_id, "process_end", exit_code=0)
    for arguments in (("watch",), ("watch", "--json")):
        answer = cli(*arguments)
        assert answer.code == ExitCode.OK
        assert secret not in answer.out
        assert "[redacted:" in answer.out


def test_watching_writes_nothing_and_takes_no_lock(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *tool(2))
    note(runs, run_id, "process_end", exit_code=0)
    before = snapshot(runs.folder)
    for path in (runs.paths.lock_path, runs.paths.finalize_lock_path(run_id)):
        path.unlink(missing_ok=True)
        path.mkdir()  # taking the lock would fail
    assert cli("watch").code == ExitCode.OK
    for path in (runs.paths.lock_path, runs.paths.finalize_lock_path(run_id)):
        path.rmdir()
    after = snapshot(runs.folder)
    assert {name: state for name, state in before.items() if "lock" not in name} == after


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_in_a_pipe_each_event_is_one_line_and_the_next_command_is_a_message(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    error = "\x1b[2Jline one\nline two " + "x" * 5000
    runs.write(run_id, attached(), model_call(2), *tool(3, status="error", error=error, duration_ms=33))
    note(runs, run_id, "process_end", pid=7, exit_code=0)
    answer = cli("watch", run_id)
    lines = answer.out.splitlines()
    assert [line.split()[1] for line in lines if "!" not in line] == [
        "state_transition",
        "recorder_attached",
        "token_usage",
        "tool_call",
        "process_end",
    ]
    assert lines[2].split(maxsplit=2)[2] == "lab/scripted, 1,000 in, 20 out, $0.2500, 120 ms"
    [failed] = [line for line in lines if "!" in line]
    assert "tool_output              exec, 33 ms, error: �[2Jline one line two x" in failed
    assert len(failed) < 300
    assert answer.err == f"critiqor: {run_id} has ended: its process has ended. Next: critiqor finalize {run_id}\n"


def test_as_json_each_line_is_a_document_and_the_last_one_says_how_it_ended(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, model_call(1))
    note(runs, run_id, "process_end", exit_code=0)
    documents = [json.loads(line) for line in cli("watch", "--json").out.splitlines()]
    assert {(one["schema_version"], one["verb"]) for one in documents} == {("critiqor.output.v1", "watch")}
    events = [one["data"]["event"]["event_type"] for one in documents[:-1]]
    assert events == ["state_transition", "token_usage", "process_end"]
    end = documents[-1]["data"]["end"]
    assert (end["run_id"], end["next"]) == (run_id, f"critiqor finalize {run_id}")
    assert end["figures"]["tokens"] == 1520


@pytest.mark.parametrize(("arguments", "fix"), [((), "critiqor monitor openclaw"), (("run_404",), "critiqor runs")])
def test_without_anything_to_watch_it_says_what_to_type(cli: Cli, arguments: tuple[str, ...], fix: str) -> None:
    answer = cli("watch", *arguments)
    assert answer.code == ExitCode.ERROR
    assert f"→ {fix}" in answer.err


def test_a_completed_run_is_shown_and_not_watched(cli: Cli, runs: Runs) -> None:
    runs.seal(attached())
    answer = cli("watch", "run_001")
    assert (answer.code, answer.out) == (ExitCode.ERROR, "")
    assert "→ critiqor show run_001" in answer.err


def test_what_happens_reaches_a_pipe_at_once_until_the_run_ends(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    seen, out = os.pipe()
    process = subprocess.Popen(critiqor_command("watch"), stdout=out, cwd=tmp_path, env=environment(tmp_path))
    os.close(out)
    with os.fdopen(seen, "rb") as lines:
        assert b"state_transition" in lines.readline()
        runs.write(run_id, recorded(1, "input"))
        assert b"input" in lines.readline()
        note(runs, run_id, "process_end", exit_code=3)
        assert b"exit code 3" in lines.readline()
        assert lines.readline() == b""
    assert process.wait(PATIENCE_SECONDS) == ExitCode.OK


def test_on_a_terminal_figures_and_events_are_kept_up_to_date_until_ctrl_c(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), model_call(2), *tool(3, status="error", error="\x1b[2Jexit code 1 " + "漢" * 200))
    child = spawn("watch", home=tmp_path, columns=60, rows=14)
    child.expect("Ctrl-C stops watching")
    runs.write(run_id, *(event for number in range(20) for event in tool(10 + 2 * number)))
    child.expect(r"tools \S*\s*\S*21")
    child.send(CTRL_C)
    child.expect("is still being recorded")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == ExitCode.OK
    assert runs.status(run_id) == "MONITORING"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_watching_gives_the_cursor_back(runs: Runs, tmp_path: Path, number: int) -> None:
    runs.start()
    child = spawn("watch", home=tmp_path, columns=60, rows=14)
    child.expect("Ctrl-C stops watching")
    hidden = child.before or ""
    child.kill(number)
    child.expect(pexpect.EOF)
    child.close()
    assert "\x1b[?25l" in hidden and "\x1b[?25h" not in hidden
    assert "\x1b[?25h" in (child.before or "")
    assert child.signalstatus == number


def test_the_table_on_a_terminal_fits_into_it_and_stays_when_the_run_has_ended(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    nasty = "\x1b]0;owned\x07\u202e[red]" + "漢" * 300
    for number in range(2, 80, 2):
        runs.write(run_id, *tool(number, tool_name=nasty, status="error", error=nasty))
    note(runs, run_id, "process_end", exit_code=0)
    child = spawn("watch", home=tmp_path, columns=40, rows=20)
    child.expect(pexpect.EOF)
    assert child.before is not None
    lines = displayed(child.before, 40, 20)
    table = lines[: [line.startswith("critiqor: ") for line in lines].index(True)]
    assert table[0].startswith(f"{run_id}  MONITORING")
    assert any(line.split() == ["model", "calls", "0", "tools", "39"] for line in table)
    assert len(table) < 20
    assert table[-1].split()[1:] == ["process_end", "exit", "code", "0"]
    assert "\x07" not in child.before and "\u202e" not in child.before
    wait_until(lambda: not child.isalive())


def test_arguments_of_a_tool_are_escaped_and_shown_with_the_command_first(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    asked = {"background": True, "command": "make deploy\x1b[2J", "workdir": "x" * 5000}
    runs.write(run_id, attached(), recorded(2, "tool_call", tool_name="exec", payload={"arguments": asked}))
    note(runs, run_id, "process_end", exit_code=0)
    [line] = [line for line in cli("watch", run_id).out.splitlines() if "tool_call" in line]
    assert 'exec, {"command":"make deploy\\u001b[2J","background":true' in line
    assert len(line) < 300


@pytest.mark.parametrize(("columns", "rows"), [(30, 5), (20, 3), (80, 6)])
def test_a_tiny_terminal_shows_what_happens(columns: int, rows: int) -> None:
    lines = live_lines(columns, rows, tokens=1)
    assert len(lines) < rows
    assert "tool_call" in lines[-1]


def test_figures_that_grow_do_not_move_the_lines_below_them() -> None:
    heights = {len(live_lines(80, 24, **grown)) for grown in ({"tokens": 1}, {"tokens": 9_999_999, "cost_usd": 157.04})}
    assert len(heights) == 1


def test_how_to_stop_the_run_is_said_while_it_is_watched(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    child = spawn("watch", home=tmp_path, columns=80, rows=14)
    child.expect(f"to stop the agent: critiqor abort --stop {run_id}")
    child.send(CTRL_C)
    child.expect(pexpect.EOF)
    child.close()


def live_lines(columns: int, rows: int, **figures: Any) -> list[str]:
    """What a terminal of that size is given of a run."""
    usual = {"events": 1, "model_calls": 1, "tool_calls": 1, "errors": 0, "tokens": 1, "cost_usd": None}
    seen = Figures(**{**usual, "unreadable": 0, "last_event_at": None, **figures})
    times, metadata = Timestamps(created_at="now"), Metadata(agent_id="a")
    head = RunHead(run_id="run_001", status="MONITORING", lifecycle=[], timestamps=times, metadata=metadata)
    cost = Cost(seen.cost_usd, False, seen.model_calls, seen.tokens)
    latest = [EventLine("12:00:00.000", "tool_call", "exec", False)]
    live = LiveRun(head, Totals(seen, cost), latest, 0, ["Ctrl-C stops watching"])
    out = io.StringIO()
    Console(file=out, width=columns, height=rows, color_system=None).print(live)
    return out.getvalue().splitlines()


def test_a_run_that_another_process_finalizes_is_not_to_be_finalized_again(runs: Runs, cli: Cli) -> None:
    run_id = runs.start()
    request_finalize(run_id, runs_dir=runs.folder)
    with exclusive(runs.paths.finalize_lock_path(run_id)):
        during = cli("watch", run_id, "--runs-dir", runs.folder).err
    assert "another process is finalizing it. Next: critiqor show run_001" in during
    assert "critiqor finalize" not in during
    # Its process was killed: nobody holds the lock.
    assert "Next: critiqor finalize run_001" in cli("watch", run_id, "--runs-dir", runs.folder).err
