"""Seals are signed with the user's key, and `verify` and `check` say who signed and what they could check."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest
from story import START, Story
from support import Cli, Runs, attached

from critiqor.cli.root_command import VERBS
from critiqor.errors import ExitCode
from critiqor.model.verdict import Check
from critiqor.run.store import Run
from critiqor.session import diagnose_run
from critiqor.storage.paths import user_folder
from critiqor.storage.run_record import rewrite_diagnosis
from critiqor.storage.seals import signing_key
from critiqor.storage.seals.diagnosis_seal import write_diagnosis
from critiqor.storage.seals.signing_key import Signed, key_path, trusted_signers_path

RUN = "run_001"


@pytest.fixture(autouse=True)
def home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def key(cli: Cli) -> str:
    """The fingerprint of a new key of the user."""
    fingerprint: str = cli("keys", "init", "--name", "ana@example.com", "--json").data["fingerprint"]
    return fingerprint


def record(runs: Runs) -> None:
    """Record and seal a run with a false claim."""
    story = Story(start=START).starts().model().runs("pytest -q", "1 failed", exit_code=1)
    story.says("All tests pass.").finishes()
    runs.seal(attached(at=START - 1), *map(msgspec.to_builtins, story.events))


def checks(runs: Runs, *, rediagnose: bool = False) -> dict[str, Check]:
    return {check.name: check for check in Run.load(RUN, runs.folder).verify(rediagnose=rediagnose).checks}


def states(runs: Runs) -> tuple[str, str]:
    found = checks(runs)
    return found["evidence_signature"].state, found["diagnosis_signature"].state


def forge(runs: Runs, monkeypatch: pytest.MonkeyPatch, **members: object) -> None:
    """Change the diagnosis, its seal and its copies, as somebody does who has everything but the key."""
    run = Run.load(RUN, runs.folder)
    forged = msgspec.structs.replace(run.diagnosis, **members)
    with monkeypatch.context() as patched:
        patched.setattr(signing_key, "sign", lambda message: Signed())
        write_diagnosis(run.diagnosis_path, forged)
    rewrite_diagnosis(run.paths, run.id, forged)


def test_without_a_key_everything_works_and_verify_says_that_nothing_is_signed(runs: Runs, cli: Cli) -> None:
    record(runs)
    answer = cli("verify", RUN)
    assert answer.code == ExitCode.OK
    assert "--  evidence_signature: the evidence is not signed" in answer.out
    assert checks(runs)["evidence_signature"].fix == "critiqor keys init"
    assert cli("keys", "show", "--json").error["fix"] == "critiqor keys init"
    assert not user_folder().exists()


def test_a_key_is_only_for_the_user_and_never_replaced(cli: Cli, key: str) -> None:
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
    before = key_path().read_bytes()
    again = cli("keys", "init", "--json")
    assert (again.code, key_path().read_bytes()) == (ExitCode.USAGE, before)
    assert again.error["fix"].startswith("critiqor keys show")
    shown = cli("keys", "show", "--json").data
    assert (shown["name"], shown["fingerprint"], shown["signers"]) == ("ana@example.com", key, ["ana@example.com"])
    assert shown["trusted_line"] + "\n" == trusted_signers_path().read_text()


@pytest.mark.parametrize("name", ["two words", 'a"b', "a,b", "*", "#x"])
def test_a_name_that_the_file_of_signers_cannot_contain_is_refused(cli: Cli, name: str) -> None:
    answer = cli("keys", "init", "--name", name, "--json")
    assert (answer.code, answer.error["fix"]) == (ExitCode.USAGE, "critiqor keys init --name you@example.com")
    assert not key_path().exists()


def test_a_sealed_run_is_signed_and_verify_names_the_signer(runs: Runs, cli: Cli, key: str) -> None:
    record(runs)
    assert "keys" in VERBS
    answer = cli("verify", RUN)
    assert answer.code == ExitCode.OK
    for name in ("evidence and record", "diagnosis"):
        assert f"{name}: signed by ana@example.com ({key})" in answer.out
    data = cli("verify", RUN, "--json").data
    assert {check["signer"] for check in data["checks"]} == {None, "ana@example.com"}
    assert {check["state"] for check in data["checks"]} == {"passed"}


def test_a_new_diagnosis_is_signed_and_the_signature_of_the_evidence_stays(runs: Runs, key: str) -> None:
    record(runs)
    before = runs.record(RUN)["seal"]
    diagnose_run(RUN, runs.folder)
    assert key and states(runs) == ("passed", "passed")
    assert runs.record(RUN)["seal"] == before


def test_an_aborted_run_is_signed_when_it_is_diagnosed(runs: Runs, cli: Cli, key: str) -> None:
    run_id = runs.start()
    runs.write(run_id, attached())
    cli("abort", run_id)
    diagnose_run(run_id, runs.folder)
    assert key and states(runs) == ("passed", "passed")


def test_a_change_of_the_visibility_keeps_the_signatures_valid(runs: Runs, cli: Cli, key: str) -> None:
    record(runs)
    cli("visibility", RUN, "public")
    assert key and states(runs) == ("passed", "passed")


def test_a_forged_diagnosis_has_no_valid_signature_even_if_its_digest_is_right(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    record(runs)
    path = runs.paths.diagnosis_path(RUN)
    signature = re.findall(r'"signature": (".*?")', path.read_text())[-1]
    forge(runs, monkeypatch, trust_score=100)
    assert (checks(runs)["diagnosis"].state, *states(runs)) == ("passed", "passed", "not checked")
    path.write_text(path.read_text().replace('"\n  }\n}\n', f'",\n    "signature": {signature}\n  }}\n}}\n'))
    assert key and (checks(runs)["diagnosis"].state, *states(runs)) == ("passed", "passed", "failed")


def test_a_changed_record_with_a_new_digest_has_no_valid_signature(runs: Runs, key: str) -> None:
    record(runs)
    path = runs.paths.run_path(RUN)
    path.write_bytes(path.read_bytes().replace(b'"agent_id":"openclaw_agent"', b'"agent_id":"another_agent"', 1))
    from critiqor.storage.seals.record_digest import record_digest

    digests = runs.record(RUN)["seal"]["record"], record_digest(Run.load(RUN, runs.folder).head())
    path.write_text(path.read_text().replace(*digests))
    found = checks(runs)
    assert key and (found["record"].state, found["evidence_signature"].state) == ("passed", "failed")


def test_a_signer_who_is_not_trusted_fails_where_somebody_else_is_trusted(runs: Runs, cli: Cli, key: str) -> None:
    record(runs)
    line = trusted_signers_path().read_text()
    trusted_signers_path().write_text(line.replace("AAAAC3NzaC1lZDI1NTE5AAAAI", "AAAAC3NzaC1lZDI1NTE5AAAAJ"))
    answer = cli("verify", RUN)
    assert answer.code == ExitCode.ERROR
    assert f"signed with a key that is not trusted: {key}" in answer.out
    assert f"add the line that it prints to {trusted_signers_path()}" in answer.out
    trusted_signers_path().unlink()
    assert states(runs) == ("not checked", "not checked")
    assert cli("verify", RUN).code == ExitCode.OK
    trusted_signers_path().write_text(line)
    assert states(runs) == ("passed", "passed")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('namespaces="critiqor",valid-before="20200101"', "was not valid when it signed"),
        ('namespaces="git"', "does not accept the key"),
    ],
)
def test_a_key_that_is_trusted_for_another_time_or_purpose_fails(
    runs: Runs, cli: Cli, key: str, option: str, said: str
) -> None:
    record(runs)
    path = trusted_signers_path()
    path.write_text(path.read_text().replace('namespaces="critiqor"', option))
    answer = cli("verify", RUN)
    assert key and answer.code == ExitCode.ERROR
    assert said in answer.out and str(path) in answer.out


@pytest.mark.parametrize(
    "signature", ["", "nonsense", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"]
)
def test_a_damaged_signature_fails(runs: Runs, key: str, signature: str) -> None:
    record(runs)
    stored = runs.record(RUN)["seal"]["signature"]
    path = runs.paths.run_path(RUN)
    old, new = (msgspec.json.encode(text).decode() for text in (stored, signature))
    path.write_text(path.read_text().replace(old, new))
    assert key and states(runs) == ("failed", "passed")


def test_without_ssh_keygen_a_run_is_sealed_and_the_reason_is_kept(
    runs: Runs, cli: Cli, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record(runs)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = cli("verify", RUN)
    assert (answer.code, states(runs)) == (ExitCode.OK, ("not checked", "not checked"))
    assert "the signature was not checked: ssh-keygen is not installed" in answer.out
    diagnosed = cli("diagnose", RUN)
    assert diagnosed.code == ExitCode.OK
    assert f"{RUN} is sealed but not signed: ssh-keygen is not installed" in diagnosed.err
    assert key and "the diagnosis is not signed: ssh-keygen is not installed" in cli("verify", RUN).out
    assert cli("keys", "show", "--json").error["fix"].startswith("install OpenSSH")


@pytest.mark.parametrize("harm", ["others can read it", "not a key", "passphrase"])
def test_a_key_that_cannot_be_used_leaves_a_sealed_run_and_a_warning(runs: Runs, cli: Cli, key: str, harm: str) -> None:
    if harm == "others can read it":
        key_path().chmod(0o644)
        said = f"other users can read it; chmod 600 {key_path()}"
    elif harm == "not a key":
        key_path().write_text("nonsense")
        said = f"{key_path()} cannot be used: "
    else:
        program = shutil.which("ssh-keygen")
        assert program is not None
        subprocess.run([program, "-q", "-p", "-N", "secret", "-f", key_path()], check=True, capture_output=True)
        said = f"it has a passphrase; remove it with ssh-keygen -p -f {key_path()}"
    run_id = runs.start()
    runs.write(run_id, attached())
    answer = cli("finalize", run_id, "--no-dashboard")
    assert key and answer.code == ExitCode.OK
    assert f"{run_id} is sealed but not signed" in answer.err and said in answer.err
    assert cli("verify", run_id).code == ExitCode.OK
    assert said in str(runs.record(run_id)["seal"]["unsigned"])


def test_the_diagnosis_made_once_more_finds_a_forged_one_without_a_key(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(runs)
    assert checks(runs, rediagnose=True)["rediagnosis"].state == "passed"
    truth = Run.load(RUN, runs.folder).diagnosis
    none = msgspec.structs.replace(truth.failure_analysis, findings=[])
    forge(runs, monkeypatch, trust_score=100, readiness="ready", failure_analysis=none)
    assert cli("check", RUN).code == ExitCode.OK, "digests alone do not protect from somebody who computes them again"
    answer = cli("check", RUN, "--rediagnose", "--json")
    assert answer.code == ExitCode.GATE_FAILED
    rules = {rule["rule"]: rule for rule in answer.data["rules"]}
    assert "not what the sealed evidence leads to: trust_score differs" in rules["require_intact"]["explanation"]
    for github in ((), ("--github",)):
        assert cli("check", RUN, "--rediagnose", *github).code == ExitCode.GATE_FAILED
    verified = cli("verify", RUN)
    assert verified.code == ExitCode.ERROR and "NO  rediagnosis: " in verified.out
    cli("diagnose", RUN)
    assert cli("verify", RUN).code == ExitCode.OK


@pytest.mark.parametrize("visibility", ["private", "anonymous"])
def test_a_diagnosis_of_other_rules_cannot_be_compared_and_fails_the_gate_that_asks_for_it(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, visibility: str
) -> None:
    record(runs)
    cli("visibility", RUN, visibility)
    forge(runs, monkeypatch, rule_set_version="0", trust_score=100)
    verified = cli("verify", RUN)
    assert (verified.code, "--  rediagnosis: diagnosis.json was made by rule set 0" in verified.out) == (
        ExitCode.OK,
        True,
    )
    for arguments in ((), ("--github",)):
        answer = cli("check", RUN, "--rediagnose", *arguments)
        assert "NO  require_intact: the diagnosis was not compared with a new one" in answer.out
    assert "ok  require_intact" in cli("check", RUN).out


def test_the_gate_says_what_was_checked_and_can_require_a_signature(
    runs: Runs, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(runs)
    policy = tmp_path / "policy.toml"
    policy.write_text("require_signed = true\n")
    unsigned = cli("check", RUN, "--policy", policy)
    assert "NO  require_signed: the evidence is not signed; the diagnosis is not signed" in unsigned.out
    last = "checked: evidence, record, diagnosis; not checked: evidence_signature, diagnosis_signature, rediagnosis"
    assert last in unsigned.out
    cli("keys", "init", "--name", "ana")
    run_id = runs.start()
    runs.write(run_id, attached())
    runs.finalize(run_id)
    signed = cli("check", run_id, "--policy", policy, "--json").data
    rules = {rule["rule"]: rule for rule in signed["rules"]}
    assert rules["require_signed"]["passed"]
    assert {check["signer"] for check in signed["checks"]} == {None, "ana"}
    junit = cli("export", run_id, "--format", "junit", "--policy", policy, "-o", "-").out
    assert 'name="require_signed"' in junit and "signatures were not checked" not in junit


def test_an_anonymous_run_does_not_name_its_signer(
    runs: Runs, cli: Cli, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(runs)
    cli("visibility", RUN, "anonymous")
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    shown = [cli("check", RUN, "--github", "--json").out, cli("report", RUN, "--json").out]
    shown += [cli("export", RUN, "--format", name, "-o", "-").out for name in ("junit", "sarif")]
    assert [text for text in shown if "ana@" in text or key in text or "SSH SIGNATURE" in text] == []
