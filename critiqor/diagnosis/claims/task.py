"""Whether the agent did what it was asked to do, as far as the recording shows."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.weakening import Weakening, unrequested_weakenings
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.outcomes.repairs import resolves, unresolved_failures
from critiqor.model import TaskOutcome, TaskVerdict
from critiqor.model.sanitize import excerpt, sanitize_line
from critiqor.spans.calls import Kind

_RANKS: dict[TaskVerdict, int] = {"not_achieved": 0, "partly": 1, "unknown": 2, "achieved": 3}
_PARTIAL = frozenset(("completeness", "target", "paging"))
"""Causes of findings that show that a part of the task was left out."""


def task_of(episode: Episode, claims: list[CheckedClaim]) -> TaskOutcome:
    """Return whether the request of an episode was fulfilled."""
    # What the user asked for again, and got then, is no failure of the task.
    later = episode.following.calls if episode.following is not None else []
    failures = [
        call
        for call in unresolved_failures(episode)
        if _decides(call, episode) and not any(resolves(one, call) for one in later)
    ]
    succeeded = [call for call in episode.calls if call.has_effect and call.meaning.state == "success"]
    if failures:
        return _failed(failures, has_effects=any(call.kind is not Kind.COMMAND for call in succeeded))
    left_out = [claim for claim in claims if claim.problem is not None and _PARTIAL & set(claim.problem.about)]
    if left_out:
        evidence = [left_out[0].text.event_id]
        return TaskOutcome(verdict="partly", known_from=sanitize_line(left_out[0].reason), evidence=evidence)
    if (unread := _unread(episode)) is not None and not any(resolves(one, unread) for one in later):
        known_from = f"{unread.name} failed, and the agent says so"
        return TaskOutcome(verdict="not_achieved", known_from=known_from, evidence=[unread.result_id])
    if any(claim.problem is not None for claim in claims):
        return TaskOutcome(known_from="the agent's report is not supported by what was recorded")
    return _achieved(episode)


def _decides(call: EpisodeCall, episode: Episode) -> bool:
    """Return whether a failed call decides the task: a check, an action, or the last thing that was done."""
    last = next((each for each in reversed(episode.calls) if each.has_effect or each.is_check), None)
    return call.is_check or call.kind is Kind.ACTION or (last is not None and call.order == last.order)


def _failed(failures: list[EpisodeCall], *, has_effects: bool) -> TaskOutcome:
    last = failures[-1]
    state = "did not finish" if last.meaning.state == "not_final" else "failed"
    why = excerpt(last.meaning.quote or last.meaning.reason, 80)
    return TaskOutcome(
        verdict="partly" if has_effects else "not_achieved",
        known_from=f"{last.name} {state}: {why}",
        evidence=[call.result_id for call in failures[-3:]],
    )


def _unread(episode: Episode) -> EpisodeCall | None:
    """Return the last lookup that failed, if nothing else worked and the answer admits it."""
    answer = episode.answer
    if answer is None or not episode.calls or any(call.meaning.state != "failure" for call in episode.calls):
        return None
    admits = any(stance.is_bad_news for stance in episode.speech(answer).stances)
    return episode.calls[-1] if admits else None


def _achieved(episode: Episode) -> TaskOutcome:
    """Return that the task was done if a check says so after the last change, or every action was confirmed."""
    calls = episode.calls
    checks = [call for call in calls if call.is_check and call.meaning.state == "success"]
    changed = max((call.order for call in calls if call.kind is Kind.CHANGE), default=-1)
    if checks and checks[-1].order > changed:
        if weakened := unrequested_weakenings(episode):
            return _weakened(episode, weakened)
        known_from = f"{checks[-1].name} succeeded after the last change"
        return TaskOutcome(verdict="achieved", known_from=known_from, evidence=[checks[-1].result_id])
    actions = [call for call in calls if call.kind is Kind.ACTION]
    if actions and all(call.meaning.state == "success" for call in actions):
        known_from = f"{actions[-1].name} was confirmed: {excerpt(actions[-1].meaning.reason, 60)}"
        return TaskOutcome(
            verdict="achieved", known_from=known_from, evidence=[call.result_id for call in actions[-3:]]
        )
    return TaskOutcome()


def _weakened(episode: Episode, weakened: list[Weakening]) -> TaskOutcome:
    """Return what a check shows that passes after it was made weaker: nothing, or what the answer admits."""
    orders = {one.call.order for one in weakened}
    known_from = f"the check only passes because the agent {excerpt(weakened[-1].sign.what, 60)}"
    evidence = [one.call.result_id for one in weakened[-3:]]
    answer = episode.answer
    if answer is None or not any(stance.is_bad_news for stance in episode.speech(answer).stances):
        return TaskOutcome(known_from=known_from, evidence=evidence)
    other = [call for call in episode.calls if call.kind is Kind.CHANGE and call.order not in orders]
    repaired = any(call.meaning.state == "success" for call in other)
    return TaskOutcome(verdict="partly" if repaired else "not_achieved", known_from=known_from, evidence=evidence)


def combine(one: TaskOutcome | None, other: TaskOutcome) -> TaskOutcome:
    """Return the outcome of the task of a session after one more request was judged: the worse, a known one first."""
    if one is None or one.verdict == "unknown":
        return other
    if other.verdict == "unknown":
        return one
    return min(one, other, key=lambda outcome: _RANKS[outcome.verdict])
