"""Checks whether a recording would work on this machine; a failed check names its fix, and the probe records a turn."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.hooks.registration import check_installed_hooks
from critiqor.errors import BrokenRecordError, CritiqorError, OpenClawNotFoundError
from critiqor.exporters.formats import extension_formats
from critiqor.extensions.detection import run_detectors
from critiqor.extensions.entry_points import installed
from critiqor.importers.formats import extension_importers
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.model import SessionRecord
from critiqor.openclaw import (
    AttachmentFolder,
    Installation,
    find_openclaw,
    locate_configuration,
    node_satisfies,
    plugin_folder,
    read_plugin_policy,
    why_blocked,
)
from critiqor.recording.monitor import MonitorOptions, monitor_openclaw
from critiqor.run.active_slot import active_record
from critiqor.run.owner import is_owner_alive
from critiqor.run.store import RunStore
from critiqor.session import finalize_session, load_session_evidence_events, paths_for
from critiqor.storage.session_document import empty_document

PROBE_TIMEOUT_SECONDS = 180.0
TESTED_VERSIONS = ("2026.6.1", "2026.9.6")
"""OpenClaw versions that were tested."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement of a recording."""

    name: str
    ok: bool
    detail: str
    """What was found."""
    fix: str | None = None
    """How to fix it; for a passed check, what to do next."""


