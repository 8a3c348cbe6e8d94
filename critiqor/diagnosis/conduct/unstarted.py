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
_READS = re.compile(r"(?:^|[;&]\s*)(?:cat|less|head|tail|sed -n|pdftotext|jq|awk|grep)\b")


def find_unstarted_work(episode: Episode) -> list[Lapse]:
    """Return that a file which the user asked for was never begun, while the agent planned or looked around."""
    answer = episode.answer
    if answer is None or not episode.is_over or len(episode.calls) < MIN_PLANS or episode.has_dropped:
        return []
    wanted = [name for name in dict.fromkeys(_FILE.findall(requests(episode))) if not _is_known(episode, name)]
    if not wanted:
        return _only_plans(episode)
    writing = [call for call in episode.calls if call.kind is Kind.CHANGE]
    written = Counter(map(path_of, writing))
    # Files that are written again and again, with nothing else in between, are plans too, whatever they are called.
    planning = [call for call in writing if _PLAN.search(path_of(call)) or written[path_of(call)] >= MIN_PLANS]
    if len(planning) >= MIN_PLANS and len(planning) == len(writing):
        return [_lapse(episode, wanted[0], planning, f"wrote a plan {counted(len(planning), 'time')}")]
    looks = [call for call in episode.calls if _looks_around(call)]
    is_hindered = any(stance.is_bad_news for stance in episode.speech(answer).stances)
    if len(looks) >= MIN_LOOKS and len(looks) == len(episode.calls) and not is_hindered:
        return [_lapse(episode, wanted[0], looks, f"looked around {counted(len(looks), 'time')}")]
    return []


def _only_plans(episode: Episode) -> list[Lapse]:
    """Return that a plan was written again and again, and read, and nothing else was done."""
    plans = [call for call in episode.calls if call.kind is Kind.CHANGE and _PLAN.search(path_of(call))]
    if len(plans) < MIN_PLANS or asks(episode, "plan_wanted") or _PLAN.search(f"/{requests(episode)}"):
        return []
    paths = set(map(path_of, plans))
    if any(path_of(call) not in paths for call in episode.calls if call.kind is not Kind.THOUGHT):
        return []
    return [_lapse(episode, "the work", plans, f"wrote a plan {counted(len(plans), 'time')}")]


def _is_known(episode: Episode, name: str) -> bool:
    """Return whether a file was read, written or found: it exists, or was begun."""
    short = name.lower().rpartition("/")[2]
    for call in episode.calls:
        if short in call.arguments.lower() and ((call.has_effect and not call.line) or call.meaning.state == "success"):
            return True
        if short in call.lowered and call.meaning.state != "failure":
            return True
    return False


def _looks_around(call: EpisodeCall) -> bool:
    """Return whether a call shows no content: it lists, counts or measures."""
    if not call.line:
        return False
    return not _READS.search(call.line) and call.kind in (Kind.LOOKUP, Kind.WAIT, Kind.COMMAND) and ">" not in call.line


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
