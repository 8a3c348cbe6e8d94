"""`critiqor completion bash|zsh|fish`."""

from __future__ import annotations

import click

from critiqor.cli.options import json_option
from critiqor.cli.output import answer

VARIABLE = "_CRITIQOR_COMPLETE"
"""The variable by which click recognizes a completion request of the shell."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print a script with which SHELL completes verbs, options, runs and findings.

    \b
    eval "$(critiqor completion bash)"                                          in ~/.bashrc
    eval "$(critiqor completion zsh)"                                           in ~/.zshrc, after compinit
    critiqor completion fish > ~/.config/fish/completions/critiqor.fish         once
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click supports all three shells"
    script = kind(ctx.find_root().command, {}, "critiqor", VARIABLE).source()
    # In fish, click cuts a description at its first comma.
    script = script.replace('(string split "," $completion)', '(string split --max 1 "," $completion)')
    answer("completion", {"shell": shell, "script": script}, script.rstrip("\n"), as_json=as_json)
