"""Drawings of `show`, `runs`, `compare`, `explain` and `timeline` in a real terminal; pipes get plain text."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from diagnosed import diagnosis, finding, store
from story import Story
from support import PATIENCE_SECONDS, Runs, attached, environment, run_critiqor, start_python
from terminal import shown

from critiqor.diagnosis.diagnoser import RULE_SET_VERSION
from critiqor.errors import ExitCode
from critiqor.model import CausalStep
from critiqor.session import abort_session, append_event_to_run

NASTY = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp\u202c\u200f [bold red]x[/] 漢字👩\u200d👩\ufe0f e" + "\u0301" * 40
MEGABYTE = "A" * (1 << 20)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs: one clean, one with a tool loop, one with hostile text everywhere."""
    folder = tmp_path_factory.mktemp("home")
    runs = Runs(folder / "runs")
    clean = Story().starts().model().runs("ls").model(input=2000).says("Two files.").finishes()
    _record(runs, clean)
    circling = Story().starts()
    for number in range(6):
        circling.model(input=20_000 * (number + 1)).runs("grep -rn fence notes", "notes/plan.txt:1:paint the fence")
    circling.compacts().runs("make", "no rule", exit_code=2).model().says("Done.").finishes()
    _record(runs, circling)
    attack = Story(session=f"agent:{NASTY}", run=NASTY).starts()
    for _ in range(4):
        attack.model(model=NASTY).fails(f"tool{NASTY}", {"q": NASTY}, error=NASTY + MEGABYTE, output=NASTY)
    _record(runs, attack.says(NASTY).finishes(), agent_id=NASTY)
    step = CausalStep("evt_1", NASTY + MEGABYTE)
    texts = {"title": NASTY + MEGABYTE, "explanation": MEGABYTE, "recommendation": NASTY, "causal_chain": [step]}
    worst = finding(f"loop:{NASTY}", "critical", 60, id="finding_001", evidence=[NASTY], **texts)
    concluded = diagnosis("run_004", worst, trust=40)
    concluded.headline = NASTY + MEGABYTE
    store(runs, concluded, agent_id=NASTY)
    return folder


def _record(runs: Runs, story: Story, **metadata: str) -> None:
    run_id = runs.start(**metadata)
    runs.write(run_id, attached(at=1_794_000_000_000), *map(msgspec.to_builtins, story.events))
    runs.finalize(run_id)


