"""The agent says that it ran a command, which it quotes, and no call has run that command."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.capabilities import is_opaque
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.results.programs import is_program

_COMMAND = re.compile(r"`(?:\$ )?(?:sudo |npx )?([a-z][\w.-]*) (?:-[\w-]+ )*([a-z][\w:.-]*)[^`\n]*`")
"""A program and its subcommand, or what it is run on."""


def check_commands(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of commands that were not run."""
    answer = episode.answer
    if answer is None or "`" not in answer.text or episode.has_dropped or not evidence.is_complete:
        return []
    if any(map(is_opaque, evidence.calls)):
        return []
    speech = episode.speech(answer)
    claims = []
    for stance in speech.stances:
        if not stance.is_good_news or stance.is_uncertain or not speech.is_own(stance):
            continue
        for program, argument in _COMMAND.findall(stance.statement.text):
            if is_program(program) and not _was_run(evidence, program, argument):
                reason = f"no call ran `{program} {argument}`"
                claims.append(unsupported(answer, stance, "command", reason=reason, kind="check"))
                break
    return claims


def _was_run(evidence: Evidence, program: str, argument: str) -> bool:
    """Return whether a call ran a program with an argument, or its arguments or output name both."""
    command = re.compile(rf"(?<![\w.-]){re.escape(program)}\b[^|;&\n]*?(?<![\w.-]){re.escape(argument)}(?![\w-])")
    if any(command.search(call.line or call.arguments) or command.search(call.text) for call in evidence.calls):
        return True
    # A script may run it, and show its name.
    return any(argument in call.lowered for call in evidence.calls if call.line)
