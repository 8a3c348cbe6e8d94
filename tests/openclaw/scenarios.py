"""The scenarios of the lab that are played on a real OpenClaw in every test run; `critiqor lab run` plays all."""

from __future__ import annotations

from critiqor.lab.scenario_file import select_scenarios, shipped_scenarios

NAMES = (
    "clean",
    "legitimate_polling",
    "failing_command_again",
    "alternating_reads",
    "false_claim_tests",
    "memory_finds_nothing",
    "http_500_recovered",
    "http_401",
    "unknown_tool",
    "killed_in_tool",
    "over_budget",
    "secret_in_output",
    # What an agent says against what its commands did.
    "deploy_refused",
    "rollout_refused",
    "suite_never_run",
    "failing_suite_in_german",
    "other_row_count",
    "check_that_still_fails",
    "definition_of_done",
)
SCENARIOS = tuple(select_scenarios(shipped_scenarios(), NAMES))
