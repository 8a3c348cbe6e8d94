"""A scripted model in this process, and a runtime that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from critiqor.agentloop.configuration import LoopConfiguration, parse_configuration
from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.models.model_client import (
    Delta,
    Finished,
    ModelFailureError,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.agentloop.sessions.messages import AssistantMessage, Message, Text, ToolResultMessage, message_from_json
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

Result = TypeVar("Result")


class _Hurried(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def hurried(timeout: float | None = None) -> Any:
            ready = select(0 if timeout is not None else None)
            if not ready and timeout:
                self._skipped += timeout
            return ready

        self._selector.select = hurried  # type: ignore[attr-defined]

    def time(self) -> float:
        return super().time() + self._skipped


def instantly(scenario: Coroutine[Any, Any, Result]) -> Result:
    """Run a scenario that only waits for timers of the event loop, without real waiting."""
    with asyncio.Runner(loop_factory=_Hurried) as runner:
        return runner.run(scenario)


@dataclass
class Say:
    """One response of the model."""

    text: str = ""
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    thinking: str = ""
    failure: ModelFailureError | None = None
    """Raised after the text and tool calls."""
    hold: asyncio.Event | None = None
    """Awaited after the text and tool calls; if it is never set, the model falls silent."""
    usage: tuple[int, int] = (1000, 20)
    pieces: int = 1
    ids: tuple[str, ...] = ()


class _Stream:
    def __init__(self, say: Say, size: int) -> None:
        self._say = say
        self.request_bytes = size
        self.response_bytes = 0

    async def __aiter__(self) -> AsyncIterator[Delta]:
        say = self._say
        if say.thinking:
            yield ThinkingDelta(say.thinking)
        step = max(1, -(-len(say.text) // say.pieces))
        for start in range(0, len(say.text), step):
            self.response_bytes += step
            yield TextDelta(say.text[start : start + step])
        for index, (name, arguments) in enumerate(say.tools):
            call_id = say.ids[index] if say.ids else f"call_{index}"
            yield ToolCallDelta(index, call_id, name, msgspec.json.encode(arguments).decode())
        if say.hold is not None:
            await say.hold.wait()
        if say.failure is not None:
            raise say.failure
        yield UsageDelta(*say.usage)
        yield Finished("tool_calls" if say.tools else "stop")


Script = Callable[[ModelRequest], Say]


@dataclass
class Model:
    """Responds from a list, whose last response repeats, or with a function of the request."""

    says: list[Say] = field(default_factory=list)
    script: Script | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    keep: bool = True

    def ask(self, request: ModelRequest) -> _Stream:
        if self.keep:
            self.requests.append(request)
        if self.script is not None:
            say = self.script(request)
        else:
            say = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        return _Stream(say, 100)


CONFIGURATION: dict[str, Any] = {
    "models": {
        "providers": {
            "lab": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "models": [
                    {
                        "id": "scripted",
                        "contextWindow": 128_000,
                        "maxTokens": 4_096,
                        "cost": {"input": 1, "output": 2},
                    },
                    {"id": "other", "contextWindow": 128_000, "maxTokens": 4_096},
                ],
            }
        }
    },
    "agents": {
        "defaults": {
            "model": {"primary": "lab/scripted"},
            "retry": {"minDelayMs": 1, "maxDelayMs": 2},
            "maxConcurrent": 8,
        }
    },
    "messages": {"queue": {"debounceMs": 1}},
}


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with the values of another one over it."""
    both = {
        key: merged(base[key], value) if isinstance(value, dict) and key in base else value
        for key, value in over.items()
    }
    return {**base, **both}


def configuration(**over: Any) -> LoopConfiguration:
    """Return the configuration of the tests, with changes."""
    return parse_configuration(merged(CONFIGURATION, over))


def defaults(**over: Any) -> LoopConfiguration:
    """Return the configuration of the tests, with changes in `agents.defaults`."""
    return configuration(agents={"defaults": over})


ECHO = ("exec", {"command": "echo hello"})
"""A tool call."""


class Waiting:
    """A tool that waits until it is stopped."""

    name = "waiting"
    description = "Wait."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.started = asyncio.Event()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        self.started.set()
        await asyncio.Event().wait()
        raise AssertionError


class Echo:
    """A tool that returns its arguments."""

    name = "echo"
    description = "Echo."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def __init__(self, fail: Exception | None = None) -> None:
        self.seen: list[dict[str, Any]] = []
        self._fail = fail

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        self.seen.append(arguments)
        if self._fail is not None:
            raise self._fail
        return ToolOutcome(content=[Text(str(arguments.get("text")))])


class HookCall(NamedTuple):
    """One call of a hook."""

    name: str
    event: dict[str, Any]
    context: dict[str, Any]


def watch_hooks(hooks: PluginHooks, *names: str) -> list[HookCall]:
    """Return a list that gets every call of these hooks; its handlers decide nothing."""
    calls: list[HookCall] = []

    def watch(name: str) -> None:
        hooks.on(name, lambda event, context: calls.append(HookCall(name, event, context)))

    for name in names:
        watch(name)
    return calls


class Rig:
    """A runtime in a folder, its model, and the events that it emitted."""

    def __init__(self, folder: Path, *says: Say, settings: LoopConfiguration | None = None, **parts: Any) -> None:
        self.model = Model(list(says) or [Say("done")])
        self.runtime = AgentRuntime(
            settings or configuration(),
            state_folder=folder / "state",
            home=folder,
            environment={"PATH": "/usr/bin:/bin"},
            clients=parts.pop("clients", lambda provider, key: self.model),
            **parts,
        )
        self.events: list[AgentEvent] = []
        self.runtime.streams.listen(self.events.append)

    async def ask(self, message: str = "do the thing", **params: Any) -> RunOutcome:
        """Send a message and return the outcome of its run."""
        accepted = await self.runtime.agent(AgentParams(message=message, **params))
        return await self.runtime.outcome(accepted.run_id)

    def transcript(self, key: str = "agent:main:main") -> list[Message]:
        """Return the messages of a session from disk."""
        session = self.runtime.services.sessions.find("main", key)
        assert session is not None
        return read_messages(session.transcript)

    def phases(self, stream: str) -> list[str]:
        """Return the phases of the events of a stream."""
        return [event.data.get("phase", "") for event in self.events if event.stream == stream]


def read_messages(path: Path) -> list[Message]:
    """Return the messages of a transcript file, in order of its lines."""
    entries = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    found = [message_from_json(entry["message"]) for entry in entries if entry["type"] == "message"]
    return [message for message in found if message is not None]


def roles(messages: list[Message]) -> list[str]:
    """Return the roles of messages."""
    return [msgspec.to_builtins(message)["role"] for message in messages]


def unanswered(messages: list[Message]) -> list[str]:
    """Return the ids of tool calls without a result."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            waiting += [call.id for call in message.tool_calls]
        elif isinstance(message, ToolResultMessage):
            waiting.remove(message.tool_call_id)
    return waiting
