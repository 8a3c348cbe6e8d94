"""Runs of several hosts in a store, with diagnoses by older rules: what `fleet diagnose` and `fleet export` work on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from support import Runs, attached, recorded
from timelines import data_of, in_order, line, span

from critiqor.fleet.compute.executor import Workers
from critiqor.fleet.manifest import Content, Manifest, diagnosis_path
from critiqor.fleet.store.bundle import write_bundle
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.model import Metadata
from critiqor.run.diagnosis import diagnose
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import start_session
from critiqor.run.segments.handover import hand_over
from critiqor.run.store import Run, RunStore
from critiqor.storage.run_record import rewrite_diagnosis
from critiqor.storage.seals.diagnosis_seal import write_diagnosis

OLD_RULES = "3"


def failing_run(runs: Runs, number: int = 0, reads: int = 0, **metadata: str) -> Run:
    """A sealed run in which an agent reads so many files, a check fails, and the agent says otherwise."""
    run_id = runs.start(**metadata)
    usage = {"input": 100 + number, "output": 20, "cacheRead": 5, "cacheWrite": 0, "cost": {"total": 0.25}}
    called = {"provider": "openai", "model": "gpt-5.2", "usage": usage}
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "a"}
    result = {"content": [{"type": "text", "text": f"{number + 1} failed"}]}
    runs.write(
        run_id,
        attached(),
        recorded(2, "input", payload={"role": "user", "text": f"Run the tests of part {number}."}),
        recorded(3, "agent_start"),
        recorded(4, "after_provider_response", payload=called, duration_ms=900),
        recorded(5, "tool_call", **call, payload={"arguments": {"command": f"pytest part_{number}"}}),
        recorded(6, "tool_result", **call, status="error", error="exit code 1", payload={"result": result}),
    )
    for place in range(reads):
        read: dict[str, Any] = {"tool_name": "read", "tool_call_id": f"read-{place}"}
        text = {"content": [{"type": "text", "text": f"line {place} of part {number}: {place * 37} orders\n" * 20}]}
        runs.write(
            run_id,
            recorded(7 + 2 * place, "tool_call", **read, payload={"arguments": {"path": f"src/part_{place}.py"}}),
            recorded(8 + 2 * place, "tool_result", **read, payload={"result": text}),
        )
    runs.write(
        run_id,
        recorded(7 + 2 * reads, "message_end", payload={"role": "assistant", "text": "All tests pass."}),
        recorded(8 + 2 * reads, "agent_end", payload={"success": True}),
    )
    runs.finalize(run_id)
    return Run.load(run_id, runs.folder)


def run_with_timeline(runs: Runs, text: str = "nothing") -> Run:
    """A sealed run whose gateway took a minute and a half to come up, which only its timeline says, with a text."""
    run_id = runs.start()
    said = {"role": "assistant", "text": "Hello."}
    runs.write(run_id, attached(), recorded(2), recorded(3, "message_end", payload=said), recorded(4, "agent_end"))
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir(exist_ok=True)
    ready = line("mark", "gateway.ready", 90_000, durationMs=90_000, attributes={"text": text})
    timeline.write_bytes(data_of(*in_order(*span("plugins.load", "a", 0, 89_000, phase="startup"), ready)))
    runs.finalize(run_id)
    return Run.load(run_id, runs.folder)


def second_segment(runs: Runs) -> Run:
    """The sealed second segment of a recording: a number that its agent names was read in the first one."""
    store = RunStore(runs.folder)
    first = store.run(start_session(store, Metadata(), owned=False, segment="1KB").run_id)
    read: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "a"}
    output = {"content": [{"type": "text", "text": "orders: 40417"}]}
    runs.write(
        first.id,
        attached(),
        recorded(2, "agent_start"),
        recorded(3, "tool_call", **read, payload={"arguments": {"command": "wc -l orders"}}),
        recorded(4, "tool_result", **read, payload={"result": output}),
        recorded(5, "agent_end", payload={"success": True}),
    )
    done = hand_over(first, lambda _new: {"note": "cut"})
    assert done is not None
    second = done.run
    told = {"role": "assistant", "text": "As counted before, there are 40417 orders, and all 12 tests pass."}
    runs.write(
        second.id,
        attached(10),
        recorded(11, "agent_start", agent_run_id="run-2"),
        recorded(12, "message_end", agent_run_id="run-2", payload=told),
        recorded(13, "agent_end", agent_run_id="run-2", payload={"success": True}),
    )
    finalize(second, store)
    return second


def diagnose_with_old_rules(run: Run, rule_set: str = OLD_RULES) -> None:
    """Replace the diagnosis by one of older rules: the worst finding has another cause, and trust is 12."""
    known = run.diagnosis
    others = [
        msgspec.structs.replace(each, type="old_failure", cause="old_failure:exec")
        for each in known.failure_analysis.findings[:1]
    ]
    findings = [*others, *known.failure_analysis.findings[1:]]
    analysis = msgspec.structs.replace(known.failure_analysis, findings=findings)
    old = msgspec.structs.replace(
        known, rule_set_version=rule_set, failure_analysis=analysis, trust_score=12, readiness="review"
    )
    write_diagnosis(run.diagnosis_path, old)
    rewrite_diagnosis(run.paths, run.id, old)


def push(store: FleetStore, run: Run, host: str, content: Content = "full") -> Manifest:
    """Store a run as `critiqor push` does."""
    bundle = BytesIO()
    manifest = write_bundle(run, bundle, content, host)
    assert store.create(manifest.bundle_path, bundle.getvalue())
    assert store.create(manifest.manifest_path, msgspec.json.encode(manifest))
    return manifest


class Fleet:
    """A store with runs of older rules."""

    def __init__(
        self, folder: Path, hosts: Sequence[str] = ("build-1", "build-2"), runs_per_host: int = 3, reads: int = 0
    ) -> None:
        self.folder = folder
        self.url = f"file://{folder}/store"
        self.store = open_store(self.url)
        self.runs: dict[str, Run] = {}
        """The runs on their hosts, by seal."""
        self.manifests: list[Manifest] = []
        for host in hosts:
            for number in range(runs_per_host):
                self.add(failing_run(self.runs_of(host), number, reads, agent_id=f"agent-{number % 2}"), host)

    def runs_of(self, host: str) -> Runs:
        return Runs(self.folder / host)

    def add(self, run: Run, host: str) -> Manifest:
        diagnose_with_old_rules(run)
        manifest = push(self.store, run, host)
        self.manifests.append(manifest)
        self.runs[manifest.seal] = run
        return manifest

    def stored_diagnosis(self, manifest: Manifest, rule_set: str) -> bytes | None:
        return self.store.read_if_exists(diagnosis_path(manifest.seal, rule_set))

    def bundle_file(self, manifest: Manifest) -> Path:
        return self.folder / "store" / manifest.bundle_path

    def local_diagnosis(self, manifest: Manifest) -> bytes:
        """What `critiqor diagnose` writes on the host of a run."""
        run = self.runs[manifest.seal]
        diagnose(run)
        return run.diagnosis_path.read_bytes()


class ThreadWorkers(Workers):
    """A thread of this process: for tests of what is computed, and not of where."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1)

    @property
    def capacity(self) -> int:
        return 1

    def restart(self) -> None:
        raise AssertionError("a thread does not die")

    def missing(self) -> str | None:
        return None

    def close(self) -> None:
        self.executor.shutdown()


def without_times(diagnosis: bytes) -> bytes:
    """A diagnosis.json as it is, but for the time at which it was made, and the digest that covers this time."""
    document = json.loads(diagnosis)
    text = diagnosis.decode()
    for value in (document["generated_at"], document["seal"]["digest"]):
        assert text.count(value) == 1
        text = text.replace(value, "")
    return text.encode()
