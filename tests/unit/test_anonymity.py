"""Only the structure and the numbers of an anonymous run can be exported, printed, served or sent."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dashboards import BEGIN, Dashboard, event_ids
from diagnosed import diagnosis
from profiles import CPU_NAME, cpu_document
from starlette.routing import Route
from support import Cli, Runs, attached, recorded
from timelines import data_of, line, request, sample, span

from critiqor.diagnosis.scoring import confidence_lost
from critiqor.exporters.formats import FORMATS
from critiqor.exporters.otlp.endpoint import Endpoint, Sent, Taken
from critiqor.exporters.otlp.otlp import Request
from critiqor.model import Coverage, Diagnosis, Event
from critiqor.model.record import RunHead
from critiqor.privacy.diagnosis import anonymous_diagnosis
from critiqor.privacy.events import anonymous_coverage, anonymous_event
from critiqor.privacy.record import anonymous_head
from critiqor.privacy.replacements import Aliases
from critiqor.run.store import Run
from critiqor.run.visibility import change_visibility
from critiqor.session import abort_session
from critiqor.storage.redaction import RULES_PATH

MARK = "zanzibar"
"""A plain word: it looks like any name of a tool, a model or an agent."""
WRITTEN = [name for name in FORMATS if name != "pdf"]
"""What is printed is the same as `html`, on paper."""


def filled(kind: msgspec.inspect.Type, depth: int = 0) -> Any:
    """A value of a type with the mark in every text of it."""
    simple = {
        msgspec.inspect.StrType: MARK,
        msgspec.inspect.AnyType: MARK,
        msgspec.inspect.IntType: 7,
        msgspec.inspect.FloatType: 7.5,
        msgspec.inspect.BoolType: True,
    }
    if type(kind) in simple:
        return simple[type(kind)]
    if isinstance(kind, msgspec.inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, msgspec.inspect.UnionType):
        return filled(next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType)), depth)
    if isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.CollectionType):
        return [filled(kind.item_type, depth + 1)] if depth < 8 else []
    if isinstance(kind, msgspec.inspect.DictType):
        return {filled(kind.key_type): filled(kind.value_type, depth + 1)}
    assert isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.NamedTupleType), kind
    return kind.cls(**{field.name: filled(field.type, depth + 1) for field in kind.fields})


@pytest.mark.parametrize(
    ("coverage", "hollow"),
    [
        (Coverage(), False),
        (Coverage(agent_events=1, imported_from="a trace"), True),
        (Coverage(agent_events=9, imported_from="a trace", entries_not_understood=1), False),
        (Coverage(agent_events=1, damaged_records=1, requests_without_responses=1, calls_without_results=1), False),
        (Coverage(agent_events=1, results_without_calls=1, sealed_while_running=True, values_cut=1), False),
    ],
)
def test_why_confidence_was_lost_is_a_word_of_ours_and_stays(coverage: Coverage, hollow: bool) -> None:
    lost = confidence_lost(coverage, hollow=hollow)
    concluded = diagnosis()
    concluded.confidence_lost = lost
    assert lost and anonymous_diagnosis(concluded).confidence_lost == lost


def test_kinds_of_secrets_are_words_of_ours_and_stay() -> None:
    rules = json.loads(RULES_PATH.read_bytes())
    kinds = [rule["kind"] for group in (rules["prefixes"], *rules["groups"]) for rule in group["rules"]]
    found = dict.fromkeys([*kinds, rules["fields"]["kind"]], 1)
    assert anonymous_coverage(Coverage(secrets_redacted=found)).secrets_redacted == found


@pytest.mark.parametrize(
    ("kind", "anonymous"),
    [
        (Event, anonymous_event),
        (Event, lambda event: anonymous_event(event, Aliases())),
        (Coverage, anonymous_coverage),
        (Diagnosis, anonymous_diagnosis),
        (RunHead, anonymous_head),
    ],
)
def test_no_text_of_a_struct_comes_through_whatever_it_is_called(kind: type, anonymous: Any) -> None:
    whole = filled(msgspec.inspect.type_info(kind))
    # The name of the run is in its address.
    whole = msgspec.structs.replace(whole, run_id="run_001") if hasattr(whole, "run_id") else whole
    assert MARK in msgspec.json.encode(whole).decode()
    assert MARK not in msgspec.json.encode(anonymous(whole)).decode()


def marked_run(runs: Runs) -> str:
    """An anonymous run that says the mark wherever somebody can say anything."""
    run_id = runs.start(
        agent_id=MARK, tenant_id=MARK, benchmark_id=MARK, difficulty_tier=MARK, framework=MARK, visibility="anonymous"
    )
    inside = {"session_key": MARK, "agent_run_id": MARK}
    call = {**inside, "tool_name": MARK, "tool_call_id": MARK}
    said: dict[str, Any] = {MARK: MARK, "role": "user", "text": f"Fix /home/{MARK}/app.py, {MARK}", "provider": MARK}
    said |= {"model": MARK, "callId": MARK, "reason": MARK, "mode": MARK, "agent_id": MARK, "message_id": MARK}
    usage = {"usage": {"input": 900, "output": 30, "cost": {"total": 0.01}, MARK: MARK}}
    shell = {"arguments": {"command": f"npm test {MARK}"}, "parent_tool_call_id": MARK}
    result = {"result": {"content": [{"type": "text", "text": f"1 failed {MARK}"}], "details": {"exitCode": 1}}}
    error = f"exit code 1: {MARK}"
    runs.write(
        run_id,
        attached(1, at=BEGIN),
        recorded(2, "agent_start", at=BEGIN + 10, payload={"attempt": 1, **said}, **inside),
        recorded(3, "message_end", at=BEGIN + 15, payload=said, **inside),
        recorded(4, "before_provider_request", at=BEGIN + 20, payload={"contextTokenBudget": 1000, **said}, **inside),
        recorded(5, "after_provider_response", at=BEGIN + 900, duration_ms=880, payload={**said, **usage}, **inside),
        recorded(6, "tool_call", at=BEGIN + 1000, payload=shell, **call),
        recorded(7, "tool_result", at=BEGIN + 2000, status="error", error=error, payload=result, **call),
        recorded(8, MARK, at=BEGIN + 2100, raw_event_type=MARK, source_layer=MARK, status=MARK, payload=said, **call),
        recorded(9, "subagent_spawned", at=BEGIN + 2200, payload={"childRunId": MARK, "childSessionKey": MARK}),
        recorded(
            10,
            "message_end",
            at=BEGIN + 2500,
            payload={"text": f"Done: all tests pass. {MARK}", "role": "assistant"},
            **inside,
        ),
        recorded(11, "agent_end", at=BEGIN + 3000, payload={"success": True, **said}, **inside),
    )
    timeline = [
        *span(MARK, MARK, 0, 900, phase=MARK, attributes={"runId": MARK, "pluginId": MARK}),
        request(MARK, 1, 20, 800, provider=MARK, operation=MARK, model=MARK),
        sample(700, 950, MARK),
        line("childProcess.exit", MARK, 1900, command=f"/bin/{MARK} {MARK}", exitCode=1, durationMs=800, signal=MARK),
        line(MARK, MARK, 1950),
        line("span.error", MARK, 2000, spanId=f"{MARK}2", durationMs=5, errorName=MARK, errorMessage=MARK),
    ]
    runs.paths.openclaw_folder(run_id).mkdir()
    runs.paths.timeline_path(run_id).write_bytes(data_of(*timeline))
    runs.paths.profiles_folder(run_id).mkdir()
    profile = cpu_document({"(root)": [MARK], MARK: ["(idle)"]}, [(MARK, 10), ("(idle)", 500)], 1000)
    (runs.paths.profiles_folder(run_id) / CPU_NAME).write_text(json.dumps(profile))
    runs.finalize(run_id)
    return run_id


@pytest.fixture
def marked(tmp_path: Path) -> Runs:
    """A folder that says the mark in its own name too."""
    return Runs(tmp_path / f"{MARK}-runs")


@pytest.mark.parametrize("format_name", WRITTEN)
def test_an_export_of_an_anonymous_run_says_nothing_that_was_said(
    marked: Runs, cli: Cli, format_name: str, tmp_path: Path
) -> None:
    run_id = marked_run(marked)
    target = tmp_path / "written"
    options: list[str | Path] = [
        "--runs-dir",
        marked.folder,
        "--format",
        format_name,
        *(["--content"] * (format_name == "otlp")),
    ]
    answer = cli("export", run_id, *options, "--output", target)
    assert answer.code == 0
    assert f"{run_id} is anonymous" in answer.err
    content = target.read_bytes()
    parts = _parts(content) if format_name == "zip" else {"": content}
    assert [name for name, part in parts.items() if MARK in name or MARK.encode() in part] == []
    change_visibility(Run.load(run_id, marked.folder), "private")
    whole = cli("export", run_id, *options, "--output", target)
    assert whole.code == 0 and f"{run_id} is anonymous" not in whole.err
    content = target.read_bytes()
    assert any(MARK.encode() in part for part in (_parts(content) if format_name == "zip" else {"": content}).values())


def _parts(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_printed_reports_of_an_anonymous_run_contain_no_content(
    runs: Runs, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = marked_run(runs)
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for verb in (["report", run_id], ["report", run_id, "--json"], ["check", run_id, "--github"]):
        answer = cli(*verb, "--runs-dir", runs.folder)
        assert len(answer.out) > 100
        assert MARK not in answer.out + answer.err, verb
    assert MARK not in summary.read_text()
    # Its user sees everything in the terminal.
    assert MARK in cli("show", run_id, "--runs-dir", runs.folder).out


def test_the_archive_of_an_anonymous_run_says_that_it_is_not_the_sealed_evidence(runs: Runs, cli: Cli) -> None:
    run_id = marked_run(runs)
    answer = cli("export", run_id, "--format", "zip", "--json")
    parts = {name.partition("/")[2]: part for name, part in _parts(Path(answer.data["file"]).read_bytes()).items()}
    assert "session.json" not in parts and "timeline.jsonl" not in parts
    assert "NOT the sealed evidence" in parts["README.txt"].decode()
    assert any("sealed evidence" in note for note in answer.data["notes"])
    events = [json.loads(event) for event in parts["events.jsonl"].splitlines()]
    assert [event["event_id"] for event in events] == [event["event_id"] for event in runs.evidence(run_id)["events"]]


def test_events_that_belong_together_keep_common_ids_in_an_anonymous_export(runs: Runs, cli: Cli) -> None:
    run_id = marked_run(runs)
    cli("export", run_id, "--format", "zip")
    lines = _parts(Path(f"{run_id}.zip").read_bytes())[f"{run_id}/events.jsonl"].splitlines()
    events = [json.loads(each) for each in lines]
    first = {event["event_type"]: event for event in reversed(events)}
    call, result = first["tool_call"], first["tool_output"]
    for name in ("session_key", "agent_run_id", "tool_call_id"):
        assert call[name] is not None and call[name] == result[name]
    assert call["agent_run_id"] != first["recorder_attached"]["agent_run_id"]
    assert result["status"] == "error"
    assert first["token_usage"]["payload"]["usage"] == {"input": 900, "output": 30, "cost": {"total": 0.01}}


def test_no_page_of_the_dashboard_shows_content_to_others(marked: Runs) -> None:
    dashboard = Dashboard(marked, MARK)
    run_id = marked_run(marked)
    routes = [route for route in dashboard.app.routes if isinstance(route, Route) and "GET" in (route.methods or ())]
    about = [route.path for route in routes if "{run_id}" in route.path and "{event_id}" not in route.path]
    pages = [path.replace("{run_id}", run_id) for path in about]
    assert len(pages) > 8
    client = dashboard.stranger()
    ids = event_ids(client.get(f"/runs/{run_id}/evidence?all=1").text)
    assert len(ids) > 10
    pages += [f"/runs/{run_id}/events/{event_id}{form}" for event_id in ids for form in ("", "/raw")]
    pages += [f"/runs/{run_id}/events/timeline_0000001", f"/runs/{run_id}/events/timeline_0000001/raw"]
    pages += [f"/runs/{run_id}/evidence?{field}=zanzi" for field in ("q", "type", "tool", "layer", "status")]
    pages += [f"/runs/{run_id}/{page}?session=session_1" for page in ("evidence", "context", "timeline", "live")]
    for viewer in (client, dashboard.guest(run_id)):
        for page in pages:
            answer = viewer.get(page)
            assert MARK not in answer.text, page
            assert MARK not in str(answer.headers), page


def test_no_error_page_shows_content_to_others(marked: Runs) -> None:
    dashboard = Dashboard(marked, MARK)
    run_id = marked_run(marked)
    client = dashboard.stranger()
    for path in (marked.paths.diagnosis_path(run_id), marked.paths.evidence_summary_path(run_id)):
        path.write_text(f'{{"{MARK}": "{MARK}')
        for page in ("", "/diagnosis", "/evidence", "/timeline", "/trust", "/live/stream"):
            assert MARK not in client.get(f"/runs/{run_id}{page}").text
    marked.paths.run_path(run_id).write_text(f'{{"run_id": "{MARK}')
    assert MARK not in client.get(f"/runs/{run_id}").text


def test_a_live_stream_contains_no_content_of_an_anonymous_run(marked: Runs) -> None:
    dashboard = Dashboard(marked, MARK)
    run_id = marked.start(agent_id=MARK, tenant_id=MARK, visibility="anonymous")
    payload = {"text": MARK, "arguments": {MARK: MARK}, "result": MARK}
    marked.write(run_id, recorded(1, "tool_call", tool_name=MARK, error=MARK, payload=payload))
    abort_session(run_id, runs_dir=marked.paths.runs_dir)  # so that the stream ends
    stream = dashboard.stranger().get(f"/runs/{run_id}/live/stream").text
    assert '"type": "tool_call"' in stream
    assert MARK not in stream
    assert MARK in dashboard.user(MARK).get(f"/runs/{run_id}/live/stream").text


@pytest.mark.parametrize(
    ("visibility", "host", "said"),
    [
        ("private", "192.0.2.9", "run_001 is private; it was sent to another machine"),
        ("private", "collector.example", "run_001 is private; it was sent to another machine"),
        ("private", "localhost", None),
        ("private", "127.0.0.1", None),
        ("private", "[::1]", None),
        ("shared", "192.0.2.9", None),
        ("public", "192.0.2.9", None),
        ("anonymous", "192.0.2.9", "run_001 is anonymous"),
        ("anonymous", "localhost", "run_001 is anonymous"),
    ],
)
def test_the_user_is_informed_when_a_private_or_anonymous_run_is_sent_to_a_collector(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, visibility: str, host: str, said: str | None
) -> None:
    run_id = marked_run(runs)
    change_visibility(Run.load(run_id, runs.folder), visibility)
    sent: list[bytes] = []

    def take(_: Endpoint, request: Request) -> Sent:
        sent.append(request.json())
        return Sent(len(sent[-1]), Taken(0, ""))

    monkeypatch.setattr(Endpoint, "send", take)
    address = f"http://{host}:4318"
    answer = cli("export", run_id, "--format", "otlp", "--content", "--endpoint", address, "--json")
    notes = [note for note in answer.data["notes"] if note.startswith(f"{run_id} is ")]
    assert [note.startswith(str(said)) for note in notes] == ([] if said is None else [True])
    assert any(MARK.encode() in request for request in sent) is (visibility != "anonymous")
