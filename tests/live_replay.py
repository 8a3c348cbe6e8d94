"""Replays a recorded run as if it were being recorded: its journal grows in pieces, and the diagnosis follows it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from story import START, Story

from critiqor.live.announcements import Announcement
from critiqor.live.recording import LiveRecording
from critiqor.live.verdict import LiveFinding, LiveVerdict, read_live
from critiqor.model import Diagnosis, Event, Finding, Metadata
from critiqor.model.diagnosis import severity_rank
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import start_session
from critiqor.run.store import Run, RunStore
from critiqor.storage import run_record as records


def records_of(events: list[Event]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(event) for event in events]


def looping(session: str = "agent:main:main", calls: int = 5, *, start: int = START) -> Story:
    story = Story(session, start=start).starts().user("What is in the list?")
    for _ in range(calls):
        story.model(input=9000, cost=0.01).calls("read", {"path": "a.txt"}, "apples")
    return story


class Replay(NamedTuple):
    """What the live diagnosis said, and what `finalize` said of the same files."""

    live: LiveVerdict
    announcements: list[Announcement]
    diagnosis: Diagnosis


def replay(recorded: Run, folder: Path, chance: random.Random, *, shuffled: bool = False) -> Replay:
    """Replay a completed run in pieces of any size, also of parts of lines.

    With `shuffled`, lines of the journal are a little out of order, as those of several writers are.
    """
    events = list(recorded.events())
    journal_path = recorded.paths.journal_path(recorded.id)
    # A journal that the sealed evidence contains was deleted.
    kept = [each for each in events if each.source_layer != "supervisor"]
    written = b"".join(msgspec.json.encode(each) + b"\n" for each in kept)
    data = journal_path.read_bytes() if journal_path.exists() else written
    if shuffled:
        lines = data.splitlines(keepends=True)
        data = b"".join(line for _, line in sorted((i + chance.random() * 5, line) for i, line in enumerate(lines)))
    run = _started(recorded, folder)
    live = LiveRecording(run)
    lifecycle = [event for event in events if event.source_layer == "supervisor"]
    _add_lifecycle(run, [event for event in lifecycle if event.event_type == "process_start"])
    now, position, news = 0.0, 0, []
    with run.paths.journal_path(run.id).open("ab", buffering=0) as journal:
        while position < len(data):
            size = chance.choice((17, 300, 5_000, 100_000))
            journal.write(data[position : position + size])
            position += size
            now += chance.choice((0.01, 0.5, 2.0))
            live.read(now)
            news += live.publish(now)
    _add_lifecycle(run, [event for event in lifecycle if event.event_type != "process_start"])
    news += live.finish(now)
    verdict = read_live(run)
    assert verdict is not None
    finalize(run, RunStore(folder))
    return Replay(verdict, news, run.diagnosis)


def _started(recorded: Run, folder: Path) -> Run:
    store = RunStore(folder)
    run = store.run(start_session(store, Metadata()).run_id)
    record = run.record()
    record.event_log = []  # of now, while the events of the run are of the past
    records.save(run.paths, record)
    kept = ("witness.json", "redaction.json", "openclaw")
    for path in (*(recorded.folder / name for name in kept), *recorded.folder.glob("recorder-*.json")):
        if path.is_dir():
            shutil.copytree(path, run.folder / path.name, dirs_exist_ok=True)
        elif path.exists():
            shutil.copy(path, run.folder / path.name)
    return run


def _add_lifecycle(run: Run, events: list[Event]) -> None:
    record = run.record()
    record.event_log += [msgspec.to_builtins(event) for event in events]
    records.save(run.paths, record)


def _facts(one: LiveFinding | Finding) -> tuple[object, ...]:
    return (one.cause, one.title, one.severity, one.confidence, one.session_key, one.occurrences, one.first_event)


def differences(live: LiveVerdict, diagnosis: Diagnosis) -> list[str]:
    """Return in what a live verdict differs from a diagnosis: findings, scores, cost."""
    pairs = {
        "trust": (live.trust_score, diagnosis.trust_score),
        "readiness": (live.readiness, diagnosis.readiness),
        "headline": (live.headline, diagnosis.primary_diagnosis.title if diagnosis.primary_diagnosis else None),
        "findings": (
            [
                (each.cause, each.severity, each.confidence, each.session_key, each.occurrences)
                for each in live.findings
            ],
            [
                (each.cause, each.severity, each.confidence, each.session_key, each.occurrences)
                for each in diagnosis.failure_analysis.own_findings
                if severity_rank(each.severity) <= severity_rank("medium")
            ],
        ),
        "sessions": (
            [(each.session_key, each.trust_score, each.readiness, each.cost_usd) for each in live.sessions],
            [(each.session_key, each.trust_score, each.readiness, each.cost_usd) for each in diagnosis.sessions],
        ),
        "cost": (live.cost_usd, diagnosis.cost_analysis.cost_usd),
        "model calls": (live.model_calls, diagnosis.cost_analysis.cost.model_calls),
    }
    return [f"{name}: {one} is not {other}" for name, (one, other) in pairs.items() if one != other]
