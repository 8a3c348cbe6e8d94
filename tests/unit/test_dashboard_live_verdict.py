"""The Live page shows the verdict of a run in progress: to strangers without names and texts."""

from __future__ import annotations

import json
from typing import Any

from dashboards import Dashboard
from live_replay import looping, records_of
from story import START, Story, interleaved
from support import Runs, attached, let_time_pass

from critiqor.live.recording import LiveRecording
from critiqor.run.store import Run
from critiqor.session import abort_session


def followed(runs: Runs, visibility: str) -> str:
    run_id = runs.start(visibility=visibility)
    other = Story("agent:main:telegram:7", "run-2", start=START + 500).starts().says("I look <b>it</b> up.")
    live = LiveRecording(Run.load(run_id, runs.folder))
    runs.write(run_id, attached(), *records_of(interleaved(looping().events, other.events)))
    let_time_pass()
    for second in (0.0, 5.0, 10.0):
        live.read(second)
        live.publish(second)
    abort_session(run_id, runs_dir=runs.folder)
    return run_id


def verdict_in(stream: str) -> dict[str, Any]:
    [data] = [part.partition("data: ")[2] for part in stream.split("\n\n") if part.startswith("event: verdict")]
    verdict: dict[str, Any] = json.loads(data)
    return verdict


def test_the_stream_has_findings_sessions_spend_and_last_words(runs: Runs) -> None:
    run_id = followed(runs, "private")
    verdict = verdict_in(Dashboard(runs).user().get(f"/runs/{run_id}/live/stream").text)
    assert (verdict["readiness"], verdict["said"]) == ("review", "Trust 85 of 100, 1 finding so far")
    [finding] = verdict["findings"]
    assert (finding["severity"], finding["session"]) == ("medium", "agent:main:main")
    assert "called 5 times" in finding["title"]
    worst, best = verdict["sessions"]
    assert (worst["session"], worst["cost"], worst["state"]) == ("agent:main:main", "$0.0500", "working")
    assert best["words"] == "I look <b>it</b> up."


def test_a_stranger_gets_neither_names_nor_texts_of_an_anonymous_run(runs: Runs) -> None:
    run_id = followed(runs, "anonymous")
    stream = Dashboard(runs).stranger().get(f"/runs/{run_id}/live/stream").text
    verdict = verdict_in(stream)
    assert [session["session"] for session in verdict["sessions"]] == ["session 1", "session 2"]
    assert verdict["findings"][0]["title"] and "read" not in verdict["findings"][0]["title"]
    for text in ("telegram", "I look", "apples", "agent:main"):
        assert text not in stream