VERBS = {
    "show": ("show", "run_003"),
    "show what was tampered with": ("show", "run_004"),
    "runs": ("runs",),
    "explain": ("explain", "run_003", "finding_001"),
    "timeline": ("timeline", "run_003"),
    "compare": ("compare", "run_001", "run_003"),
    "check": ("check", "run_004"),
    "verify": ("verify", "run_003"),
    "diagnose": ("diagnose", "run_003"),
    "trends": ("trends", "--agent", "openclaw_agent"),
    "lab list": ("lab", "list"),
    "diagnose a file": ("diagnose", "runs/run_003/session.json"),
}
CODES = {"check": ExitCode.GATE_FAILED}
"""Of verbs that do not say that all is well."""


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_nothing_but_styles_reaches_the_terminal_and_no_line_is_wider_than_it(
    home: Path, arguments: tuple[str, ...], columns: int
) -> None:
    drawn = shown(*arguments, home=home, columns=columns)
    assert drawn.code == CODES.get(arguments[0], ExitCode.OK)
    assert drawn.has_color
    assert drawn.unstyled.replace("\r\n", "").isprintable()
    assert max(drawn.widths) <= columns
    assert len(drawn.lines) < 1000, "a megabyte is not printed"


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_a_pipe_gets_the_same_plain_text_whatever_the_environment_says_of_colors(
    home: Path, arguments: tuple[str, ...]
) -> None:
    piped = [
        run_critiqor(*arguments, home=home, extra=extra)
        for extra in ({}, {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color", "COLUMNS": "30"})
    ]
    assert piped[0].stdout == piped[1].stdout
    assert (piped[0].returncode, piped[0].stderr) == (CODES.get(arguments[0], ExitCode.OK), "")
    assert "\x1b" not in piped[0].stdout and "█" not in piped[0].stdout


UNDRAWN = """
import sys
from critiqor.cli import main
sys.argv = ["critiqor", *sys.argv[1:]]
try:
    main()
finally:
    print("rich" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_plain_output_does_not_import_rich(home: Path, arguments: tuple[str, ...]) -> None:
    process = start_python(UNDRAWN, *arguments, cwd=home, stderr=subprocess.PIPE, env=environment(home))
    assert process.communicate(timeout=PATIENCE_SECONDS)[1] == "False\n"


def test_what_looks_like_markup_is_shown_as_it_is(home: Path) -> None:
    assert "[bold red]x[/]" in shown("show", "run_004", home=home).words


def test_a_dumb_terminal_gets_what_a_pipe_gets(home: Path) -> None:
    dumb = shown("show", "run_002", home=home, variables={"TERM": "dumb"})
    assert dumb.raw.replace("\r\n", "\n") == run_critiqor("show", "run_002", home=home).stdout


def test_show_starts_with_the_verdict_then_lists_lost_trust(home: Path) -> None:
    drawn = shown("show", "run_002", home=home)
    assert drawn.lines[0].startswith("run_002  COMPLETED · openclaw_agent · ")
    assert drawn.lines[2].startswith(("✗ UNSAFE  ", "! REVIEW  "))
    [trust] = [line for line in drawn.lines if line.startswith("trust ")]
    score = int(trust.split()[2])
    assert trust.split()[1].count("█") == round(16 * score / 100)
    lost = [line.split() for line in drawn.lines if line.startswith(" " * 12 + "-")]
    assert sum(int(words[0]) for words in lost) == score - 100
    assert "tool_loop" in {words[1] for words in lost}


def test_show_draws_the_growth_of_the_context_the_causal_chain_and_the_lanes(home: Path) -> None:
    drawn = shown("show", "run_002", home=home)
    [context] = [line for line in drawn.lines if line.startswith("context ")]
    assert context.split()[1] == "▂▃▄▆▇█▁"
    assert "20,000 → 1,000 tokens, at most 94% of 128,000, compacted 1x" in drawn.words
    chain = drawn.text.split("  how it happened\n")[1].splitlines()
    assert [line[:6] for line in chain[:2]] == ["  ├── ", "  └── "]
    lanes = {line[:11].strip(): line[11:64] for line in drawn.lines if line[:11].strip() in LANES and "█" in line}
    assert [*lanes] == ["agent runs", "model", "tools", "compaction"]
    assert lanes["agent runs"].strip() == "█" * 53
    assert set(lanes["tools"].split()[-1]) == {"✗"}
    assert drawn.lines[-1] == "Next: critiqor explain run_002 finding_001"


LANES = ("findings", "agent runs", "turns", "model", "tools", "memory", "retries", "compaction", "stalls")


def test_explain_draws_the_chain_as_a_tree_with_its_events(home: Path) -> None:
    drawn = shown("explain", "run_002", "tool_loop", home=home, columns=100)
    assert drawn.lines[0].startswith("MEDIUM  `grep -rn fence notes` called ")
    branches = [line for line in drawn.lines if line.startswith(("├── ", "└── "))]
    assert any("retried → Called again" in branch for branch in branches)
    assert any("tool_output exec ok" in line for line in drawn.lines if line.startswith("│   ├── "))
    assert "confidence  ██████████████░░  90 of 100" in drawn.lines


def test_timeline_draws_the_slowest_turn_in_its_parts_and_the_run_on_lanes(home: Path) -> None:
    drawn = shown("timeline", "run_002", home=home)
    assert drawn.lines[0].startswith("The agent run took ")
    assert len(drawn.lines[1]) == 80
    assert any(" in tools" in line for line in drawn.lines[2:4])
    assert any(line.startswith("tools ") and "✗" in line for line in drawn.lines)
    assert drawn.lines[-1] == "Next: critiqor show run_002"


def test_timeline_as_markdown_is_never_drawn(home: Path) -> None:
    marked = shown("timeline", "run_002", "--markdown", home=home)
    assert "\x1b" not in marked.raw
    assert marked.raw.startswith("## Timeline")


def test_several_timelines_are_drawn_as_tables(home: Path) -> None:
    drawn = shown("timeline", "run_001", "run_002", home=home, columns=100)
    assert drawn.code == ExitCode.OK
    assert "2 runs: run_001 run_002" in drawn.words


def test_runs_are_one_line_each_with_a_bar_for_trust(home: Path) -> None:
    drawn = shown("runs", home=home, columns=60)
    assert drawn.lines[0].startswith("4 runs   trust, oldest to newest █")
    rows = {line.split()[0]: line for line in drawn.lines if line.startswith("run_")}
    assert [*rows] == ["run_004", "run_003", "run_002", "run_001"]
    assert " ".join(rows["run_001"].split()).startswith("run_001 ████ 100 ready $0.0020 No failure foun")
    assert rows["run_004"].endswith("…")
    assert drawn.lines[2].split() == ["run", "trust", "verdict", "cost", "what", "happened"]


def test_runs_have_more_columns_where_there_is_room(home: Path) -> None:
    titles = {columns: shown("runs", home=home, columns=columns).lines[2].split() for columns in (40, 50, 100, 200)}
    assert titles[40] == ["run", "trust", "what", "happened"]
    assert titles[50] == ["run", "trust", "verdict", "what", "happened"]
    assert titles[100] == ["run", "trust", "verdict", "cost", "created", "what", "happened"]
    assert titles[200] == ["run", "trust", "verdict", "cost", "created", "agent", "what", "happened"]


def test_compare_says_first_whether_it_is_better(home: Path) -> None:
    drawn = shown("compare", "run_002", "run_001", home=home)
    assert drawn.lines[0].startswith("✓ better: ")
    assert "gone" in drawn.words
    assert drawn.lines[4] == "after       ████████████████  trust 100"
    worse = shown("compare", "run_001", "run_002", home=home)
    assert worse.lines[0].startswith("✗ worse: ")


def test_check_says_first_whether_it_passes_then_what_was_measured_and_which_findings_broke_it(home: Path) -> None:
    (home / "policy.toml").write_text("min_trust = 100\nmax_findings = 0\nmax_cost_usd = 0.001\n")
    drawn = shown("check", "run_002", "--policy", "policy.toml", home=home)
    assert drawn.code == ExitCode.GATE_FAILED
    assert drawn.lines[:2] == ["✗ FAILED  run_002 fails 3 of 6 rules", "policy: policy.toml"]
    rows = {line.split()[1]: line.split() for line in drawn.lines if line.startswith(("✓ ", "✗ "))}
    assert rows["require_finished"] == ["✓", "require_finished", "yes", "yes"]
    assert (
        rows["min_trust"][0] == "✗" and "█" in rows["min_trust"][2] and rows["min_trust"][-3:] == ["at", "least", "100"]
    )
    assert rows["max_cost_usd"][2:] == ["$0.0070", "at", "most", "$0.0010"]
    broke = drawn.text.split("Findings that broke a rule\n")[1]
    assert "`grep -rn fence notes` called" in broke and "tool_loop" in broke
    assert drawn.lines[-1] == "Next: critiqor explain run_002 finding_001"
    passed = shown("check", "run_001", home=home)
    assert (passed.code, passed.lines[0]) == (ExitCode.OK, "✓ PASSED  run_001 passes 6 of 6 rules")


def test_diagnose_says_what_changed_and_draws_the_run(home: Path) -> None:
    drawn = shown("diagnose", "run_002", home=home)
    rules = f"rule set {RULE_SET_VERSION}, unchanged"
    assert drawn.lines[0] == f"Nothing changed compared with the previous diagnosis ({rules})"
    assert drawn.lines[2:] == shown("show", "run_002", home=home).lines


def test_verify_says_first_whether_the_seal_holds(home: Path, tmp_path: Path) -> None:
    whole = shown("verify", "run_001", home=home)
    assert whole.lines[0] == "✓ INTACT  the evidence of run_001 is unchanged since it was sealed"
    changed = shutil.copytree(home, tmp_path / "home")
    with (changed / "runs" / "run_004" / "session.json").open("a") as evidence:
        evidence.write("\n")
    gone = shown("verify", "run_004", home=changed)
    assert (gone.code, gone.lines[0]) == (ExitCode.ERROR, "✗ BROKEN  the evidence of run_004 was changed after sealing")


def test_a_command_to_be_pasted_has_no_line_break_however_narrow_the_terminal_is(home: Path) -> None:
    drawn = shown("show", "run_002", home=home, columns=40)
    assert "Next: critiqor explain run_002 finding_001\r\n" in drawn.unstyled


@pytest.mark.parametrize(
    ("arguments", "extra"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})], ids=["flag", "variable"]
)
def test_colors_can_be_refused_and_the_drawing_stays(home: Path, arguments: list[str], extra: dict[str, str]) -> None:
    drawn = shown(*arguments, "show", "run_002", home=home, variables=extra)
    assert not drawn.has_color
    assert drawn.lines == shown("show", "run_002", home=home, variables={"NO_COLOR": ""}).lines


def test_a_terminal_that_cannot_show_these_characters_gets_plain_text(home: Path) -> None:
    drawn = shown("show", "run_002", home=home, variables={"PYTHONIOENCODING": "latin-1"})
    assert "\x1b" not in drawn.raw
    assert "  trust " in drawn.text


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "LANG": "C.UTF-8"}])
@pytest.mark.parametrize("verb", ["show", "check"])
def test_an_ascii_terminal_gets_the_ascii_fallback(home: Path, verb: str, locale: dict[str, str]) -> None:
    plain = shown(verb, "run_004", home=home, variables=locale)
    assert plain.code == CODES.get(verb, ExitCode.OK)
    assert plain.raw.isascii() and plain.raw.replace("\r\n", "").isprintable()
    readable = shown("show", "run_002", home=home, variables=locale)
    assert "           -> Tell the agent what to do" in readable.raw


def test_an_ascii_pipe_gets_the_ascii_fallback(home: Path) -> None:
    result = run_critiqor("show", "run_004", home=home, extra={"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stderr) == (ExitCode.OK, "")
    assert result.stdout.isascii() and "... " in result.stdout


def test_json_is_never_drawn(home: Path) -> None:
    result = shown("show", "run_002", "--json", home=home)
    assert result.raw.replace("\r\n", "\n") == run_critiqor("show", "run_002", "--json", home=home).stdout


def test_runs_that_are_not_sealed_are_drawn_with_what_to_type_next(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    assert shown("runs", home=tmp_path, columns=200).lines[-1] == "Next: critiqor monitor openclaw"
    run_id = runs.start()
    assert shown("show", run_id, home=tmp_path).lines[-1] == f"Next: critiqor finalize {run_id}"
    abort_session(run_id, runs_dir=runs.folder)
    assert shown("show", run_id, home=tmp_path).lines[-1] == f"Next: critiqor diagnose {run_id}"
    runs.paths.run_path("run_099").write_text("{")
    drawn = shown("runs", home=tmp_path)
    assert drawn.lines[3].startswith("run_099  unreadable")
    assert drawn.lines[4].startswith(f"{run_id}  aborted")


def test_a_run_whose_evidence_is_gone_is_still_drawn(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    _record(runs, Story().starts().model().runs("ls").finishes())
    runs.paths.evidence_summary_path("run_001").unlink()
    drawn = shown("show", "run_001", home=tmp_path)
    assert drawn.code == ExitCode.OK
    assert "session.json is gone" in drawn.text


def test_finalize_draws_what_show_draws(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    run_id = runs.start()
    runs.write(run_id, attached(), *map(msgspec.to_builtins, Story().starts().model().runs("ls").finishes().events))
    finalized = shown("finalize", "--no-dashboard", home=tmp_path)
    assert finalized.lines == shown("show", run_id, home=tmp_path).lines


def test_explain_without_a_finding_takes_the_main_one_and_numbers_are_ids(home: Path) -> None:
    main = run_critiqor("explain", "run_002", home=home)
    assert main.returncode == ExitCode.OK
    assert main.stdout == run_critiqor("explain", "run_002", "finding_001", home=home).stdout
    assert main.stdout == run_critiqor("explain", "run_002", "1", home=home).stdout
    assert "Trust:   -" in main.stdout and "Wasted:  " in main.stdout
    nothing = run_critiqor("explain", "run_001", home=home)
    assert (nothing.returncode, nothing.stderr) == (
        ExitCode.USAGE,
        "critiqor: run_001 has no findings\n  → critiqor show run_001\n",
    )


def test_a_run_whose_agent_did_not_complete_does_not_look_completed(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    run_id = runs.start()
    runs.write(run_id, attached())
    append_event_to_run(
        run_id, {"event_type": "error_event", "error": "x", "payload": {"reason": "timeout"}}, runs_dir=runs.folder
    )
    runs.finalize(run_id)
    assert f"{run_id}  COMPLETED (outcome: timed out)" in run_critiqor("show", run_id, home=tmp_path).stdout
    assert shown("show", run_id, home=tmp_path).lines[0].startswith(f"{run_id}  COMPLETED (outcome: timed out) · ")


def test_a_run_whose_recorder_is_gone_is_shown_as_ended(tmp_path: Path) -> None:
    Runs(tmp_path / "runs")
    code = "from critiqor.session import create_session; create_session(runs_dir='runs')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert "run_001  MONITORING (ended, not finalized)" in run_critiqor("show", "run_001", home=tmp_path).stdout
    assert "ended, not finalized" in shown("runs", home=tmp_path).text


def test_an_agent_without_monitor_gets_a_hint_on_a_terminal(tmp_path: Path) -> None:
    result = shown("agent", "--message", "hi", home=tmp_path, columns=200)
    assert "this message is not recorded; to record: critiqor monitor openclaw" in result.words
    assert "recorded" not in run_critiqor("agent", "--message", "hi", home=tmp_path).stderr


def test_a_missing_script_is_an_error_that_names_lab_list(tmp_path: Path) -> None:
    result = run_critiqor("lab", "model", "nope.toml", home=tmp_path)
    assert result.stderr.startswith("critiqor: there is no file nope.toml\n  → critiqor lab list")


def test_visibility_wraps_between_words(home: Path) -> None:
    result = shown("visibility", "run_003", home=home, columns=40)
    assert max(result.widths) <= 40
    assert len(result.lines) > 1
    assert result.words == " ".join(run_critiqor("visibility", "run_003", home=home).stdout.split())
