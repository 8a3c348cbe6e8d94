"""Cost of the diagnosis: time per event of short and long recordings, and memory.

    python benchmarks/diagnosis.py [--json]

The main stream is that of a busy gateway (`generator.py`). The other streams are different worst cases. Times are those
of observing and concluding, alternately for short and long recordings; the figures are medians and their ratio.
Generating the events is not measured. Memory is the peak of a process that observes the long stream once.

The last figures are for a run in progress: the time of asking for findings every 50 events, divided by the time of
observing, for streams in which one finding grows and grows.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from generator import gateway_events

from critiqor.diagnosis import Diagnoser
from critiqor.model import Coverage, Event, event_id_for, iso_from_ms

SHORT, LONG = 10_000, 100_000
ROUNDS = 5
CHUNK = 1000
ASKED_EVERY = 50
ASKED_SHORT, ASKED_LONG = 10_000, 40_000
START = 1_794_000_000_000
LOG = "PASS tests/unit/orders_{}.py: total 41.20 EUR after the discount was applied\n"


class EventGenerator:
    """Generates the events of agent runs."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def event(self, event_type: str, session: str, run: str, **fields: object) -> Event:
        number = next(self._numbers)
        moment = START + 20 * number
        layer = "tool_hooks" if event_type.startswith(("tool_", "memory_")) else "extension_api"
        return Event(
            event_id=event_id_for(moment, "bench01", number),
            event_type=event_type,
            raw_event_type=event_type,
            timestamp=iso_from_ms(moment),
            source_layer=layer,
            session_key=session,
            agent_run_id=run,
            **fields,  # type: ignore[arg-type]
        )

    def tool(
        self, session: str, run: str, call: str, tool: str, arguments: object, text: str, error: str | None = None
    ) -> Iterator[Event]:
        about: dict[str, object] = {"tool_name": tool, "tool_call_id": call}
        result = {"content": [{"type": "text", "text": text}], "details": {"exitCode": 1 if error else 0}}
        yield self.event("tool_call", session, run, **about, payload={"arguments": arguments})
        status = "error" if error else "ok"
        yield self.event(
            "tool_output", session, run, **about, status=status, error=error, duration_ms=12, payload={"result": result}
        )

    def model(self, session: str, run: str, size: int, error: str | None = None) -> Iterator[Event]:
        call = {"provider": "lab", "model": "scripted", "contextTokenBudget": 128_000, "requestPayloadBytes": 4 * size}
        usage = None if error else {"input": size, "output": 80, "cacheRead": 0, "cost": {"total": size / 1e6}}
        status = "error" if error else "ok"
        yield self.event("before_provider_request", session, run, payload=call)
        yield self.event(
            "token_usage", session, run, status=status, error=error, duration_ms=900, payload={**call, "usage": usage}
        )

    def message(self, session: str, run: str, text: str, kind: str = "message_end") -> Event:
        role = "user" if kind == "input" else "assistant"
        return self.event(kind, session, run, payload={"role": role, "text": text, "stop_reason": "stop"})


def distinct_errors() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        name = f"{number:x}".translate(str.maketrans("0123456789", "ghijklmnop"))
        yield from maker.tool("s", "r", f"c{number}", "exec", {"command": f"run {name}"}, "", f"error: {name} broke")


def same_failure() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        yield from maker.tool("s", "r", f"c{number}", "exec", {"command": "sh deploy.sh"}, "refused", "exit code 7")


def tiny_sessions() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        yield maker.event("agent_start", f"agent:{number}:main", f"r{number}", payload={"trigger": "user"})
        yield maker.event("agent_end", f"agent:{number}:main", f"r{number}", payload={"success": True})


def claims() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        yield maker.message("s", "r", f"All tests pass, order {number} is done. I have saved it to out/{number}.txt.")


def compactions() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        yield maker.message("s", "r", f"Never delete conf/file_{number}.yml, whatever happens to it.", "input")
        yield from maker.tool("s", "r", f"c{number}", "read", {"path": f"{number % 900}.txt"}, f"text {number % 900}")
        yield maker.event("compaction_end", "s", "r")


def one_tool(tool: str, arguments: Callable[[int], object], text: str, error: str | None = None) -> Iterator[Event]:
    """Yield calls of one tool, each requested by a model call."""
    maker = EventGenerator()
    for number in count():
        yield from maker.model("s", "r", 9_000)
        yield from maker.tool("s", "r", f"c{number}", tool, arguments(number), text, error)


def failing_model_calls() -> Iterator[Event]:
    maker = EventGenerator()
    while True:
        yield from maker.model("s", "r", 9_000, "HTTP 503 overloaded")


def large_requests() -> Iterator[Event]:
    maker = EventGenerator()
    while True:
        yield from maker.model("s", "r", 125_000)


def conversation() -> Iterator[Event]:
    maker = EventGenerator()
    for number in count():
        yield maker.message("s", "r", f"What about order {number}?", "input")
        yield maker.message("s", "r", f"Order {number} is on its way.")


