"""Record the runs for the browser tests with the product itself.

    python tests/browser/stage.py FOLDER        prints the run ids as JSON

It then waits. A line on standard input records another agent, which waits for a file; the end of the input ends it.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from conversations import HELPER, MAIN, OTHER, misreporting_run  # noqa: E402
from dashboards import failing_tests  # noqa: E402
from diagnosed import store  # noqa: E402
from fleet_entries import DAY_MS, entry, finding  # noqa: E402
from fleet_runs import StoredFleet  # noqa: E402
from hostile import CONTROLS, MARK, MARKUP, hostile_run  # noqa: E402
from large import large_diagnosis  # noqa: E402
from support import Runs, run_critiqor, wait_until  # noqa: E402

from critiqor.lab.model.model_script import ToolUse  # noqa: E402
from critiqor.lab.runners.openclaw_home import workspace_of  # noqa: E402
from critiqor.lab.runners.runner import Runner  # noqa: E402
from critiqor.lab.scenario import Expectation, ModelStep, Scenario, Turn  # noqa: E402
from critiqor.lab.scenario_file import select_scenarios, shipped_scenarios  # noqa: E402
from critiqor.live.recording import LiveRecording  # noqa: E402
from critiqor.model.diagnosis import READINESSES  # noqa: E402
from critiqor.model.timestamps import now_ms  # noqa: E402
from critiqor.run.store import Run  # noqa: E402
from critiqor.session import abort_session  # noqa: E402

PLAYED = {
    "clean": "clean",
    "circles": "same_search_again",
    "claim": "false_claim_tests",
    "forgetful": "forgotten_after_compaction",
    "stalled": "event_loop_stall",
}
"""The scenario of each run."""
TRANSCRIPT = HERE.parent / "unit" / "fixtures" / "openclaw-2026.9.6.jsonl"


def make_demo(folder: Path) -> dict[str, str]:
    """Runs of agents that follow a script, by what they are for."""
    runner, made = Runner("embedded"), dict[str, str]()
    for name, scenario in PLAYED.items():
        [play] = select_scenarios(shipped_scenarios(), (scenario,))
        made[name] = runner.play(play, folder / name, folder / "runs").run_id
    return made


def make_runs(folder: Path) -> dict[str, str]:
    """Runs by what they are for, one of every kind."""
    runs, made = Runs(folder / "runs"), make_demo(folder)
    imported = run_critiqor("import", TRANSCRIPT, "--runs-dir", runs.folder, "--json", home=folder)
    made["imported"] = json.loads(imported.stdout)["data"]["runs"][0]["run_id"]
    made["shared"] = failing_tests(runs, visibility="shared")
    made["misreporting"] = misreporting_run(runs)
    made["anonymous"] = failing_tests(runs, visibility="anonymous")
    made["hostile"] = hostile_run(runs, visibility="shared")
    made["large"] = store(runs, large_diagnosis("run_900"), day=20_000)
    made["empty"] = runs.start()
    runs.finalize(made["empty"])
    made["aborted"] = runs.start()
    abort_session(made["aborted"], runs_dir=runs.folder)
    made["broken"] = failing_tests(runs)
    runs.paths.evidence_summary_path(made["broken"]).write_bytes(b'{"events":[\n{"event_id":7')
    return made


def make_fleet(folder: Path, made: dict[str, str]) -> dict[str, str]:
    """A store with some of the runs, and an index with more of them. Its addresses, and the host of a structure."""
    fleet, now = StoredFleet(folder), now_ms()
    fleet.push(folder / "runs", made["claim"], made["misreporting"], host="build-7")
    other = Runs(folder / "other")
    hostile = "".join((*MARKUP.values(), *CONTROLS.values()))
    fleet.push(other.folder, failing_tests(other, hostile, agent_id=hostile), host="desk")
    [structure] = fleet.push(folder / "runs", made["shared"], content="structure")
    for number in range(120):
        made_entry = entry(
            f"build-{number % 30}",
            f"run_{number:03}",
            *([finding(f"kind_{number % 5}")] if number % 3 == 0 else []),
            verdict=READINESSES[number % 4],
            trust=number % 101,
            model=f"model-{number % 4}",
            openclaw=f"2026.{9 + number % 3}.1",
            agent_id=f"agent-{number % 6}",
            created_ms=now - number * DAY_MS // 5,
        )
        fleet.add(made_entry)
    for number, text in enumerate((*MARKUP.values(), *CONTROLS.values())):
        fleet.add(entry(text, f"run_{number}{text}", finding(text[:300]), agent_id=text, created_ms=now, request=text))
    tenants = {"structure_tenant": structure.metadata.tenant_id, "structure_host": structure.host_id}
    return {"store": fleet.store_url, "index": fleet.index_url, **tenants}


def record_another(folder: Path, number: int) -> tuple[threading.Thread, dict[str, str]]:
    """An agent that is being recorded, and that goes on when there is a file."""
    runs = Runs(folder / "runs")
    place = folder / f"live_{number}"
    gate = workspace_of(place / "home") / "gate"
    wait = "until [ -e gate ]; do sleep 0.05; done; echo the gate is open"
    call = ToolUse(name="exec", arguments={"command": wait})
    steps = (ModelStep(tools=(call,)), ModelStep(text="I went through."))
    turn = Turn(message="Go through the gate.", steps=steps)
    scenario = Scenario(name="gate", description="It waits at a gate.", turns=(turn,), expect=Expectation())
    known = set(runs.folder.iterdir())
    play = threading.Thread(target=Runner("embedded").play, args=(scenario, place, runs.folder))
    play.start()

    def waiting() -> list[Path]:
        new = [path for path in runs.folder.glob("run_*/journal.jsonl") if path.parent not in known]
        return [path for path in new if b'"event_type":"tool_call"' in path.read_bytes()]

    wait_until(waiting)
    run_id = waiting()[0].parent.name
    live = LiveRecording(Run.load(run_id, runs.folder))
    for second in (0.0, 5.0):
        live.read(second)
        live.publish(second)
    return play, {"run": run_id, "gate": str(gate)}


def main(folder: Path) -> None:
    made = make_runs(folder)
    fleet = make_fleet(folder, made)
    hostile = [f"agent:{text}"[:300] for text in (MARKUP["script_end"], MARKUP["attribute"], CONTROLS["override"])]
    sessions = {"sessions": [MAIN, HELPER, OTHER], "hostile_sessions": hostile}
    texts = {"mark": MARK, "markup": MARKUP, "controls": CONTROLS}
    print(json.dumps({"runs": made, "fleet": fleet, **texts, **sessions}), flush=True)
    playing: list[tuple[threading.Thread, dict[str, str]]] = []
    for _ in sys.stdin:
        playing.append(record_another(folder, len(playing)))
        print(json.dumps(playing[-1][1]), flush=True)
    for play, live in playing:
        Path(live["gate"]).touch()
        play.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
