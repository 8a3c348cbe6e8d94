"""The journal of a busy gateway, for the benchmarks: seeded, so that every call writes the same records.

Many sessions talk at once. Each agent run has model calls with usage, tool calls of all sizes, some of which fail,
memory lookups, compactions and messages in several languages; a few tool results are as large as a recorder lets them
be. Nothing in it follows from how the records are read.

Two other streams are for what grows: agents that run the same few commands again and again, in loops that overlap, in
several sessions or all in a single agent run.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from critiqor.model import Event, event_id_for, iso_from_ms

START = 1_794_000_000_000
Record = dict[str, Any]

_ENGLISH = (
    *("order", "discount", "invoice", "customer", "total", "shipping", "build", "passed", "failed", "warning", "retry"),
    *("cache", "index", "worker", "queue", "deploy", "branch", "merge", "release", "config", "schema", "column"),
    *("migrate", "rollback", "session", "window", "memory", "search", "result", "missing", "the", "and", "this", "is"),
)
_OTHER = (
    *("Größe", "Überweisung", "straße", "naïve", "café", "señor", "mañana", "注文", "合計", "配送", "エラー"),
    *("确认", "订单", "заказ", "скидка", "ошибка", "🙂", "✅", "❌", "→", "€"),
)
_CANONICAL_NAMES = {"tool_result": "tool_output", "after_provider_response": "token_usage"}
_ERRORS = (
    "exit code 1",
    "exit code 127: command not found",
    "ENOENT: no such file or directory",
    "timed out after 30000 ms",
    "HTTP 404 Not Found",
    "permission denied",
)
_PROVIDER_ERRORS = ("HTTP 429 rate limited", "HTTP 500 internal error", "HTTP 529 overloaded", "socket hang up")
_MODELS = (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.2"), ("ollama", "qwen3:32b"))
_TOOLS = ("read", "exec", "exec", "edit", "write", "web_search", "web_fetch", "browser", "message")
_CUT_SIZE = 2048
"""Characters that a recorder keeps of a text that is too long."""


class Gateway:
    """Yields the records of one gateway process."""

    sessions = 40

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._lines = [self._line() for _ in range(500)]
        self._number = 0
        self._now = START

    def records(self, redaction: str) -> Iterator[Record]:
        """Yield records without end; the first announces the recorder and its redaction rules."""
        payload = {"mode": "full", "pid": 4711, "sources": {"hooks": True}, "redaction": redaction}
        yield self._record("recorder_attached", None, None, payload=payload)
        sessions = [self._session(number) for number in range(self.sessions)]
        while True:
            # An agent that is busy writes several records in a row.
            yield from islice(self._random.choice(sessions), self._random.choice((1, 1, 1, 2, 2, 4, 8)))

    def _session(self, number: int) -> Iterator[Record]:
        channel = self._random.choice(("main", "telegram:direct:", "discord:channel:", "subagent:"))
        key = f"agent:main:{channel}{'' if channel == 'main' else number}"
        context = self._random.randrange(4_000, 100_000)
        while True:
            run = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            for record, tokens in self._agent_run(key, run, context):
                context = tokens
                yield record
            if context > 110_000:
                context = self._random.randrange(12_000, 30_000)
                yield self._record("compaction_start", key, run, payload={"reason": "threshold"})
                summary = self._text(1500)
                yield self._record("compaction_end", key, run, payload={"summary": summary, "tokensAfter": context})

    def _agent_run(self, key: str, run: str, context: int) -> Iterator[tuple[Record, int]]:
        pick = self._random
        message = {"role": "user", "text": self._text(pick.choice((40, 120, 600)))}
        yield self._record("input", key, run, payload=message), context
        yield self._record("agent_start", key, run, payload={"attempt": 1, "trigger": "user"}), context
        if pick.random() < 0.3:
            lookup = {"query": self._text(40), "lookup": pick.choice(("found", "empty")), "result": self._text(300)}
            yield self._record("memory_event", key, run, tool_name="memory_search", payload=lookup), context
        provider, model = pick.choice(_MODELS)
        for turn in range(min(40, 1 + int(pick.expovariate(0.25)))):
            yield self._record("turn_start", key, run, payload={"turn": turn}), context
            for record in self._model_call(key, run, provider, model, context):
                yield record, context
            context += pick.randrange(200, 2_500)
            for call in range(pick.choice((0, 1, 1, 1, 2, 3))):
                for record in self._tool_call(key, run, f"call_{turn}_{call}"):
                    yield record, context
            yield self._record("turn_end", key, run, payload={"turn": turn}), context
        answer = {"role": "assistant", "text": self._text(pick.choice((60, 400, 1800))), "stop_reason": "stop"}
        yield self._record("message_end", key, run, payload=answer), context
        failed = pick.random() < 0.05
        end = {"success": not failed, "attempt": 1}
        outcome = {"status": "error", "error": pick.choice(_PROVIDER_ERRORS)} if failed else {}
        yield self._record("agent_end", key, run, duration_ms=self._duration(20_000), payload=end, **outcome), context

    def _model_call(self, key: str, run: str, provider: str, model: str, context: int) -> Iterator[Record]:
        pick = self._random
        about = {"provider": provider, "model": model, "contextTokenBudget": 128_000}
        request = {**about, "requestPayloadBytes": 4 * context}
        yield self._record("before_provider_request", key, run, payload=request)
        if pick.random() < 0.03:
            error = pick.choice(_PROVIDER_ERRORS)
            payload = {**about, "usage": None}
            yield self._record("after_provider_response", key, run, status="error", error=error, payload=payload)
            yield self._record("before_provider_request", key, run, payload=request)
        output = pick.randrange(20, 1_200)
        cost = {"total": round(context * 3e-7 + output * 15e-6, 6)}
        read = context // 10
        usage = {"input": read, "output": output, "cacheRead": context - read, "cacheWrite": 0, "cost": cost}
        response = {**about, "usage": usage, "outcome": "completed"}
        yield self._record("after_provider_response", key, run, duration_ms=self._duration(2_500), payload=response)

    def _tool_call(self, key: str, run: str, call: str) -> Iterator[Record]:
        pick = self._random
        tool = pick.choice(_TOOLS)
        about = {"tool_name": tool, "tool_call_id": call}
        path = f"src/{pick.choice(_ENGLISH)}_{pick.randrange(300)}.py"
        arguments: dict[str, Record] = {
            "read": {"path": path, "limit": 400},
            "edit": {"path": path, "oldText": self._text(120), "newText": self._text(150)},
            "write": {"path": path, "content": self._text(900)},
            "exec": {"command": f"pytest {path} -q", "timeoutMs": 30_000},
        }
        called = arguments.get(tool, {"query": self._text(50)})
        yield self._record("tool_call", key, run, **about, payload={"arguments": called})
        error = pick.choice(_ERRORS) if pick.random() < 0.08 else None
        text: Any = self._text(min(int(pick.lognormvariate(6.3, 1.2)), 30_000))
        if pick.random() < 0.01:
            text = {
                "cut": True,
                "size": pick.randrange(100_000, 3_000_000),
                "digest": f"sha256:{pick.getrandbits(256):064x}",
            }
            text["excerpt"] = self._text(_CUT_SIZE)
        result = {"content": [{"type": "text", "text": text}], "details": {"exitCode": 1 if error else 0}}
        status = {"status": "error" if error else "ok", "error": error, "duration_ms": self._duration(400)}
        yield self._record("tool_result", key, run, **about, **status, payload={"result": result})

    def _record(self, kind: str, session: str | None, run: str | None, **fields: Any) -> Record:
        self._number += 1
        self._now += self._random.choice((0, 0, 1, 1, 2, 5, 40))
        return {
            "event_id": event_id_for(self._now, "bench01", self._number),
            "event_type": kind,
            "raw_event_type": kind,
            "timestamp": iso_from_ms(self._now),
            "source_layer": "tool_hooks" if kind.startswith(("tool_", "memory_")) else "extension_api",
            "session_key": session,
            "agent_run_id": run,
            "tool_name": None,
            "tool_call_id": None,
            "status": "ok",
            "error": None,
            "duration_ms": None,
            **fields,
        }

    def _duration(self, typical: int) -> int:
        return int(self._random.expovariate(1 / typical))

    def _line(self) -> str:
        vocabulary = _ENGLISH if self._random.random() < 0.8 else _ENGLISH + 3 * _OTHER
        words = " ".join(self._random.choices(vocabulary, k=self._random.randrange(4, 16)))
        return f"{self._random.randrange(10_000):4d}  {words}: {self._random.random() * 1000:.2f}"

    def _text(self, length: int) -> str:
        """Return a text of about this length."""
        lines = self._random.choices(self._lines, k=1 + length // 60)
        return "\n".join(lines)[:length]


class SingleSession(Gateway):
    """A gateway with one session that has everything."""

    sessions = 1


class LoopingGateway(Gateway):
    """A gateway whose agents run the same few commands again and again; most results never change."""

    sessions = 8

    def _session(self, number: int) -> Iterator[Record]:
        key = f"agent:main:telegram:direct:{number}"
        while True:
            run = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            yield self._record("input", key, run, payload={"role": "user", "text": self._text(120)})
            yield self._record("agent_start", key, run, payload={"attempt": 1, "trigger": "user"})
            yield from self._loops(key, run, self._random.choice((20, 60, 200, 1500)))
            answer = {"role": "assistant", "text": self._text(400), "stop_reason": "stop"}
            yield self._record("message_end", key, run, payload=answer)
            yield self._record("agent_end", key, run, payload={"success": True, "attempt": 1})

    def _loops(self, key: str, run: str, turns: int) -> Iterator[Record]:
        pick = self._random
        pool = [f"{program} src/{pick.choice(_ENGLISH)}.py" for program in ("cat", "pytest -q", "git diff", "wc -l")]
        pool += [f"sh tools/{pick.choice(_ENGLISH)}.sh", "git status", f"grep -rn {pick.choice(_ENGLISH)} src"]
        outputs = {command: self._text(pick.choice((40, 400, 3_000))) for command in pool}
        loop = pick.sample(pool, 3)
        for turn in range(turns):
            if pick.random() < 0.02:
                # Two of the commands stay in the loop, so that it overlaps with the one before it.
                loop = [*loop[1:], pick.choice(pool)]
            if pick.random() < 0.01:
                command = pick.choice(loop)
                outputs[command] = self._text(pick.choice((40, 400, 3_000)))
            yield from self._model_call(key, run, *_MODELS[0], 40_000)
            command = loop[turn % len(loop)] if pick.random() < 0.9 else pick.choice(loop)
            about = {"tool_name": "exec", "tool_call_id": f"call_{turn}"}
            yield self._record("tool_call", key, run, **about, payload={"arguments": {"command": command}})
            error = "exit code 2" if command.startswith("sh ") else None
            result = {
                "content": [{"type": "text", "text": outputs[command]}],
                "details": {"exitCode": 2 if error else 0},
            }
            status = {"status": "error" if error else "ok", "error": error, "duration_ms": self._duration(400)}
            yield self._record("tool_result", key, run, **about, **status, payload={"result": result})


class LoopingAgentRun(LoopingGateway):
    """The same in a single agent run that never ends."""

    sessions = 1

    def _session(self, number: int) -> Iterator[Record]:
        key, run = "agent:main:main", str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        yield self._record("input", key, run, payload={"role": "user", "text": self._text(120)})
        yield self._record("agent_start", key, run, payload={"attempt": 1, "trigger": "user"})
        while True:
            yield from self._loops(key, run, 3_000)


def gateway_events() -> Iterator[Event]:
    """Yield events of the evidence without end."""
    return events_of(Gateway())


def events_of(gateway: Gateway) -> Iterator[Event]:
    """Yield events of the evidence of a gateway without end."""
    for record in gateway.records("other rules"):
        event = msgspec.convert(record, Event)
        name = _CANONICAL_NAMES.get(event.event_type, event.event_type)
        yield msgspec.structs.replace(event, event_type=name)


def write_run(folder: Path, events: int, *, redaction: str | None = None, gateway: type[Gateway] = Gateway) -> Path:
    """Create a monitored run whose journal has this many records; return its journal.

    Its recorder announces these redaction rules; without any, it announces those that finalizing applies.
    """
    # Imported here, because the diagnosis is also compared under interpreters that have msgspec only.
    from critiqor.session import append_event_to_run, create_session, paths_for
    from critiqor.storage.redaction import rules_digest

    run_id = create_session(runs_dir=folder)["run_id"]
    append_event_to_run(run_id, {"event_type": "process_start", "pid": 1, "command": ["openclaw"]}, runs_dir=folder)
    path = paths_for(folder).journal_path(run_id)
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as journal:
        for record in islice(gateway().records(redaction or rules_digest()), events):
            journal.write(encode(record) + b"\n")
    return path
