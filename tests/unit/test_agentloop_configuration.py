"""The configuration of the loop: OpenClaw's file, located and read as OpenClaw does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agentloop import CONFIGURATION, configuration, defaults

from critiqor.agentloop.configuration import locate_loop_configuration, parse_configuration, read_loop_configuration
from critiqor.agentloop.context.workspace import workspace_path
from critiqor.agentloop.models.model_selection import resolve_model
from critiqor.agentloop.models.provider_secrets import resolve_api_key
from critiqor.agentloop.settings import Provider, SecretReference
from critiqor.errors import UsageError
from critiqor.openclaw import locate_configuration, write_overlay


def test_a_file_with_comments_and_trailing_commas_is_read(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(
        """{
          // mine
          models: {providers: {lab: {baseUrl: 'http://127.0.0.1:1/v1', timeoutSeconds: 7,
            models: [{id: 'm', contextWindow: 8000, maxTokens: 100, cost: {input: 1, output: 2, cacheRead: 0.1},}]}}},
          agents: {defaults: {model: 'lab/m', timeoutSeconds: 60, compaction: {reserveTokens: 30000}}},
          messages: {queue: {mode: 'collect', byChannel: {discord: 'followup'}}},
          diagnostics: {stuckSessionWarnMs: 1000},
        }"""
    )
    read = read_loop_configuration(path)
    resolved = resolve_model(read, read.choice.primary)
    assert resolved.reference == "lab/m"
    assert resolved.provider.timeout_seconds == 7
    assert (resolved.model.context_window, resolved.model.cost.cache_read) == (8000, 0.1)
    assert read.run_timeout_seconds == 60
    assert read.queue.mode_for("discord") == "followup"
    assert read.queue.mode_for("slack") == "collect"
    assert read.diagnostics.stuck_session_warn_ms == 1000
    assert read.diagnostics.stuck_session_abort_ms is None


def test_the_overlay_of_a_monitored_run_is_read_with_the_users_file_in_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".openclaw").mkdir(parents=True)
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(CONFIGURATION))
    environment = {"HOME": str(home)}
    overlay = write_overlay(tmp_path / "run", locate_configuration((), environment), environment)
    place = locate_loop_configuration(environment | overlay.environment)
    assert place.path == overlay.path
    assert place.state_folder == home / ".openclaw"
    assert read_loop_configuration(place.path).choice.primary == "lab/scripted"


def test_a_profile_on_the_command_line_selects_its_own_file(tmp_path: Path) -> None:
    place = locate_loop_configuration({"HOME": str(tmp_path)}, None, ("--profile", "work", "agent"))
    assert place.path == tmp_path / ".openclaw-work" / "openclaw.json"
    assert place.state_folder == tmp_path / ".openclaw-work"


def test_the_default_time_limit_of_a_run_is_48_hours() -> None:
    assert configuration().run_timeout_seconds == 172_800
    assert defaults(timeoutSeconds=0).run_timeout_seconds is None


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"agents": {"defaults": {"timeoutSeconds": "soon"}}}, "timeoutSeconds"),
        ({"agents": {"defaults": {"timeoutSeconds": -1}}}, "timeoutSeconds"),
        ({"messages": {"queue": {"mode": "shout"}}}, "queue.mode"),
        ({"models": {"providers": {"lab": {"models": [{"name": "nameless"}]}}}}, "models"),
        ({"models": {"providers": {"lab": {"models": [{"id": "m", "contextWindow": 0}]}}}}, "contextWindow"),
        ({"models": {"providers": {"lab": {"timeoutSeconds": 0}}}}, "timeoutSeconds"),
        ({"agents": {"defaults": {"maxConcurrent": 0}}}, "maxConcurrent"),
        ({"diagnostics": {"stuckSessionWarnMs": 0}}, "stuckSessionWarnMs"),
        ({"agents": []}, "agents"),
    ],
)
def test_an_invalid_value_is_reported_with_its_key(document: dict[str, Any], key: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_configuration(document, "openclaw.json")
    assert key in error.value.message
    assert "openclaw.json" in error.value.message


def test_unknown_keys_are_ignored() -> None:
    read = parse_configuration({**CONFIGURATION, "channels": {"telegram": {}}, "gateway": {"port": 1}})
    assert read.choice.primary == "lab/scripted"


def test_without_a_file_the_error_names_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_loop_configuration(tmp_path / "openclaw.json")
    assert "agents.defaults.model.primary" in str(error.value)


def test_a_model_is_found_by_its_id_alone_when_only_one_provider_has_it() -> None:
    assert resolve_model(configuration(), "other").reference == "lab/other"
    with pytest.raises(UsageError, match="lab/scripted"):
        resolve_model(configuration(), "unheard-of")


def test_a_model_that_is_not_configured_gets_the_defaults() -> None:
    assert resolve_model(configuration(), "lab/new:7b").model.id == "new:7b"


def test_a_key_comes_from_the_configuration_from_a_variable_or_from_the_name_of_the_provider() -> None:
    environment = {"MY_KEY": "from-env", "LAB_ONE_API_KEY": "by-name"}
    assert resolve_api_key(Provider(id="lab-one", api_key="plain"), environment) == "plain"
    assert resolve_api_key(Provider(id="lab-one", api_key="${MY_KEY}"), environment) == "from-env"
    assert resolve_api_key(Provider(id="lab-one", api_key="${NOT_SET}"), environment) is None
    assert resolve_api_key(Provider(id="lab-one", api_key=SecretReference("env", "MY_KEY")), environment) == "from-env"
    assert resolve_api_key(Provider(id="lab-one"), environment) == "by-name"
    assert resolve_api_key(Provider(id="other"), environment) is None


def test_each_agent_has_its_own_workspace(tmp_path: Path) -> None:
    read = configuration()
    assert workspace_path(read, "main", tmp_path / "state", tmp_path) == tmp_path / "state" / "workspace"
    assert workspace_path(read, "ops", tmp_path / "state", tmp_path) == tmp_path / "state" / "workspace-ops"
    chosen = defaults(workspace="~/mine")
    assert workspace_path(chosen, "main", tmp_path / "state", tmp_path) == tmp_path / "mine"


def test_the_reserve_of_a_small_window_is_never_more_than_half_of_it() -> None:
    compaction = configuration().defaults.compaction
    assert compaction.reserve(200_000) == 20_000
    assert compaction.reserve(8_000) == 4_000
