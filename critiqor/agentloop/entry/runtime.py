"""The entry points of the loop: `agent` accepts a message and returns at once, `wait` waits for what becomes of it."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from critiqor.agentloop.configuration import LoopConfiguration, workspace_path
from critiqor.agentloop.context.installs import install_skill
from critiqor.agentloop.context.skills import SkillsCache
from critiqor.agentloop.entry.background_tasks import Background
from critiqor.agentloop.entry.subagents import Subagents
from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.internal_hooks import InternalHooks, find_hooks
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.loop.commands import command_in
from critiqor.agentloop.loop.external_turn import ExternalTurn
from critiqor.agentloop.models.model_selection import completions_client
from critiqor.agentloop.queue.dispatcher import Dispatcher
from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.queue.stuck_sessions import StuckSession, StuckSessions
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import Recorder
from critiqor.agentloop.replies.delivery import HookedOutbox
from critiqor.agentloop.runs import Abort, AbortKind, Accepted, AgentParams, Run, RunOutcome, WaitResult
from critiqor.agentloop.services import OWN_FOLDER, ClientMaker, Services
from critiqor.agentloop.sessions.sessions import Session, Sessions
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.tools.messaging import MemoryOutbox, Outbox
from critiqor.agentloop.tools.tool import Tool
from critiqor.errors import CritiqorError
from critiqor.model import now_ms

DEFAULT_WAIT_SECONDS = 30.0
KEPT_SESSIONS = 1_000
"""Sessions whose end is told when the program ends."""
SHUTDOWN_SECONDS = 10.0


class AgentRuntime:
    """Runs agents, as many as there are sessions. `host.opened_runtime` makes one for a process of its own."""

    def __init__(
        self,
        configuration: LoopConfiguration,
        *,
        state_folder: Path,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        clients: ClientMaker = completions_client,
        hooks: PluginHooks | None = None,
        streams: EventStreams | None = None,
        updates: TranscriptUpdates | None = None,
        diagnostics: Diagnostics | None = None,
        recorder: Recorder | None = None,
        outbox: Outbox | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        self.hooks = hooks or PluginHooks()
        self.streams = streams or EventStreams()
        self.updates = updates or TranscriptUpdates()
        self.outbox = outbox or MemoryOutbox()
        self._background = Background()
        home = home or Path.home()
        told = diagnostics or Diagnostics(None)
        known = dict(os.environ if environment is None else environment)
        workspace = workspace_path(configuration, configuration.default_agent, state_folder, home)
        scripts = find_hooks(configuration.internal_hooks, state_folder, workspace, home)
        self.services = Services(
            configuration=configuration,
            state_folder=state_folder,
            home=home,
            environment=known,
            sessions=Sessions(state_folder / OWN_FOLDER),
            lanes=Lanes(),
            hooks=self.hooks,
            streams=self.streams,
            updates=self.updates,
            diagnostics=told,
            recorder=recorder or Recorder(None),
            clients=clients,
            internal_hooks=InternalHooks(scripts, known, exited=told.child_exited),
            skills=SkillsCache(state_folder, home, configuration.skills, known),
            outbox=HookedOutbox(self.outbox, self.hooks),
            spawn=Subagents(self, self._background).spawn,
            tools=tools,
        )
        self.warnings: deque[StuckSession] = deque(maxlen=100)
        """Sessions that were busy for long without progress, the latest last."""
        self._dispatch = Dispatcher(self.services)
        self._accepting: set[str] = set()
        self._used: OrderedDict[str, Session] = OrderedDict()
        self._watch: asyncio.Task[None] | None = None
        self._is_closing = False

    async def agent(self, params: AgentParams, external: ExternalTurn | None = None) -> Accepted:
        """Accept a message: find its session, remember it, and start its run or queue it.

        With `external` somebody else makes the turn, and the loop does the rest.
        """
        params.check()
        self._check_open()
        run_id = params.run_id or str(uuid4())
        accepted_at = now_ms()
        if self._dispatch.knows(run_id) or run_id in self._accepting:
            return Accepted(run_id=run_id, accepted_at=accepted_at, status="in_flight")
        sessions, default = self.services.sessions, self.services.configuration.default_agent
        address = sessions.address(params.agent_id, params.session_key, params.session_id, default)
        self._accepting.add(run_id)
        try:
            session = await sessions.open(address)
            self._check_open()  # once more, because that took a moment
            run = Run(run_id, params, session, accepted_at)
            run.recording = self.services.recorder.open_run(run_id, session.key)
            run.external = external
            run.command = command_in(params.message)
            if params.channel is not None:
                self._background.start(self._tell_received(run))
            self._dispatch.place(run)
            self._note_used(session)
        finally:
            self._accepting.discard(run_id)
        self._watch_sessions()
        return Accepted(run_id=run_id, accepted_at=accepted_at)

    async def wait(self, run_id: str, timeout_s: float = DEFAULT_WAIT_SECONDS) -> WaitResult:
        """Wait for the end of a run, at most so long. That only waits: the run goes on."""
        run = self._dispatch.run(run_id)
        if run is None:
            return _waited(self._dispatch.outcome(run_id))
        await asyncio.wait({run.done}, timeout=max(0.0, timeout_s))
        return (
            _waited(run.done.result()) if run.done.done() else WaitResult(status="timeout", started_at=run.started_at)
        )

    async def outcome(self, run_id: str) -> RunOutcome:
        """How a run ended, with its payloads and usage; waits for it."""
        run = self._dispatch.run(run_id)
        return self._dispatch.outcome(run_id) if run is None else await asyncio.shield(run.done)

    def cancel(self, run_id: str, reason: str = "cancelled", kind: AbortKind = "cancelled") -> bool:
        """End a run, wherever it is; False if there is nothing to end."""
        run = self._dispatch.run(run_id)
        return run is not None and self._dispatch.abort(run, Abort(kind, reason))

    async def announce(self, session_key: str, text: str) -> None:
        """Tell a session something that happened: in the run that is under way, or else in one of its own."""
        if not self._is_closing:
            params = AgentParams(message=text, session_key=session_key, trigger="subagent", queue_mode="steer")
            await self.agent(params)

    async def install_skill(self, source: Path) -> Path:
        """Install the skill of a folder for all agents, unless a plugin is against it; returns where it is now."""
        return await install_skill(source, self.services.state_folder / "skills", self.hooks)

    async def drain(self) -> None:
        """Wait until nothing is under way: no run, and no child that one has started."""
        while (runs := self._dispatch.runs()) or self._background.is_busy:
            if runs:
                await asyncio.wait({run.done for run in runs})
            # A child that is done tells its parent, and the parent may have something to say to that.
            await self._background.finished()

    async def end_sessions(self, reason: str) -> None:
        """Tell plugins that every session which was used here ends."""
        sessions, self._used = list(self._used.values()), OrderedDict()
        for session in sessions:
            event = {"sessionId": session.id, "sessionKey": session.key, "reason": reason}
            context = {"agentId": session.agent_id, "sessionId": session.id, "sessionKey": session.key}
            await self.hooks.run("session_end", event, context)

    async def close(self) -> None:
        """End everything that is under way, and write what was held back."""
        self._is_closing = True
        if self._watch is not None:
            self._watch.cancel()
        runs = self._dispatch.runs()
        for run in runs:
            self._dispatch.abort(run, Abort("shutdown", "the agent runtime was closed"))
        if runs:
            await asyncio.wait({run.done for run in runs}, timeout=SHUTDOWN_SECONDS)
        await self._background.close(SHUTDOWN_SECONDS)
        await self.services.sessions.close()

    def _check_open(self) -> None:
        if self._is_closing:
            raise CritiqorError("the agent runtime is being closed", fix="start it again")

    async def _tell_received(self, run: Run) -> None:
        params = run.params
        event = {"from": params.to, "content": params.message, "channelId": params.channel}
        await self.hooks.run("message_received", event, run.context)

    def _note_used(self, session: Session) -> None:
        self._used[session.key] = session
        if len(self._used) > KEPT_SESSIONS:
            self._used.popitem(last=False)

    def _watch_sessions(self) -> None:
        settings = self.services.configuration.diagnostics
        if self._watch is None and settings.enabled:
            lanes = self.services.lanes
            watchdog = StuckSessions(settings, lanes, self._dispatch.runs, self._dispatch.abort, self._warn)
            self._watch = asyncio.create_task(watchdog.watch())

    def _warn(self, warning: StuckSession) -> None:
        self.warnings.append(warning)
        facts = warning._asdict()
        self.services.diagnostics.mark(facts.pop("state"), run_id=facts.pop("run_id"), **facts)


def _waited(outcome: RunOutcome) -> WaitResult:
    return WaitResult(
        status=outcome.status, started_at=outcome.started_at, ended_at=outcome.ended_at, error=outcome.error
    )
