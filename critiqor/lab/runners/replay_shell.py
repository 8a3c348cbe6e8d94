"""A shell that answers known command lines from a script and passes all others to the real shell.

A recorded command keeps its text, which the diagnosis examines, without being run: nothing is deployed, sent or deleted
a second time. Agents use the shell in the variable SHELL.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from critiqor.lab.scenario import Command

# Creating a folder is atomic, so parallel calls claim one answer each. A gateway puts the setting of PATH before the
# command line that the agent asked for.
_SHELL = """\
#!/bin/sh
for line in "$@"; do :; done
case $line in
'export PATH="${{OPENCLAW_PREPEND_PATH}}'*) asked=${{line#*'; unset OPENCLAW_PREPEND_PATH; '}} ;;
*) asked=$line ;;
esac
answers="{folder}/$(printf %s "$asked" | sha256sum | cut -d ' ' -f 1)"
[ -d "$answers" ] || exec /bin/sh -c "$line"
number=1
while [ -d "$answers/$((number + 1))" ] && ! mkdir "$answers/$number/given" 2>/dev/null; do number=$((number + 1)); done
sleep "$(cat "$answers/$number/delay")"
cat "$answers/$number/output"
exit "$(cat "$answers/$number/code")"
"""


def write_replay_shell(folder: Path, commands: Sequence[Command]) -> dict[str, str]:
    """Create the replay shell in `folder`, and return the environment in which an agent uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    answers: dict[str, list[Command]] = defaultdict(list)
    for command in commands:
        answers[command.line].append(command)
    for line, given in answers.items():
        key = hashlib.sha256(line.encode()).hexdigest()
        for number, command in enumerate(given, 1):
            place = folder / key / str(number)
            place.mkdir(parents=True)
            (place / "output").write_text(command.output, encoding="utf-8")
            (place / "code").write_text(str(command.exit_code), encoding="utf-8")
            (place / "delay").write_text(f"{command.delay_s:g}", encoding="utf-8")
    shell = folder / "replay"
    shell.write_text(_SHELL.format(folder=folder.absolute()), encoding="utf-8")
    shell.chmod(0o755)
    return {"SHELL": str(shell.absolute())}
