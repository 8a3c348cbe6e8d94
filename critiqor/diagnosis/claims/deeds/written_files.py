"""The agent says that it wrote tests, documents or the like, and no call writes anything of the kind."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.request_parts import done_clauses, may_do_anything
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.vocabulary import Vocabulary

ARTIFACTS = Path(__file__).with_name("artifacts.toml")


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    names: str
    written: str


@cache
def _artifacts() -> tuple[Vocabulary, dict[str, re.Pattern[str]]]:
    """Return how texts name each kind of files, and what a call contains that writes one."""
    read = msgspec.convert(tomllib.loads(ARTIFACTS.read_text(encoding="utf-8")), dict[str, _Data])
    names = {kind: [entry.strip() for entry in data.names.replace("\n", " ").split(",")] for kind, data in read.items()}
    return Vocabulary(names), {kind: re.compile(data.written, re.IGNORECASE) for kind, data in read.items()}


def check_written_files(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claim that tests, documents or the like were written, although no call writes any."""
    answer = episode.answer
    effects = [call for call in evidence.calls if call.has_effect]
    if answer is None or not effects or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    words, kinds = _artifacts()
    hits = words.scan(speech.lowered) if speech.language is not None else []
    if not hits or any(map(may_do_anything, effects)):
        return []
    for kind, written in kinds.items():
        places = [hit.start for hit in hits if hit.mark & words.bit(kind)]
        writers = [call for call in effects if places and not call.is_check]
        if not places or any(written.search(call.facts) or written.search(call.tool) for call in writers):
            continue
        for clause in done_clauses(speech):
            # "The tests pass" reports a check; "a test was added" reports a deed.
            is_deed = speech.has(clause, "actions.create") or speech.has(clause, "actions.change")
            if is_deed and any(clause.statement.start <= place < clause.statement.end for place in places):
                return [unsupported(answer, clause, kind, reason="no call writes anything of the kind", kind="action")]
    return []
