"""Messages about an agent that is still running, with the command that stops it."""

from __future__ import annotations

from critiqor.cli.hints import stop_command
from critiqor.cli.output import say, warn

ATTACHED = "OpenClaw keeps running: Critiqor was only attached to it. Stop it with its service manager"


def warn_if_running(run_id: str, runs_dir: str) -> None:
    """Warn if the agent of a finished run is still running, because it is no longer recorded."""
    from critiqor.run.owner import may_be_running
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    head = store.run(run_id).head()
    if head.owner is None:
        say(ATTACHED)
    if not may_be_running(store.paths, head):
        return
    from critiqor.recording.stop import describe_running, find_agent_processes

    agent = find_agent_processes(run_id, runs_dir)
    if agent is not None and agent.is_launched:
        warn(f"{describe_running(agent)} and is no longer recorded; to stop it: {stop_command(run_id)}")
    elif agent is not None:
        warn(f"{describe_running(agent)}; to stop them: {stop_command(run_id)}")


def say_if_running(run_id: str, runs_dir: str) -> None:
    """Print that the agent of a run is still running, and how to stop it; nothing if it is not running."""
    from critiqor.recording.stop import describe_running, find_agent_processes

    agent = find_agent_processes(run_id, runs_dir)
    if agent is not None:
        say(f"{describe_running(agent)}; to stop {'it' if agent.is_launched else 'them'}: {stop_command(run_id)}")
