"""Preparation of a run: models, thinking and verbosity levels, workspace, skills, bootstrap files and tools."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from critiqor.agentloop.context.bootstrap import BootstrapFile, load_bootstrap
from critiqor.agentloop.context.system_prompt import PromptSources
from critiqor.agentloop.context.workspace import Workspace, prepare_workspace, workspace_path
from critiqor.agentloop.models.model_selection import ResolvedModel, models_of_run
from critiqor.agentloop.replies.reply_builder import Verbosity
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import LOOP_FOLDER, Services
from critiqor.agentloop.sessions.messages import Text, UserMessage
from critiqor.agentloop.sessions.sessions import is_main, is_subagent
from critiqor.agentloop.tools.registry import offered_tools
from critiqor.agentloop.tools.tool import Workbench
from critiqor.model import now_ms
from critiqor.openclaw.paths import expand_path


@dataclass(slots=True, kw_only=True)
class PreparedRun:
    """What a run needs before its first prompt."""

    message: UserMessage
    models: list[ResolvedModel]
    """The preferred one first."""
    start_decision: dict[str, Any]
    """What handlers of `before_agent_start` decided before the model was resolved; it also applies to the prompt."""
    thinking: str
    verbose: Verbosity
    trace: bool
    bench: Workbench
    sources: PromptSources


async def prepare(run: Run, services: Services) -> PreparedRun:
    """Prepare a run; raises `UsageError` or `CritiqorError` if that fails."""
    configuration, params, entry = services.configuration, run.params, run.session.entry
    defaults = configuration.defaults
    decided = await services.hooks.run("before_model_resolve", {"prompt": run.message}, run.context)
    start_decision = await services.hooks.run("before_agent_start", {"prompt": run.message}, run.context)
    models = models_of_run(configuration, params.model, start_decision | decided)
    workspace = _workspace(run, services)
    skills = services.skills.snapshot(workspace)
    is_child = is_subagent(run.session.key)
    spawn = None if is_child else services.spawn
    tools = [*offered_tools(outbox=run.replies, spawn=spawn), *services.tools]
    thinking = params.thinking or entry.thinking_level or defaults.thinking_default
    verbose = params.verbose or _verbosity(entry.verbose_level) or defaults.verbose_default
    trace = params.trace or entry.trace_level or defaults.trace_default
    run.replies.verbose = verbose
    services.sessions.update(run.session, thinking_level=thinking, verbose_level=verbose, trace_level=trace)
    sources = PromptSources(
        tools=tools,
        workspace=workspace.folder,
        sandboxed=workspace.sandboxed,
        skills=skills.prompt,
        bootstrap=await _bootstrap(run, services, workspace, minimal=is_child),
        extra=params.extra_system_prompt,
        mode="minimal" if is_child else "full",
        agent_id=run.session.agent_id,
        model=models[0].reference,
        thinking=thinking,
        today=datetime.now(UTC).astimezone().date(),
    )
    return PreparedRun(
        message=UserMessage(content=[Text(run.message)], timestamp=now_ms()),
        models=models,
        start_decision=start_decision,
        thinking=thinking,
        verbose=verbose,
        trace=trace == "on",
        bench=Workbench(
            tools={tool.name: tool for tool in tools},
            workspace=workspace.folder,
            sandboxed=workspace.sandboxed,
            environment={**services.environment, **skills.environment},
        ),
        sources=sources,
    )


def _workspace(run: Run, services: Services) -> Workspace:
    configuration, session = services.configuration, run.session
    sandbox = configuration.defaults.sandbox
    is_sandboxed = sandbox.mode == "all" or (sandbox.mode == "non-main" and not is_main(session.key))
    root = services.state_folder / LOOP_FOLDER / "sandboxes"
    if sandbox.workspace_root is not None:
        root = expand_path(sandbox.workspace_root, services.home)
    folder = workspace_path(configuration, session.agent_id, services.state_folder, services.home)
    return prepare_workspace(folder, session.key, root if is_sandboxed else None)


async def _bootstrap(run: Run, services: Services, workspace: Workspace, *, minimal: bool) -> list[BootstrapFile]:
    files = load_bootstrap(workspace.agent_folder, minimal=minimal)
    hooks = services.internal_hooks
    if not hooks.scripts:
        return files
    listed = [msgspec.to_builtins(file) | {"missing": file.content is None} for file in files]
    context: dict[str, Any] = {
        "workspaceDir": str(workspace.agent_folder),
        "bootstrapFiles": listed,
        "sessionKey": run.session.key,
        "sessionId": run.session.id,
        "agentId": run.session.agent_id,
    }
    answer = await hooks.emit("agent", "bootstrap", run.session.key, context)
    return [file for item in answer.context["bootstrapFiles"] if (file := _parse_file(item)) is not None]


def _parse_file(item: Any) -> BootstrapFile | None:
    try:
        return msgspec.convert(item, type=BootstrapFile)
    except msgspec.ValidationError:
        return None


def _verbosity(level: str | None) -> Verbosity | None:
    return level if level in ("off", "on", "full") else None  # type: ignore[return-value]
