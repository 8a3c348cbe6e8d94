"""Runs of several hosts in a store, with diagnoses by older rules: what `fleet diagnose` and `fleet export` work on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from support import Runs, attached, recorded

from critiqor.fleet.manifest import Manifest, diagnosis_path
from critiqor.fleet.store.bundle import write_bundle
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.run.diagnosis import diagnose
from critiqor.run.store import Run
from critiqor.storage.run_record import rewrite_diagnosis
from critiqor.storage.seals.diagnosis_seal import write_diagnosis

OLD_RULES = "3"


def failing_run(runs: Runs, number: int = 0, **metadata: str) -> Run:
    """A sealed run in which a check failed and the agent says otherwise."""
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
        recorded(7, "message_end", payload={"role": "assistant", "text": "All tests pass."}),
        recorded(8, "agent_end", payload={"success": True}),
    )
    runs.finalize(run_id)
    return Run.load(run_id, runs.folder)


def diagnose_with_old_rules(run: Run, rule_set: str = OLD_RULES) -> None:
    """Replace the diagnosis by one of older rules: the worst finding has another cause, and trust is 12."""
    known = run.diagnosis
    findings = known.failure_analysis.findings
    other = msgspec.structs.replace(findings[0], type="old_failure", cause="old_failure:exec")
    analysis = msgspec.structs.replace(known.failure_analysis, findings=[other, *findings[1:]])
    old = msgspec.structs.replace(
        known, rule_set_version=rule_set, failure_analysis=analysis, trust_score=12, readiness="review"
    )
    write_diagnosis(run.diagnosis_path, old)
    rewrite_diagnosis(run.paths, run.id, old)


def push(store: FleetStore, run: Run, host: str) -> Manifest:
    """Store a run as `critiqor push` does."""
    bundle = BytesIO()
    manifest = write_bundle(run, bundle, host=host)
    assert store.create(manifest.bundle_path, bundle.getvalue())
    assert store.create(manifest.manifest_path, msgspec.json.encode(manifest))
    return manifest


class Fleet:
    """A store with runs of older rules."""

    def __init__(self, folder: Path, hosts: Sequence[str] = ("build-1", "build-2"), runs_per_host: int = 3) -> None:
        self.folder = folder
        self.url = f"file://{folder}/store"
        self.store = open_store(self.url)
        self.runs: dict[str, Run] = {}
        """The runs on their hosts, by seal."""
        self.manifests: list[Manifest] = []
        for host in hosts:
            for number in range(runs_per_host):
                self.add(failing_run(self.runs_of(host), number, agent_id=f"agent-{number % 2}"), host)

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


def without_times(diagnosis: bytes) -> bytes:
    """A diagnosis.json as it is, but for the time at which it was made, and the digest that covers this time."""
    document = json.loads(diagnosis)
    text = diagnosis.decode()
    for value in (document["generated_at"], document["seal"]["digest"]):
        assert text.count(value) == 1
        text = text.replace(value, "")
    return text.encode()
