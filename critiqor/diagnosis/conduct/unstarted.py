"""The agent prepares and plans on and on, and never begins the file that it was asked to write."""

from __future__ import annotations

import re
from collections import Counter

from critiqor.diagnosis.claims.call_arguments import path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import asks, requests
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "no_progress"
MIN_LOOKS = 8
"""Minimum number of calls that only look around."""
MIN_PLANS = 4
"""Minimum number of times that a plan is written."""
_FILE = re.compile(
    r"(?<![\w/.-])[\w./-]*\w\.(?:md|txt|csv|tsv|json|ya?ml|html?|pdf|docx?|xlsx?|pptx?|od[tsp]|rst|tex|py|js|ts|sql|sh"
    r"|svg|png|toml|ini|conf|ipynb|xml)(?![\w/(])"
)
_PLAN = re.compile(
    r"(?:^|/)\W*\w*(?:plan|todo|to-do|outline|approach|roadmap|strateg|计划|計画|계획|план|خطة)", re.IGNORECASE
)


def find_unstarted_work(episode: Episode) -> list[Lapse]:
    """Return that the work was never begun, while the agent planned or looked around and nothing was in its way."""
    answer = episode.answer
    if answer is None or not episode.is_over or len(episode.calls) < MIN_PLANS or episode.has_dropped:
        return []
    plans = [call for call in episode.calls if _PLAN.search(f"/{call.tool}") or _PLAN.search(_written_path(call))]
    others = [call for call in episode.calls if call not in plans]
    wanted = [name for name in dict.fromkeys(_FILE.findall(requests(episode))) if not _is_known(others, name)]
    if wanted:
        # Files that are written again and again, with nothing else in between, are plans too, whatever they are called.
        written = Counter(map(_written_path, others))
        plans += [call for call in others if _written_path(call) and written[_written_path(call)] >= MIN_PLANS]
        others = [call for call in others if call not in plans]
    is_plan_wanted = asks(episode, "plan_wanted") or _PLAN.search(f"/{requests(episode)}")
    if len(plans) >= MIN_PLANS and not (is_plan_wanted or any(map(_begins, others))):
        paths = set(map(path_of, plans))
        if wanted or all(path_of(call) in paths for call in others):
            name = wanted[0] if wanted else "the work"
            return [_lapse(episode, name, plans, f"wrote a plan {counted(len(plans), 'time')}")]
    is_hindered = any(stance.is_bad_news for stance in episode.speech(answer).stances)
    if wanted and len(others) >= MIN_LOOKS and not any(map(_begins, others)) and not is_hindered:
        only_looked = all(call.kind is Kind.LOOKUP for call in others)
        did = f"looked around {counted(len(others), 'time')}" if only_looked else f"made {counted(len(others), 'call')}"
        return [_lapse(episode, wanted[0], others, did)]
    return []


def _written_path(call: EpisodeCall) -> str:
    return path_of(call) if call.kind is Kind.CHANGE else ""


def _begins(call: EpisodeCall) -> bool:
    return call.kind in (Kind.CHANGE, Kind.ACTION, Kind.OTHER) or (call.kind is Kind.COMMAND and ">" in call.line)


def _is_known(calls: list[EpisodeCall], name: str) -> bool:
    """Return whether a file was read, written or found: it exists, or was begun."""
    short = name.lower().rpartition("/")[2]
    return any(
        (short in call.arguments.lower() and call.has_effect and not call.line)
        or (short in f"{call.arguments.lower()}\n{call.lowered}" and call.text and call.meaning.state != "failure")
        for call in calls
    )


def _lapse(episode: Episode, name: str, calls: list[EpisodeCall], did: str) -> Lapse:
    request = episode.requests[-1] if episode.requests else None
    return Lapse(
        type=TYPE,
        about=("unstarted",),
        confidence=70,
        title=f"The agent {did}, and never began {excerpt(name, 40)}",
        explanation="Nothing that the agent did brought the result closer.",
        recommendation="Instruct the agent to begin with the result, and to plan only as much as the task needs.",
        verification="Run the same task again: the agent begins with the work.",
        causes=[(request.event_id, f"The user asked: {excerpt(request.text, 80)}")] if request is not None else [],
        event_id=calls[len(calls) // 2].call_id,
        happened=f"The agent {did}",
        calls=calls,
    )
