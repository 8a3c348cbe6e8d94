"""The agent runtime: `agent` accepts a message, `wait` waits for its run; `open_runtime` starts one for a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from critiqor.agentloop.configuration import LoopConfiguration, locate_loop_configuration, read_loop_configuration
from critiqor.agentloop.context.installer import PLUGIN, SKILL, install
from critiqor.agentloop.context.skills import SkillsCache
from critiqor.agentloop.context.workspace import workspace_path
from critiqor.agentloop.entry.background_tasks import BackgroundTasks
from critiqor.agentloop.entry.external_process import external_process
from critiqor.agentloop.entry.subagents import Subagents
from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.internal_hooks import InternalHooks, find_hooks
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.hooks.registration import register_configured_hooks, register_installed_hooks
from critiqor.agentloop.loop.commands import parse_command
from critiqor.agentloop.loop.external_agent import ExternalAgent
from critiqor.agentloop.models.completions_client import CompletionsClients
from critiqor.agentloop.queue.dispatcher import Dispatcher
from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.queue.stuck_sessions import StuckSessionWarning, StuckSessionWatchdog
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import Recorder, attach_recorder
from critiqor.agentloop.replies.channels import Channels
from critiqor.agentloop.replies.delivery import HookedOutbox
from critiqor.agentloop.runs import Abort, AbortKind, Accepted, AgentParams, Run, RunOutcome, WaitResult
from critiqor.agentloop.services import LOOP_FOLDER, ClientFactory, Services
from critiqor.agentloop.sessions.sessions import Session, Sessions
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.tools.messaging import Outbox
from critiqor.agentloop.tools.tool import Tool
from critiqor.errors import CritiqorError
from critiqor.model import now_ms

DEFAULT_WAIT_SECONDS = 30.0
MAX_KEPT_SESSIONS = 1_000
"""Most recently used sessions that get a `session_end` when the runtime shuts down."""
SHUTDOWN_SECONDS = 10.0


class AgentRuntime:
    """Runs agents, one run at a time per session. `open_runtime` creates one from the environment of a process."""

    def __init__(
        self,
        configuration: LoopConfiguration,
        *,
        state_folder: Path,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        clients: ClientFactory | None = None,
        hooks: PluginHooks | None = None,
        streams: EventStreams | None = None,
        updates: TranscriptUpdates | None = None,
        diagnostics: Diagnostics | None = None,
        recorder: Recorder | None = None,
        outbox: Outbox | None = None,
        tools: Sequence[Tool] = (),
        folder: Path | None = None,
    ) -> None:
        self.hooks = hooks or PluginHooks()
        self.streams = streams or EventStreams()
        self.updates = updates or TranscriptUpdates()
        self._background = BackgroundTasks()
        home = home or Path.home()
        diagnostics = diagnostics or Diagnostics(None)
        variables = dict(os.environ if environment is None else environment)
        self._clients = CompletionsClients(variables)
        external = configuration.defaults.external
        self._external = None if external is None else external_process(external, folder or state_folder, variables)
        self._channels = Channels(configuration.channels, home, variables)
        workspace = workspace_path(configuration, configuration.default_agent, state_folder, home)
        scripts = find_hooks(configuration.internal_hooks, state_folder, workspace, home)
        self.services = Services(
            configuration=configuration,
            state_folder=state_folder,
            home=home,
            environment=variables,
            sessions=Sessions(state_folder / LOOP_FOLDER),
            lanes=Lanes(),
            hooks=self.hooks,
            streams=self.streams,
            updates=self.updates,
            diagnostics=diagnostics,
            recorder=recorder or Recorder(None),
            clients=clients or self._clients,
            internal_hooks=InternalHooks(scripts, variables, on_exit=diagnostics.child_exited),
            skills=SkillsCache(state_folder, home, configuration.skills, variables),
            outbox=HookedOutbox(outbox or self._channels, self.hooks),
            spawn=Subagents(self, self._background).spawn,
            tools=tools,
        )
        self.warnings: deque[StuckSessionWarning] = deque(maxlen=100)
        """Latest warnings about sessions without progress, oldest first."""
        self._dispatcher = Dispatcher(self.services)
        self._accepting: set[str] = set()
        self._used: OrderedDict[str, Session] = OrderedDict()
        self._watchdog: asyncio.Task[None] | None = None
        self._is_closing = False

    async def agent(self, params: AgentParams, external: ExternalAgent | None = None) -> Accepted:
        """Accept a message: find and save its session, then start or queue its run.

        With `external`, another program answers the message; the loop does the rest. The default is the configured one.
        """
        params.validate()
        self._check_open()
        run_id = params.run_id or str(uuid4())
        accepted_at = now_ms()
        if self._dispatcher.is_known(run_id) or run_id in self._accepting:
            return Accepted(run_id=run_id, accepted_at=accepted_at, status="in_flight")
        sessions, default = self.services.sessions, self.services.configuration.default_agent
        address = sessions.resolve_address(params.agent_id, params.session_key, params.session_id, default)
        self._accepting.add(run_id)
        try:
            session = await sessions.open(address)
            self._check_open()  # check again, because close() may have been called in the meantime
            run = Run(run_id, params, session, accepted_at)
            run.recording = self.services.recorder.open_run(run_id, session.key)
            run.command = parse_command(params.message)
            run.external = external or (self._external if run.command is None else None)
            if params.channel is not None:
                self._background.start(self._run_received_hook(run))
            self._dispatcher.dispatch(run)
            self._remember_session(session)
        finally:
            self._accepting.discard(run_id)
        self._start_watchdog()
        return Accepted(run_id=run_id, accepted_at=accepted_at)

    async def wait(self, run_id: str, timeout_s: float = DEFAULT_WAIT_SECONDS) -> WaitResult:
        """Wait for the end of a run, at most `timeout_s` seconds. A timeout does not stop the run."""
        run = self._dispatcher.run(run_id)
        if run is None:
            return _wait_result(self._dispatcher.outcome(run_id))
        await asyncio.wait({run.done}, timeout=max(0.0, timeout_s))
        if run.done.done():
            return _wait_result(run.done.result())
        return WaitResult(status="timeout", started_at=run.started_at)

    async def outcome(self, run_id: str) -> RunOutcome:
        """Wait for the end of a run and return its outcome with payloads and usage."""
        run = self._dispatcher.run(run_id)
        return self._dispatcher.outcome(run_id) if run is None else await asyncio.shield(run.done)

    def cancel(self, run_id: str, reason: str = "cancelled", kind: AbortKind = "cancelled") -> bool:
        """Abort a queued or executing run. Return False if it has ended or cannot be aborted."""
        run = self._dispatcher.run(run_id)
        return run is not None and self._dispatcher.abort(run, Abort(kind, reason))

    async def announce(self, session_key: str, text: str) -> None:
        """Send a message to a session: steer it into the active run, or start a new run."""
        if not self._is_closing:
            params = AgentParams(message=text, session_key=session_key, trigger="subagent", queue_mode="steer")
            await self.agent(params)

    async def install_skill(self, source: Path) -> Path:
        """Install a skill folder for all agents, unless a plugin blocks it. Return the installed folder."""
        return await install(SKILL, source, self.services.state_folder, self.hooks)

    async def install_plugin(self, source: Path) -> Path:
        """Install a folder with internal hooks, unless a plugin blocks it. Return the installed folder."""
        return await install(PLUGIN, source, self.services.state_folder, self.hooks)

    async def drain(self) -> None:
        """Wait until no run and no subagent is active."""
        while (runs := self._dispatcher.runs()) or self._background.is_busy:
            if runs:
                await asyncio.wait({run.done for run in runs})
            # A subagent that ends announces its result to its parent, which may start another run.
            await self._background.finished()

    async def end_sessions(self, reason: str) -> None:
        """Run the `session_end` hook for every session that was used."""
        sessions, self._used = list(self._used.values()), OrderedDict()
        for session in sessions:
            event = {"sessionId": session.id, "sessionKey": session.key, "reason": reason}
            context = {"agentId": session.agent_id, "sessionId": session.id, "sessionKey": session.key}
            await self.hooks.run("session_end", event, context)

    async def close(self) -> None:
        """Abort all runs and write pending changes of sessions."""
        self._is_closing = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        runs = self._dispatcher.runs()
        for run in runs:
            self._dispatcher.abort(run, Abort("shutdown", "the agent runtime was closed"))
        if runs:
            await asyncio.wait({run.done for run in runs}, timeout=SHUTDOWN_SECONDS)
        await self._background.close(SHUTDOWN_SECONDS)
        await self._channels.close()
        await self.services.sessions.close()
        await self._clients.close()

    def _check_open(self) -> None:
        if self._is_closing:
            raise CritiqorError("the agent runtime is closing", fix="start it again")

    async def _run_received_hook(self, run: Run) -> None:
        params = run.params
        event = {"from": params.to, "content": params.message, "channelId": params.channel}
        await self.hooks.run("message_received", event, run.context)

    def _remember_session(self, session: Session) -> None:
        self._used[session.key] = session
        if len(self._used) > MAX_KEPT_SESSIONS:
            self._used.popitem(last=False)

    def _start_watchdog(self) -> None:
        settings = self.services.configuration.diagnostics
        if self._watchdog is None and settings.enabled:
            lanes, dispatcher = self.services.lanes, self._dispatcher
            watchdog = StuckSessionWatchdog(settings, lanes, dispatcher.runs, dispatcher.abort, self._warn)
            self._watchdog = asyncio.create_task(watchdog.watch())

    def _warn(self, warning: StuckSessionWarning) -> None:
        self.warnings.append(warning)
        facts = warning._asdict()
        self.services.diagnostics.mark(facts.pop("state"), run_id=facts.pop("run_id"), **facts)


@contextlib.asynccontextmanager
async def open_runtime(
    environment: Mapping[str, str],
    *,
    config: Path | None = None,
    arguments: Sequence[str] = (),
    clients: ClientFactory | None = None,
    outbox: Outbox | None = None,
    tools: Sequence[Tool] = (),
    diagnostics: Diagnostics | None = None,
) -> AsyncIterator[AgentRuntime]:
    """Create a runtime from the configuration that applies in this environment; close it at the end of the block.

    With CRITIQOR_RUN_ID in the environment, it is recorded into that run; OPENCLAW_DIAGNOSTICS requests a timeline,
    unless `diagnostics` is given. `arguments` are those of the command line, where `--profile` selects the
    configuration.
    """
    diagnostics = diagnostics or Diagnostics.from_environment(environment)
    with contextlib.ExitStack() as stack:
        stack.callback(diagnostics.close)
        with diagnostics.span("config.load"):
            location = locate_loop_configuration(environment, config, arguments)
            configuration = read_loop_configuration(location.path)
        hooks, streams, updates = PluginHooks(), EventStreams(), TranscriptUpdates()
        hooks.on_failure = lambda failure: diagnostics.mark("hook.failed", **failure._asdict())
        recorder = attach_recorder(hooks, updates, environment)
        stack.callback(recorder.close)
        with diagnostics.span("plugins.load"):
            register_installed_hooks(hooks)
            folder, settings = location.path.parent, configuration.plugin_hooks
            register_configured_hooks(hooks, settings, folder, environment, diagnostics.child_exited)
        runtime = AgentRuntime(
            configuration,
            state_folder=location.state_folder,
            home=location.home,
            environment=environment,
            clients=clients,
            hooks=hooks,
            streams=streams,
            updates=updates,
            diagnostics=diagnostics,
            recorder=recorder,
            outbox=outbox,
            tools=tools,
            folder=location.path.parent,
        )
        try:
            yield runtime
        finally:
            await runtime.close()


def _wait_result(outcome: RunOutcome) -> WaitResult:
    return WaitResult(
        status=outcome.status, started_at=outcome.started_at, ended_at=outcome.ended_at, error=outcome.error
    )
