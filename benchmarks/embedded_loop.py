"""Cost of the embedded agent loop: a thousand sessions at once, and the time of a turn without its model.

    python benchmarks/embedded_loop.py [--json]

The model is a function in the same process that requests one tool and then answers, so that only the loop is measured.
The crowd is 1,000 sessions with five turns each, all sent at once: every run must end, every session must be answered
in order, and no transcript may contain text of another session. Memory is the peak of separate processes: with 200
sessions, with 1,000, and after three crowds of 1,000, because a run that has ended must release its memory. Turns are
timed one at a time, alternately with and without recorder and timeline; the figures are medians.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from critiqor.agentloop.configuration import parse_configuration
from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.models.model_client import Delta, Finished, ModelRequest, TextDelta, ToolCallDelta, UsageDelta
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import attach_recorder
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.sessions.messages import Text, UserMessage
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome
from critiqor.session import create_session

FEW, MANY, TURNS = 200, 1_000, 5
TIMED_TURNS, WARM_TURNS = 300, 30
SETTINGS = {
    "models": {"providers": {"lab": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "scripted"}]}}},
    "agents": {"defaults": {"model": {"primary": "lab/scripted"}, "maxConcurrent": 64}},
}


class Answer:
    """One response: a tool call for a user's message, text for a tool result."""

    request_bytes = 2_000
    response_bytes = 800

    def __init__(self, request: ModelRequest) -> None:
        question = next(message for message in reversed(request.messages) if isinstance(message, UserMessage))
        self._text = question.content[0].text if isinstance(question.content[0], Text) else ""
        self._calls_tool = question is request.messages[-1]

    async def __aiter__(self) -> AsyncIterator[Delta]:
        yield TextDelta(f"{self._text}: ")
        yield TextDelta("I look." if self._calls_tool else "it is done.")
        if self._calls_tool:
            yield ToolCallDelta(0, "call_1", "echo", json.dumps({"text": self._text}))
        yield UsageDelta(1_000, 20)
        yield Finished("tool_calls" if self._calls_tool else "stop")


class Model:
    """A model client without a network."""

    def ask(self, request: ModelRequest) -> Answer:
        return Answer(request)


class Echo:
    """A tool that takes no time."""

    name = "echo"
    description = "Give a text back."

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return ToolOutcome(content=[Text(arguments["text"])])


def runtime(folder: Path, **parts: Any) -> AgentRuntime:
    return AgentRuntime(
        parse_configuration(SETTINGS),
        state_folder=folder,
        home=folder,
        environment={"PATH": "/usr/bin:/bin"},
        clients=lambda provider, key: Model(),
        tools=[Echo()],
        **parts,
    )


async def crowd(folder: Path, sessions: int, *, patient: bool = False) -> dict[str, Any]:
    """Run all sessions at once and count errors. Patient sessions send a turn after the previous one is answered."""
    loop = runtime(folder)
    order: dict[str, list[str]] = defaultdict(list)

    def on_event(event: AgentEvent) -> None:
        if event.stream == "lifecycle" and event.data["phase"] in ("start", "end", "error"):
            order[event.session_key].append(f"{event.run_id} {event.data['phase']}")

    loop.streams.listen(on_event)
    began = time.perf_counter()

    async def session(number: int) -> tuple[list[str], int]:
        ids: list[str] = []
        for turn in range(TURNS):
            params = AgentParams(message=f"s{number} t{turn}", session_key=f"s{number}")
            ids.append((await loop.agent(params)).run_id)
            if patient:
                await loop.wait(ids[-1], 600)
        results = await asyncio.gather(*(loop.outcome(run_id) for run_id in ids[-1 if patient else 0 :]))
        return ids, sum(result.status == "ok" for result in results)

    done = await asyncio.gather(*(session(number) for number in range(sessions)))
    seconds = time.perf_counter() - began
    await loop.close()
    out_of_order = mixed = 0
    for number, (ids, _) in enumerate(done):
        expected = [f"{run_id} {phase}" for run_id in ids for phase in ("start", "end")]
        out_of_order += order[f"agent:main:s{number}"] != expected
        mixed += not is_clean(loop, number)
    return {
        "runs": sessions * TURNS,
        "ended": sum(ended for _, ended in done),
        "sessions_out_of_order": out_of_order,
        "transcripts_mixed": mixed,
        "seconds": seconds,
    }


def is_clean(loop: AgentRuntime, number: int) -> bool:
    """Return whether a transcript contains exactly its own turns, in order."""
    found = loop.services.sessions.find("main", f"agent:main:s{number}")
    if found is None:
        return False
    texts = []
    for line in found.transcript.read_bytes().splitlines():
        entry = msgspec.json.decode(line)
        if entry["type"] == "message":
            texts.append(entry["message"]["content"][0]["text"].partition(":")[0])
    return texts == [f"s{number} t{turn}" for turn in range(TURNS) for _ in range(4)]


