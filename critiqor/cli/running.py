"""An agent that runs on although nobody records it any more: said aloud, with the command that ends it."""

from __future__ import annotations

from critiqor.cli.hints import pasted
from critiqor.cli.output import say, warn

ATTACHED = (
    "OpenClaw was attached to and not launched by Critiqor: it runs on by itself; stop its service by its own means"
)


def stop_command(run_id: str) -> str:
    """What ends everything that was launched for a run."""
    return pasted(f"critiqor abort --stop {run_id}")


def warn_of_running(run_id: str, runs_dir: str) -> None:
    """Say that what was launched for a run that is over still runs, where it does."""
    from critiqor.recording.stop import running_agent
    from critiqor.run.lifecycle import load_record_head

    agent = running_agent(run_id, runs_dir)
    if agent is not None:
        running = f"OpenClaw (pid {agent.pid}) is still running and is no longer recorded"
        warn(f"{running}; to stop it: {stop_command(run_id)}")
    elif load_record_head(run_id, runs_dir)["owner"] is None:
        say(ATTACHED)


def say_how_to_stop(run_id: str, runs_dir: str) -> None:
    """The same of a run that goes on."""
    from critiqor.recording.stop import running_agent

    agent = running_agent(run_id, runs_dir)
    if agent is not None:
        say(f"OpenClaw (pid {agent.pid}) is still running; to stop it: {stop_command(run_id)}")