def run_checks(runs_dir: str | Path, openclaw_command: str, environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield all checks that do not start OpenClaw."""
    yield _check_folder(paths_for(runs_dir).runs_dir)
    yield from _check_active_sessions(runs_dir)
    yield from _check_records(runs_dir)
    yield from _check_extensions()
    try:
        installation = find_openclaw(openclaw_command, environment)
    except OpenClawNotFoundError as error:
        yield Check(name="openclaw", ok=False, detail=error.message, fix=error.fix)
        return
    yield _check_openclaw(installation)
    yield _check_node(installation)
    yield _check_plugin(environment)
    yield from _check_attachment(environment)


def _check_extensions() -> Iterator[Check]:
    """Check every installed extension: detectors are run on an empty recording, the others are loaded."""
    if detectors := installed("critiqor.detectors"):
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder, "session.json")
            document.write_bytes(empty_document("run_000"))
            for run in (result.run for result in run_detectors(detectors, document, 0)):
                name = f"detector {run.detector} of {run.package} {run.version}"
                yield _extension_check(name, run.package, None if run.state == "ok" else f"{run.state}: {run.reason}")
    for extension, problem in check_installed_hooks(PluginHooks()):
        yield _extension_check(f"hooks {extension}", extension.package, problem)
    for kind, loaded in (("exporter", extension_formats()), ("importer", extension_importers())):
        for extension in loaded.origins.values():
            yield _extension_check(f"{kind} {extension}", extension.package, None)
        for extension, reason in loaded.failed:
            yield _extension_check(f"{kind} {extension}", extension.package, reason)


def _extension_check(name: str, package: str, problem: str | None) -> Check:
    fix = None if problem is None else f"pip install --upgrade {package}   (or: pip uninstall {package})"
    return Check(name="extension", ok=problem is None, detail=f"{name}: {problem or 'ok'}", fix=fix)


def probe(openclaw_command: str, environment: Mapping[str, str]) -> Check:
    """Record one scripted turn of the real OpenClaw in a temporary home, and check that all of it was recorded."""
    folder = Path(tempfile.mkdtemp(prefix="critiqor-probe-"))
    try:
        missing = _record_probe(folder, openclaw_command, environment)
    except CritiqorError as error:
        return Check(name="probe", ok=False, detail=error.message, fix=error.fix)
    if missing:
        log = _tail(folder / "openclaw.log")
        detail = f"not recorded: {', '.join(missing)}. Last output of OpenClaw: {log}"
        return Check(name="probe", ok=False, detail=detail, fix=f"see the files in {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    return Check(name="probe", ok=True, detail="one scripted message was recorded, sealed and diagnosed")


def _record_probe(folder: Path, openclaw_command: str, environment: Mapping[str, str]) -> list[str]:
    """Record the probe and return the events that are missing."""
    steps = [Step(tools=(ToolUse("probe_1", "exec", {"command": "echo probe"}),)), Step(text="The probe is done.")]
    runs = folder / "runs"
    with ScriptedModel(steps) as model, (folder / "openclaw.log").open("wb") as log:
        home = write_openclaw_home(folder / "home", model.base_url)
        options = MonitorOptions(
            runs_dir=runs,
            openclaw_command=openclaw_command,
            arguments=("agent", "--local", "--agent", "main", "--message", "probe"),
            timeout=PROBE_TIMEOUT_SECONDS,
            live=False,
        )
        path = {"PATH": environment.get("PATH", os.defpath)}
        result = monitor_openclaw(options, say=lambda _: None, environment={**home, **path}, output=log)
    finalize_session(result.run_id, runs_dir=runs)
    seen = [event["event_type"] for event in load_session_evidence_events(result.run_id, runs_dir=runs)]
    expected = {"tool_call": 1, "tool_output": 1, "before_provider_request": 2, "token_usage": 2, "agent_end": 1}
    return [f"{name} ({seen.count(name)} of {count})" for name, count in expected.items() if seen.count(name) != count]


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
    return " / ".join(lines[-3:]) or "nothing"


def _check_folder(folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Check(name="runs folder", ok=True, detail=str(folder))
    detail = f"{existing} is not writable"
    return Check(name="runs folder", ok=False, detail=detail, fix="choose another with --runs-dir")


def _check_active_sessions(runs_dir: str | Path) -> Iterator[Check]:
    paths = paths_for(runs_dir)
    found = [active for slot in paths.slot_names() if (active := active_record(paths, slot)) is not None]
    if not found:
        yield Check(name="active session", ok=True, detail="none")
    yield from map(_check_active_session, found)


def _check_active_session(active: SessionRecord) -> Check:
    detail = f"{active.run_id} is {active.status}"
    if active.owner is None:
        detail += ", recorded from an attached OpenClaw"
    if active.owner is None or is_owner_alive(active):
        return Check(name="active session", ok=True, detail=detail)
    # This is the normal state after a recording, not a fault of the installation.
    following = f"critiqor finalize {active.run_id}   (or: critiqor abort {active.run_id})"
    return Check(name="active session", ok=True, detail=f"{detail}, and its process has ended", fix=following)


def _check_records(runs_dir: str | Path) -> Iterator[Check]:
    """Check that every run in the folder has a record that can be read; yields nothing if they have."""
    store = RunStore(runs_dir)
    if not store.runs_dir.is_dir():
        return
    for run_id in store.paths.lost_run_ids():
        yield Check(name=run_id, ok=True, detail="its record is missing", fix=f"critiqor recover {run_id}")
    for run in store.runs():
        try:
            run.head()
        except BrokenRecordError as error:
            yield Check(name=run.id, ok=True, detail=error.message, fix=error.fix)
        except OSError as error:
            yield Check(name=run.id, ok=True, detail=f"its record cannot be read: {error.strerror}")


def _check_openclaw(installation: Installation) -> Check:
    version = installation.version or "unknown version"
    command = shlex.join((installation.command, *installation.arguments))
    detail = f"{command}, {version} (tested with {', '.join(TESTED_VERSIONS)})"
    return Check(name="openclaw", ok=True, detail=detail)


def _check_node(installation: Installation) -> Check:
    version, needed = installation.node_version, installation.node_requirement
    if version is None:
        fix = "install Node 24 and put it on PATH"
        return Check(name="node", ok=False, detail="no Node found for this OpenClaw", fix=fix)
    if needed and node_satisfies(version, needed) is False:
        detail = f"{version}, but this OpenClaw needs {needed}"
        return Check(name="node", ok=False, detail=detail, fix="install Node 24 and put it first on PATH")
    return Check(name="node", ok=True, detail=f"{version} (needs {needed})" if needed else version)


def _check_plugin(environment: Mapping[str, str]) -> Check:
    if not (plugin_folder() / "index.js").is_file():
        fix = "reinstall critiqor"
        return Check(name="plugin", ok=False, detail=f"{plugin_folder()} is incomplete", fix=fix)
    configuration = locate_configuration((), environment)
    if not configuration.exists:
        detail = f"no OpenClaw configuration at {configuration.path}"
        return Check(name="plugin", ok=False, detail=detail, fix="openclaw onboard")
    policy = read_plugin_policy(configuration.path)
    if obstacle := why_blocked(configuration, policy):
        return Check(name="plugin", ok=False, detail=obstacle.reason, fix=obstacle.fix)
    if policy.problem:
        return Check(name="plugin", ok=False, detail=policy.problem, fix="openclaw doctor")
    return Check(name="plugin", ok=True, detail=f"will be loaded in addition to {configuration.path}")


def _check_attachment(environment: Mapping[str, str]) -> Iterator[Check]:
    """Check that the recorder that `critiqor attach openclaw` installed is complete; yields nothing if not attached."""
    folder = AttachmentFolder(locate_configuration((), environment))
    try:
        attachment = folder.read()
        if attachment is None:
            return
        missing = folder.plan().is_needed
    except CritiqorError as error:
        yield Check(name="attachment", ok=False, detail=error.message, fix=error.fix)
        return
    if missing:
        fix = "critiqor attach openclaw   (or: critiqor detach openclaw)"
        detail = f"the recorder in {folder.installed} has another version or is incomplete"
        yield Check(name="attachment", ok=False, detail=detail, fix=fix)
        return
    run = f"last used for {attachment.run_id} in {attachment.runs_dir}" if attachment.run_id else "for no run yet"
    yield Check(name="attachment", ok=True, detail=f"the recorder is installed in OpenClaw's settings, {run}")
