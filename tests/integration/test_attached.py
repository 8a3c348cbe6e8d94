"""Attach to an OpenClaw that runs by itself, and detach: the stand-in, its own commands, and its gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import (
    PATIENCE_SECONDS,
    STANDIN,
    Answer,
    Cli,
    Runs,
    attached,
    critiqor_command,
    environment,
    kill_tree,
    let_time_pass,
    run_critiqor,
    script,
    wait_until,
)

from critiqor.errors import ActiveSessionError, CritiqorError, OpenClawNotFoundError, UsageError
from critiqor.lab.doctor import run_checks
from critiqor.openclaw import OpenClawCommands
from critiqor.recording import run_witness
from critiqor.recording.attach import Attached, AttachOptions, Detached, attach_openclaw, detach_openclaw
from critiqor.recording.run_witness import GuardWitness
from critiqor.run.store import Run
from critiqor.run.tail import Follower
from critiqor.session import abort_session, create_session, load_active_session

SECRET = "sk-live-0123456789abcdef"
MINE = """{ "gateway": {"mode": "local"}, "env": {"KEY": "%s"},
      "meta": {"lastTouchedVersion": "1"} }
""".replace("%s", SECRET)
"""A configuration in a format that is not OpenClaw's own."""


class Service:
    """A home with an OpenClaw in it, and what was said about it."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.runs = runs
        self.home = folder / "home"
        self.state = self.home / ".openclaw"
        self.state.mkdir(parents=True)
        self.file = self.state / "openclaw.json"
        self.file.write_text(MINE)
        self.environment = environment(self.home)
        self.said: list[str] = []
        self.gateway: subprocess.Popen[str] | None = None

    def attach(self, **options: Any) -> Attached:
        return attach_openclaw(self._options(**options), say=self.said.append, environment=self.environment)

    def detach(self, **options: Any) -> Detached:
        return detach_openclaw(self._options(**options), say=self.said.append, environment=self.environment)

    def _options(self, **options: Any) -> AttachOptions:
        usual: dict[str, Any] = {"runs_dir": self.runs.folder, "openclaw_command": str(STANDIN), "timeout": 0.0}
        return AttachOptions(**{**usual, **options})

    def start(self) -> None:
        command = [str(STANDIN), "gateway", "run"]
        pipe = subprocess.PIPE
        self.gateway = subprocess.Popen(command, env=self.environment, stdin=pipe, stdout=pipe, text=True)
        self._wait_for("ready")

    def stop(self) -> None:
        if self.gateway is None:
            return
        kill_tree(self.gateway.pid)
        self.gateway.wait()
        for pipe in (self.gateway.stdin, self.gateway.stdout):
            if pipe is not None:
                pipe.close()

    def load(self) -> None:
        """Let the gateway load what its configuration names by now."""
        self._tell("load", "loaded")

    def turn(self) -> None:
        self._tell("turn", "Done")

    def _tell(self, line: str, answer: str) -> None:
        assert self.gateway and self.gateway.stdin
        self.gateway.stdin.write(f"{line}\n")
        self.gateway.stdin.flush()
        self._wait_for(answer)

    def _wait_for(self, answer: str) -> None:
        assert self.gateway and self.gateway.stdout
        assert answer in self.gateway.stdout.readline()

    def agent_runs(self, run_id: str) -> list[str]:
        """The agent runs of a sealed run, in order."""
        events = self.runs.evidence(run_id)["events"]
        return list(dict.fromkeys(event["agent_run_id"] for event in events if event["agent_run_id"]))

    def left(self) -> list[str]:
        """What is in the state folder beside the backups that OpenClaw keeps."""
        return sorted(path.name for path in self.state.iterdir() if ".bak" not in path.name)

    def settings(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.file.read_text())
        return document


@pytest.fixture
def service(tmp_path: Path, runs: Runs) -> Iterator[Service]:
    made = Service(tmp_path, runs)
    yield made
    made.stop()


def test_a_gateway_is_attached_recorded_finalized_and_detached(service: Service) -> None:
    service.start()
    service.turn()
    result = service.attach()
    assert (result.run_id, result.recorder_seen) == ("run_001", False)
    service.load()
    service.turn()
    record = service.runs.finalize("run_001")
    assert record["trust_score"] is not None
    assert service.agent_runs("run_001") == ["standin-run-2"]
    assert service.detach().restored
    assert service.file.read_text() == MINE
    assert service.left() == ["extensions", "openclaw.json"]
    assert list((service.state / "extensions").iterdir()) == []
    service.turn()
    assert service.runs.evidence("run_001")["coverage"]["recorder_attached"]
    assert service.runs.paths.run_ids() == ["run_001"]


def test_what_changes_is_said_before_and_a_dry_run_changes_nothing(service: Service) -> None:
    result = service.attach(dry_run=True)
    assert result.run_id is None
    assert [f"change: {change}" for change in result.changes] == service.said
    assert "plugins install" in service.said[0]
    assert "plugins.entries.critiqor becomes" in service.said[1]
    assert service.file.read_text() == MINE
    assert [path.name for path in service.state.iterdir()] == ["openclaw.json"]
    assert not service.runs.folder.exists()
    service.attach()
    before = service.file.read_bytes()
    result_back = service.detach(dry_run=True)
    assert result_back.changes
    assert service.file.read_bytes() == before
    assert load_active_session(service.runs.folder) is not None


def test_attaching_again_changes_nothing_and_goes_on_with_the_run(service: Service) -> None:
    first = service.attach()
    before = service.file.read_bytes()
    second = service.attach()
    assert (second.run_id, second.changes) == (first.run_id, [])
    assert service.file.read_bytes() == before
    assert service.runs.paths.run_ids() == ["run_001"]


def test_a_configuration_outside_of_the_state_folder_has_its_plugins_beside_it(
    service: Service, tmp_path: Path
) -> None:
    service.file = service.file.rename(tmp_path / "openclaw.json")
    service.environment["OPENCLAW_CONFIG_PATH"] = str(service.file)
    copied = tmp_path / "extensions" / "critiqor"
    first = service.attach()
    assert f"copied to {copied}, by" in first.changes[0]
    assert (copied / "index.js").is_file()
    assert [check for check in run_checks(service.runs.folder, str(STANDIN), service.environment) if not check.ok] == []
    before = service.file.read_bytes()
    assert service.attach().changes == []
    assert service.file.read_bytes() == before
    service.start()
    service.turn()
    service.runs.finalize("run_001")
    assert service.agent_runs("run_001") == ["standin-run-1"]
    back = service.detach()
    assert f"{copied} is removed, by" in back.changes[0]
    assert (back.restored, service.file.read_text(), copied.exists()) == (True, MINE, False)


def test_after_finalize_attaching_again_begins_the_next_run_in_the_same_process(service: Service) -> None:
    service.start()
    service.attach()
    service.load()
    service.turn()
    service.runs.finalize("run_001")
    service.turn()
    result = service.attach(timeout=30.0)
    assert (result.run_id, result.changes, result.recorder_seen) == ("run_002", [], True)
    service.turn()
    service.runs.finalize("run_002")
    assert service.agent_runs("run_001") == ["standin-run-1"]
    assert service.agent_runs("run_002") == ["standin-run-3"]


def test_a_session_belongs_to_no_process_and_a_gateway_that_is_restarted_goes_on_with_it(service: Service) -> None:
    service.attach()
    active = load_active_session(service.runs.folder)
    assert active is not None
    assert active["owner"] is None
    service.start()
    service.turn()
    service.stop()
    service.start()
    service.turn()
    service.runs.finalize("run_001")
    coverage = service.runs.evidence("run_001")["coverage"]
    assert len({recorder["pid"] for recorder in coverage["recorders"]}) == 2
    assert all(recorder["attached"] for recorder in coverage["recorders"])
    assert any("attached to a running OpenClaw" in note for note in coverage["notes"])
    starts = [event for event in service.runs.evidence("run_001")["events"] if event["event_type"] == "agent_start"]
    assert len(starts) == 2


@pytest.fixture
def witness(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardWitness]:
    """A witness that began after the first of two agent runs, and to which the gateway reports."""
    monkeypatch.setattr(run_witness, "NOTICE_MS", 0)
    service.start()
    service.attach()
    service.load()
    service.turn()
    began = GuardWitness(Run.load("run_001", service.runs.folder))
    listener = began._witness.listener
    assert began.problem is None and listener is not None
    wait_until(lambda: bool(listener.statement().recorders))
    service.turn()
    wait_until(lambda: listener.reported() > 0)
    yield began
    began.end()


def test_a_guard_confirms_the_records_of_an_attached_gateway(service: Service, witness: GuardWitness) -> None:
    service.runs.finalize("run_001")
    facts = service.runs.evidence("run_001")["coverage"]["witness"]
    assert facts["recorders"] == 1 and facts["produced"] > 5
    wrong = (
        "lost",
        "removed",
        "changed",
        "inserted",
        "unreported",
        "unknown_recorders",
        "irregular_reports",
        "altered",
    )
    assert not any(facts[name] for name in wrong), facts


@pytest.mark.parametrize("how", ["changed", "removed", "inserted"])
def test_a_guard_notices_alterations_of_what_it_has_counted(service: Service, witness: GuardWitness, how: str) -> None:
    journal = service.runs.paths.journal_path("run_001")
    *before, line, last = journal.read_bytes().splitlines(keepends=True)
    altered = {"changed": [line.replace(b'"payload":{', b'"payload":{"x":1,')], "removed": [], "inserted": [line, line]}
    journal.write_bytes(b"".join([*before, *altered[how], last]))
    service.runs.finalize("run_001")
    assert service.runs.evidence("run_001")["coverage"]["witness"][how] == 1


def test_records_from_before_and_after_a_guard_are_not_judged(service: Service, witness: GuardWitness) -> None:
    witness.end()
    assert not service.runs.paths.guard_path("run_001").exists()
    service.turn()
    service.runs.finalize("run_001")
    coverage = service.runs.evidence("run_001")["coverage"]
    assert coverage["witness"]["unreported"] == 0 and not coverage["witness"]["is_missing"]
    assert service.agent_runs("run_001") == ["standin-run-1", "standin-run-2", "standin-run-3"]


def test_records_that_were_not_reported_to_a_guard_are_not_confirmed(service: Service, witness: GuardWitness) -> None:
    let_time_pass()
    service.runs.write("run_001", attached())
    service.runs.finalize("run_001")
    assert service.runs.evidence("run_001")["coverage"]["witness"]["unreported"] == 1


def test_doctor_show_watch_and_abort_know_an_attached_session(service: Service) -> None:
    def critiqor(*arguments: str) -> str:
        return run_critiqor(*arguments, "--runs-dir", str(service.runs.folder), home=service.home).stdout

    service.attach()
    service.start()
    service.turn()
    checks = json.loads(critiqor("doctor", "--openclaw-command", str(STANDIN), "--json"))["data"]
    by_name = {check["name"]: check for check in checks}
    assert by_name["active session"]["ok"]
    assert by_name["active session"]["detail"] == "run_001 is MONITORING, recorded from an attached OpenClaw"
    assert by_name["attachment"]["ok"]
    assert "run_001" in by_name["attachment"]["detail"]
    assert "Being recorded from an attached OpenClaw" in critiqor("show", "run_001")
    look = Follower(Run.load("run_001", service.runs.folder)).update()
    assert (look.over, look.status) == (None, "MONITORING")
    assert "ABORTED" in critiqor("abort")
    assert service.gateway is not None
    assert service.gateway.poll() is None
    service.turn()


def test_doctor_reports_an_attachment_whose_files_were_changed(service: Service) -> None:
    service.attach()
    (service.state / "extensions" / "critiqor" / "event_router.js").write_text("// older")
    [check] = [check for check in run_checks(service.runs.folder, str(STANDIN), service.environment) if not check.ok]
    assert (check.name, str(check.fix).split("   ")[0]) == ("attachment", "critiqor attach openclaw")
    (service.state / "critiqor" / "attachment.json").write_text("{")
    [check] = [check for check in run_checks(service.runs.folder, str(STANDIN), service.environment) if not check.ok]
    assert (check.name, str(check.fix).split(",")[0]) == ("attachment", "openclaw plugins uninstall critiqor --force")


def test_a_session_that_is_aborted_takes_nothing_more(service: Service) -> None:
    service.attach()
    service.start()
    service.turn()
    journal = service.runs.paths.journal_path("run_001")
    abort_session("run_001", runs_dir=service.runs.folder)
    service.turn()
    runs = {json.loads(line)["agent_run_id"] for line in journal.read_text().splitlines()}
    assert runs == {None, "standin-run-1"}


def test_a_runs_folder_that_was_removed_is_created_again_only_by_the_next_attach(service: Service) -> None:
    service.attach()
    service.start()
    service.turn()
    subprocess.run(["rm", "-r", str(service.runs.folder)], check=True)
    service.turn()
    assert not service.runs.folder.exists()
    result = service.attach()
    assert result.run_id == "run_001"
    service.turn()
    service.runs.finalize("run_001")
    assert service.agent_runs("run_001") == ["standin-run-3"]


def test_a_monitored_openclaw_records_its_own_run_alone_while_it_is_attached(service: Service, tmp_path: Path) -> None:
    service.attach()
    other = Runs(tmp_path / "other")
    command = ("monitor", "openclaw", "--openclaw-command", STANDIN, "--runs-dir", other.folder, "--", "agent")
    assert run_critiqor(*command, home=service.home).returncode == 0
    other.finalize("run_001")
    assert [event["agent_run_id"] for event in other.evidence("run_001")["events"]].count("standin-run-1") > 0
    assert not service.runs.paths.journal_path("run_001").exists()


def test_the_session_that_goes_on_is_left_to_be_finalized_by_detach(service: Service) -> None:
    service.attach()
    result = service.detach()
    assert (result.run_id, result.runs_dir) == ("run_001", str(service.runs.folder))
    assert service.runs.finalize("run_001")["status"] == "COMPLETED"


def test_detaching_what_is_not_attached_changes_nothing(service: Service) -> None:
    result = service.detach()
    assert (result.changes, result.restored, service.said) == ([], False, [])
    service.attach()
    service.detach()
    assert service.detach().changes == []
    assert service.file.read_text() == MINE


def test_what_the_user_has_changed_since_survives_detaching(service: Service) -> None:
    service.attach()
    service.file.write_text(json.dumps({**service.settings(), "ui": {"theme": "dark"}}))
    result = service.detach()
    assert not result.restored
    before = {name: value for name, value in json.loads(MINE).items() if name != "meta"}
    assert service.settings() == {**before, "ui": {"theme": "dark"}, "meta": service.settings()["meta"]}
    assert Path(str(result.backup)).read_text() == MINE
    assert not (service.state / "critiqor").exists()


def test_a_configuration_without_a_mark_of_openclaw_keeps_its_settings_in_openclaws_format(service: Service) -> None:
    service.file.write_text('{"gateway": {"mode": "local"}}')
    service.attach()
    result = service.detach()
    assert not result.restored
    assert service.settings() == {"gateway": {"mode": "local"}, "meta": service.settings()["meta"]}
    assert result.rewritten
    assert Path(str(result.backup)).read_text() == '{"gateway": {"mode": "local"}}'


def test_what_cannot_be_put_back_is_kept_beside_the_file_where_openclaw_pushes_out_its_own_backup(
    service: Service,
) -> None:
    mine = ' {"gateway": {"mode": "local"}}'
    service.file.write_text(mine)
    service.file.chmod(0o640)
    service.attach()
    [oldest] = [path for path in service.state.glob("openclaw.json.bak*") if path.read_text() == mine]
    oldest.rename(f"{service.file}.bak.4")  # as if OpenClaw had written its configuration a few times
    for newer in ("bak", "bak.1", "bak.2", "bak.3"):
        Path(f"{service.file}.{newer}").write_bytes(service.file.read_bytes())
    result = service.detach()
    kept = Path(str(result.backup))
    assert kept == service.file.with_name("openclaw.json.before-critiqor")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == (mine, 0o640)


def test_nothing_of_the_configuration_is_copied_or_said_but_the_settings_that_change(service: Service) -> None:
    answers = [service.attach(), service.attach(), service.detach(dry_run=True)]
    assert SECRET in MINE
    assert SECRET not in f"{answers} {service.said}"
    kept = [path for path in (service.state / "critiqor").rglob("*") if path.is_file()]
    kept += [path for path in service.runs.folder.rglob("*") if path.is_file()]
    assert [path.name for path in kept if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("step", ["install", "patch"])
def test_an_attach_that_died_half_way_can_be_detached_and_attached(
    service: Service, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    for again in (service.detach, service.attach):
        with monkeypatch.context() as patched:
            patched.setattr(OpenClawCommands, step, die)
            with pytest.raises(Killed):
                service.attach()
        again()
        if again == service.detach:
            service.runs.finalize("run_001")
    service.runs.finalize("run_002")
    service.detach()
    assert "plugins" not in service.settings()
    assert service.settings()["env"] == {"KEY": SECRET}
    assert service.left() == ["extensions", "openclaw.json"]
    assert list((service.state / "extensions").iterdir()) == []


@pytest.mark.parametrize("step", ["uninstall", "patch"])
def test_a_detach_that_died_half_way_goes_on_where_it_was(
    service: Service, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    worked = getattr(OpenClawCommands, step)

    def die(*arguments: object) -> None:
        worked(*arguments)
        raise Killed

    service.attach()
    with monkeypatch.context() as patched:
        patched.setattr(OpenClawCommands, step, die)
        with pytest.raises(Killed):
            service.detach()
    assert service.detach().changes
    assert "plugins" not in service.settings()
    assert service.settings()["env"] == {"KEY": SECRET}
    assert "critiqor" not in service.left()
    assert service.detach().changes == []


def test_what_is_gone_altogether_can_still_be_detached(service: Service) -> None:
    service.attach()
    service.file.unlink()
    subprocess.run(["rm", "-r", str(service.state / "extensions")], check=True)
    assert service.detach().changes
    assert service.left() == []


@pytest.mark.parametrize(
    "plugins",
    [{"allow": ["memory-core"]}, {"enabled": False, "entries": {"telegram": {"enabled": True}}}],
    ids=["allow list", "plugins off"],
)
def test_the_recorder_is_loaded_beside_the_users_plugin_settings(service: Service, plugins: dict[str, Any]) -> None:
    text = json.dumps({"gateway": {"mode": "local"}, "meta": {"lastTouchedVersion": "1"}, "plugins": plugins})
    service.file.write_text(text)
    service.attach()
    service.start()
    service.turn()
    service.runs.finalize("run_001")
    assert service.agent_runs("run_001") == ["standin-run-1"]
    assert service.detach().restored
    assert service.file.read_text() == text


def test_an_openclaw_that_knows_no_consent_is_attached_as_well(service: Service) -> None:
    service.environment["STANDIN_VERSION"] = "2026.6.1"
    assert service.attach().run_id == "run_001"
    assert (service.state / "extensions" / "critiqor" / "index.js").is_file()


def test_an_openclaw_that_refuses_to_halve_its_configuration_is_detached_in_two_steps(service: Service) -> None:
    service.environment["STANDIN_VERSION"] = "2026.6.1"
    text = '{"gateway": {"mode": "local"}, "plugins": {"enabled": false}, "meta": {"lastTouchedVersion": "1"}}'
    service.file.write_text(text)
    service.attach()
    assert service.file.stat().st_size > 512
    service.detach()
    assert {**service.settings(), "meta": None} == {**json.loads(text), "meta": None}
    assert list((service.state / "extensions").iterdir()) == []


def test_a_plugin_that_was_copied_before_openclaw_refused_is_removed_again(service: Service) -> None:
    service.environment |= {"STANDIN_VERSION": "2026.6.1", "STANDIN_REFUSES": "plugins install"}
    with pytest.raises(CritiqorError, match="immutable"):
        service.attach()
    assert service.file.read_text() == MINE
    assert service.left() == ["extensions", "openclaw.json"]
    assert list((service.state / "extensions").iterdir()) == []


def test_a_detach_that_openclaw_refuses_says_its_reason_and_can_be_typed_again(service: Service) -> None:
    service.attach()
    service.environment["STANDIN_REFUSES"] = "plugins uninstall"
    with pytest.raises(CritiqorError, match="immutable") as error:
        service.detach()
    assert error.value.fix == "openclaw doctor, then: critiqor detach openclaw"
    del service.environment["STANDIN_REFUSES"]
    service.detach()
    assert "plugins" not in service.settings()
    assert service.left() == ["extensions", "openclaw.json"]


@pytest.mark.parametrize("refused", ["plugins install", "config patch"])
def test_a_change_that_openclaw_refuses_is_said_with_its_reason_and_the_settings_to_add(
    service: Service, refused: str
) -> None:
    service.environment["STANDIN_REFUSES"] = refused
    with pytest.raises(CritiqorError) as error:
        service.attach()
    assert refused in error.value.message
    assert error.value.message.endswith("the configuration is immutable")
    assert '"allowConversationAccess":true' in str(error.value.fix)
    assert service.runs.status("run_001") == "ABORTED"
    assert load_active_session(service.runs.folder) is None
    assert any("to undo it: critiqor detach openclaw" in line for line in service.said) is (refused == "config patch")
    assert ("critiqor detach openclaw" in str(error.value.fix)) is (refused == "config patch")
    if refused == "plugins install":
        assert service.left() == ["openclaw.json"]
    del service.environment["STANDIN_REFUSES"]
    service.attach()
    assert service.detach().restored is (refused == "plugins install")
    assert "plugins" not in json.loads(service.file.read_text())


def test_settings_that_the_user_has_added_are_enough(service: Service) -> None:
    service.environment["STANDIN_REFUSES"] = "plugins install"
    with pytest.raises(CritiqorError) as error:
        service.attach()
    by_hand = json.loads(str(error.value.fix).split(": ", 1)[1])
    service.file.write_text(json.dumps(by_hand))
    result = service.attach()
    assert (result.run_id, result.changes) == ("run_002", [])
    service.start()
    service.turn()
    service.runs.finalize("run_002")
    assert service.agent_runs("run_002") == ["standin-run-1"]
    back = service.detach()
    assert (back.restored, back.rewritten) == (False, False)
    assert service.settings() == by_hand


def test_a_runs_folder_with_another_session_is_refused_before_anything_changes(service: Service) -> None:
    create_session(runs_dir=service.runs.folder)
    with pytest.raises(ActiveSessionError, match="run_001 is MONITORING"):
        service.attach()
    assert service.file.read_text() == MINE


SLOW = {"STANDIN_SLOW": "1500"}
"""Like OpenClaw, the stand-in does not start while another process of it changes its settings, which takes a while."""


def test_a_run_that_is_monitored_while_another_shell_attaches_is_not_disturbed(
    service: Service, tmp_path: Path
) -> None:
    other = Runs(tmp_path / "other")
    words = ("attach", "openclaw", "--openclaw-command", STANDIN, "--runs-dir", service.runs.folder)
    attaching = subprocess.Popen(
        critiqor_command(*words), env={**service.environment, **SLOW}, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: (service.state / "state-lifecycle").exists())
    command = ("monitor", "openclaw", "--openclaw-command", STANDIN, "--runs-dir", other.folder, "--", "agent")
    monitored = run_critiqor(*command, home=service.home)
    out, _ = attaching.communicate(timeout=PATIENCE_SECONDS)
    assert (monitored.returncode, attaching.returncode) == (0, 0), monitored.stderr
    assert "waiting until `critiqor attach`" in monitored.stderr
    assert "run_001 is being recorded" in out


def test_two_that_attach_at_once_change_the_settings_once_and_the_other_one_says_why_not(service: Service) -> None:
    words = ("attach", "openclaw", "--openclaw-command", STANDIN, "--runs-dir", service.runs.folder)
    pipe = subprocess.PIPE
    both = [
        subprocess.Popen(critiqor_command(*words), env={**service.environment, **SLOW}, stdout=pipe, stderr=pipe)
        for _ in range(2)
    ]
    ends = [(process, process.communicate(timeout=PATIENCE_SECONDS)[1].decode()) for process in both]
    assert sorted(process.returncode for process, _ in ends) == [0, 1]
    [said] = [said for process, said in ends if process.returncode]
    assert "nothing was changed" in said or "another run is active" in said
    assert "change: " not in said
    assert service.runs.status("run_001") == "MONITORING"
    assert service.detach().restored


def test_an_openclaw_that_is_monitored_is_not_attached_to_and_nothing_changes(service: Service, tmp_path: Path) -> None:
    other = Runs(tmp_path / "other")
    words = ("monitor", "openclaw", "--openclaw-command", STANDIN, "--runs-dir", other.folder)
    monitored = subprocess.Popen(
        critiqor_command(*words, "--", "agent", "--hang"),
        env=service.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: other.paths.journal_path("run_001").exists())
        with pytest.raises(ActiveSessionError, match="nothing was changed"):
            service.attach()
        assert (service.file.read_text(), service.left()) == (MINE, ["openclaw.json"])
        assert not service.runs.folder.exists()
        assert monitored.poll() is None
    finally:
        monitored.terminate()
        monitored.wait()
    assert service.attach().run_id == "run_001"


def test_one_openclaw_is_recorded_in_one_place_at_a_time(service: Service, tmp_path: Path) -> None:
    service.attach()
    with pytest.raises(ActiveSessionError, match="recorded as run_001") as error:
        service.attach(runs_dir=tmp_path / "elsewhere")
    assert error.value.fix == f"critiqor finalize run_001 --runs-dir {service.runs.folder}"
    service.runs.finalize("run_001")
    assert service.attach(runs_dir=tmp_path / "elsewhere").runs_dir == str(tmp_path / "elsewhere")


def test_a_profile_has_its_own_settings_and_is_named_in_every_command(service: Service, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fake = script(tmp_path / "openclaw", f'#!/bin/sh\necho "$*" >> {log}\ncat > /dev/null\n')
    work = service.home / ".openclaw-work" / "openclaw.json"
    work.parent.mkdir()
    work.write_text(MINE)
    result = service.attach(openclaw_command=str(fake), arguments=("--profile", "work"))
    assert result.configuration == str(work)
    service.detach(openclaw_command=str(fake), arguments=("--profile", "work"))
    commands = log.read_text().splitlines()
    assert [line.split()[:4] for line in commands] == [
        ["--profile", "work", "plugins", "install"],
        ["--profile", "work", "config", "patch"],
        ["--profile", "work", "plugins", "uninstall"],
    ]
    assert not (service.state / "critiqor").exists()


@pytest.mark.parametrize(
    ("arguments", "extra", "said"),
    [
        (("gateway", "run"), {}, "is not accepted here"),
        (("--container", "box"), {}, "container"),
        ((), {"OPENCLAW_CONTAINER": "box"}, "container"),
    ],
)
def test_an_openclaw_that_cannot_be_attached_is_refused(
    service: Service, arguments: tuple[str, ...], extra: dict[str, str], said: str
) -> None:
    service.environment |= extra
    with pytest.raises(UsageError, match=said):
        service.attach(arguments=arguments)


def test_an_openclaw_that_is_not_there_or_hangs_is_said(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OpenClawNotFoundError):
        service.attach(openclaw_command="no-such-openclaw")
    monkeypatch.setattr("critiqor.openclaw.command_runner.TIMEOUT_SECONDS", 0.2)
    hung = script(tmp_path / "hung", "#!/bin/sh\nexec sleep 30\n")
    with pytest.raises(CritiqorError, match="failed"):
        service.attach(openclaw_command=str(hung))
    assert service.file.read_text() == MINE


def test_the_commands_are_not_taken_for_a_monitored_run(service: Service, tmp_path: Path) -> None:
    service.environment |= {"CRITIQOR_RUN_ID": "run_009", "CRITIQOR_RUNS_DIR": str(tmp_path / "other")}
    log = tmp_path / "log"
    fake = script(tmp_path / "openclaw", f'#!/bin/sh\necho "[$CRITIQOR_RUN_ID]" >> {log}\ncat > /dev/null\n')
    service.attach(openclaw_command=str(fake))
    assert set(log.read_text().splitlines()) == {"[]"}


def test_the_verbs_say_what_they_did_and_what_to_type_next(
    service: Service, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(service.home)
    monkeypatch.setattr("critiqor.recording.attach.AttachOptions", partial(AttachOptions, timeout=0.0))

    def critiqor(*arguments: str) -> Answer:
        return cli(*arguments[:2], "--openclaw-command", STANDIN, *arguments[2:])

    dry = critiqor("attach", "openclaw", "--dry-run")
    assert dry.code == 0
    assert "Nothing was changed.\nNext: critiqor attach openclaw\n" in dry.out
    assert "critiqor: change: " in dry.err
    service.start()
    done = critiqor("attach", "openclaw", "--agent-id", "me", "--json").data
    assert (done["run_id"], done["recorder_seen"]) == ("run_001", False)
    runs = Runs(service.home / "runs")
    assert runs.record("run_001")["metadata"]["agent_id"] == "me"
    again = critiqor("attach", "openclaw")
    assert "run_001 is being recorded" in again.out
    assert "openclaw gateway restart" in again.out
    assert f"Next: critiqor finalize run_001 --runs-dir {runs.folder}" in again.out
    back = critiqor("detach", "openclaw")
    assert "The original file was restored byte for byte." in back.out
    assert f"Next: critiqor finalize run_001 --runs-dir {runs.folder}" in back.out
    assert "Nothing is attached" in critiqor("detach", "openclaw").out
    service.file.write_text('{"gateway": {"mode": "local"}}')
    runs.finalize("run_001")
    critiqor("attach", "openclaw")
    rewritten = critiqor("detach", "openclaw")
    assert "byte for byte" not in rewritten.out
    assert f"in OpenClaw's own format. The file as it was before attaching: {service.file}.bak" in rewritten.out