async def turn_times(folder: Path) -> dict[str, float]:
    """Return the median milliseconds of a turn, bare and with recorder and timeline; wall time and CPU time."""
    record = create_session(runs_dir=folder / "runs")
    bare = runtime(folder / "bare")
    diagnostics = Diagnostics(folder / "timeline.jsonl", run_id="bench", event_loop=True)
    hooks, updates = PluginHooks(), TranscriptUpdates()
    recorded = {"CRITIQOR_RUN_ID": record["run_id"], "CRITIQOR_RUNS_DIR": str(folder / "runs")}
    recorder = attach_recorder(hooks, updates, recorded)
    watched = runtime(folder / "watched", hooks=hooks, updates=updates, diagnostics=diagnostics, recorder=recorder)
    times: dict[str, list[float]] = {"bare_ms": [], "recorded_ms": [], "bare_cpu_ms": [], "recorded_cpu_ms": []}
    for turn in range(WARM_TURNS + TIMED_TURNS):
        for loop, name in ((bare, "bare"), (watched, "recorded")):
            params = AgentParams(message=f"turn {turn}", session_key=f"s{turn // TURNS}")
            began, began_cpu = time.perf_counter(), time.process_time()
            accepted = await loop.agent(params)
            await loop.outcome(accepted.run_id)
            if turn >= WARM_TURNS:
                times[f"{name}_ms"].append((time.perf_counter() - began) * 1000)
                times[f"{name}_cpu_ms"].append((time.process_time() - began_cpu) * 1000)
    for loop in (bare, watched):
        await loop.close()
    diagnostics.close()
    recorder.close()
    return {name: statistics.median(taken) for name, taken in times.items()}


# VmHWM is the peak since exec. The peak of a child in getrusage would include its parent's.
PEAK = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from embedded_loop import crowd
for number, sessions in enumerate(sys.argv[4:]):
    folder = Path(sys.argv[2]) / str(number)
    print(json.dumps(asyncio.run(crowd(folder, int(sessions), patient=sys.argv[3] == "patient"))))
    print(open("/proc/self/status").read())
"""


def crowds(*sessions: int, patient: bool = False) -> list[tuple[dict[str, Any], float]]:
    """Run crowds of these sizes in order in a separate process.

    Returns the figures of each, and the peak memory of the process by then in megabytes.
    """
    with TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            PEAK,
            str(Path(__file__).parent),
            folder,
            "patient" if patient else "",
            *map(str, sessions),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    peaks = [int(peak) / 1024 for peak in re.findall(r"VmHWM:\s+(\d+)", done.stdout)]
    if not peaks:
        raise SystemExit("this system does not report the peak memory of a process")
    return list(zip(figures, peaks, strict=True))


def main() -> None:
    [(_, few_mb)] = crowds(FEW, patient=True)
    [(_, many_mb), _, (_, later_mb)] = crowds(MANY, MANY, MANY, patient=True)
    [(figures, at_once_mb)] = crowds(MANY)
    with TemporaryDirectory() as folder:
        times = asyncio.run(turn_times(Path(folder)))
    if "--json" in sys.argv:
        print(
            json.dumps(
                {
                    **figures,
                    "few_mb": few_mb,
                    "many_mb": many_mb,
                    "later_mb": later_mb,
                    "at_once_mb": at_once_mb,
                    **times,
                }
            )
        )
        return
    print(
        f"{MANY:,} sessions with {TURNS} turns at once: {figures['ended']:,} of {figures['runs']:,} runs ended, "
        f"{figures['sessions_out_of_order']} sessions out of order, {figures['transcripts_mixed']} transcripts mixed, "
        f"{figures['seconds']:.1f} s"
    )
    print(
        f"memory, each session with one turn at a time: {few_mb:.0f} MB with {FEW} sessions, {many_mb:.0f} MB with "
        f"{MANY:,}, {later_mb:.0f} MB after {3 * MANY:,}, ratio {later_mb / many_mb:.2f} (at most 1.1); "
        f"{at_once_mb:.0f} MB with all {MANY * TURNS:,} runs waiting at once"
    )
    print(
        f"a turn with one tool, without its model: {times['bare_ms']:.2f} ms, {times['recorded_ms']:.2f} ms with "
        f"recorder and timeline (at most 5); CPU time {times['bare_cpu_ms']:.2f} and "
        f"{times['recorded_cpu_ms']:.2f} ms"
    )


if __name__ == "__main__":
    main()
