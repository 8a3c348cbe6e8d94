"""A runtime for a whole process: configured by its environment, recorded and timed where that is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from critiqor.agentloop.configuration import locate, read_loop_configuration
from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.models.model_selection import completions_client
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import attach_recorder
from critiqor.agentloop.services import ClientMaker
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.tools.messaging import Outbox
from critiqor.agentloop.tools.tool import Tool


@contextlib.asynccontextmanager
async def opened_runtime(
    environment: Mapping[str, str],
    *,
    config: Path | None = None,
    arguments: Sequence[str] = (),
    clients: ClientMaker = completions_client,
    outbox: Outbox | None = None,
    tools: Sequence[Tool] = (),
) -> AsyncIterator[AgentRuntime]:
    """A runtime from the configuration that this environment means, closed with everything that belongs to it.

    With CRITIQOR_RUN_ID in the environment it is recorded into that run; OPENCLAW_DIAGNOSTICS asks for a timeline.
    `arguments` are those of the command line, of which a profile selects the configuration.
    """
    diagnostics = Diagnostics.from_environment(environment)
    with contextlib.ExitStack() as held:
        held.callback(diagnostics.close)
        with diagnostics.span("config.load"):
            place = locate(environment, config, arguments)
            configuration = read_loop_configuration(place.path)
        hooks, streams, updates = PluginHooks(), EventStreams(), TranscriptUpdates()
        recorder = attach_recorder(hooks, updates, environment)
        held.callback(recorder.close)
        runtime = AgentRuntime(
            configuration,
            state_folder=place.state_folder,
            home=place.home,
            environment=environment,
            clients=clients,
            hooks=hooks,
            streams=streams,
            updates=updates,
            diagnostics=diagnostics,
            recorder=recorder,
            outbox=outbox,
            tools=tools,
        )
        try:
            yield runtime
        finally:
            await runtime.close()