GROWING_STREAMS: dict[str, Callable[[], Iterator[Event]]] = {
    "two reads in turn": lambda: one_tool("read", lambda number: {"path": f"{number % 2}.txt"}, LOG * 6),
    "500 reads in turn": lambda: one_tool("read", lambda number: {"path": f"{number % 500}.txt"}, LOG * 6),
    "a loop for every four calls": lambda: one_tool("read", lambda number: {"path": f"{number // 4}.txt"}, "x"),
    "one call that always fails": lambda: one_tool("exec", lambda _: {"command": "sh x.sh"}, "no", "exit code 7"),
    "one call that is rejected": lambda: one_tool("read", lambda _: {"pth": "x"}, "", "path is required"),
    "searches that find nothing": lambda: one_tool("web_search", lambda n: {"query": f"{n}"}, "No results found."),
    "one mail again and again": lambda: one_tool("send_email", lambda _: {"to": "ada"}, "sent"),
    "model calls that fail": failing_model_calls,
    "requests that are nearly too large": large_requests,
    "nothing but messages": conversation,
}
STREAMS: dict[str, Callable[[], Iterator[Event]]] = {
    "a busy gateway": gateway_events,
    "nothing but different errors": distinct_errors,
    "one call that always fails": same_failure,
    "sessions of two events": tiny_sessions,
    "nothing but claims": claims,
    "a compaction at every turn": compactions,
}


def seconds(stream: Callable[[], Iterator[Event]], events: int) -> float:
    """Return the seconds to observe and conclude."""
    diagnoser = Diagnoser()
    source = stream()
    spent = 0.0
    for _ in range(0, events, CHUNK):
        chunk = list(islice(source, CHUNK))
        began = time.perf_counter()
        for event in chunk:
            diagnoser.observe(event)
        spent += time.perf_counter() - began
    began = time.perf_counter()
    diagnoser.conclude("run_001", "sha256:0", Coverage(agent_events=events, recorder_attached=True), "")
    return spent + time.perf_counter() - began


def microseconds(stream: Callable[[], Iterator[Event]], rounds: int) -> tuple[float, float]:
    """Return the microseconds per event of a short and of a long recording."""
    times: dict[int, list[float]] = {SHORT: [], LONG: []}
    for _ in range(rounds):
        for events, taken in times.items():
            taken.append(seconds(stream, events) / events * 1e6)
    return statistics.median(times[SHORT]), statistics.median(times[LONG])


def asking_ratio(stream: Callable[[], Iterator[Event]], events: int) -> float:
    """Return the time of asking for findings every few events, divided by the time of observing."""
    diagnoser = Diagnoser()
    coverage = Coverage(agent_events=events, recorder_attached=True)
    source = stream()
    observing = asking = 0.0
    for _ in range(0, events, ASKED_EVERY):
        chunk = list(islice(source, ASKED_EVERY))
        began = time.perf_counter()
        for event in chunk:
            diagnoser.observe(event)
        observed = time.perf_counter()
        diagnoser.findings(coverage)
        asking += time.perf_counter() - observed
        observing += observed - began
    return asking / observing


# VmHWM is the peak since exec. The peak of a child in getrusage would include its parent's.
PEAK = """
import sys
sys.path.insert(0, sys.argv[1])
from diagnosis import LONG, STREAMS, seconds
seconds(STREAMS[sys.argv[2]], LONG)
print(open("/proc/self/status").read())
"""


def peak_memory(name: str) -> float:
    """Return the peak megabytes of observing the long stream and concluding."""
    command = [sys.executable, "-c", PEAK, str(Path(__file__).parent), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"VmHWM:\s+(\d+)", done.stdout)
    if found is None:
        raise SystemExit("this system does not report the peak memory of a process")
    return int(found[1]) / 1024


def main() -> None:
    report = {}
    for name, stream in STREAMS.items():
        short, long = microseconds(stream, ROUNDS if stream is gateway_events else 3)
        report[name] = {"short_us": short, "long_us": long, "ratio": long / short, "peak_mb": peak_memory(name)}
        if "--json" not in sys.argv:
            at_most = "at most 1.2" if stream is gateway_events else "at most 1.5"
            print(
                f"{name}: {short:.1f} µs per event at {SHORT:,}, {long:.1f} at {LONG:,}, ratio {long / short:.2f} "
                f"({at_most}); {report[name]['peak_mb']:.0f} MB (at most 150)",
                flush=True,
            )
    for name, stream in GROWING_STREAMS.items():
        short, long = asking_ratio(stream, ASKED_SHORT), asking_ratio(stream, ASKED_LONG)
        report[f"asking: {name}"] = {"asking_short": short, "asking_long": long}
        if "--json" not in sys.argv:
            print(
                f"{name}: asking every {ASKED_EVERY} events ÷ observing {short:.2f} at {ASKED_SHORT:,} events, "
                f"{long:.2f} at {ASKED_LONG:,} (at most 1)",
                flush=True,
            )
    if "--json" in sys.argv:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
