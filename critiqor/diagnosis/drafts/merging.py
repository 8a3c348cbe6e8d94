"""Join drafts with the same cause, so that what is kept depends on the number of findings, not on their occurrences."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.waste import Waste
from critiqor.model import SEVERITIES, Scope, Severity

MAX_PAST = 64
"""Drafts of one detector and agent run that are kept one by one. Of more, those with the same cause are joined."""


MAX_JUDGED = 400
"""The same for drafts of claims and hazards of a recording."""


class PastDrafts:
    """Drafts of one detector that no longer change. Their series of wasted calls must be `CallCosts`."""

    def __init__(self) -> None:
        self.all: list[Draft] = []
        self._last: dict[tuple[str, ...], int] = {}
        """Index of the last draft of each cause."""

    def add(self, draft: Draft) -> None:
        """Add a draft, into which later ones of the same cause are merged."""
        known = self._last.get(draft.about)
        if known is None or len(self.all) < MAX_PAST:
            self._last[draft.about] = len(self.all)
            self.all.append(draft)
        else:
            self.all[known] = _joined(self.all[known], draft)


def _is_worse(one: Draft, other: Draft) -> bool:
    """Return whether a draft describes a finding better than another with the same cause."""
    return _rank(one) < _rank(other)


def _rank(draft: Draft) -> tuple[int, int, str]:
    return SEVERITIES.index(draft.severity), -draft.confidence, draft.first_bad_step or ""


def _joined(one: Draft, other: Draft) -> Draft:
    """Return two drafts of the same detector and agent run as one; the series of the first are continued."""
    if isinstance(one.wasted_tool_calls, CallCosts) and isinstance(other.wasted_tool_calls, CallCosts):
        one.wasted_tool_calls.extend(other.wasted_tool_calls)
    calls = one.explained_calls or Orders()
    if other.explained_calls is not None:
        calls.update(other.explained_calls)
    return replace(
        other if _is_worse(other, one) else one,
        evidence=cite_events((*one.evidence, *other.evidence)),
        occurrences=one.occurrences + other.occurrences,
        earliest=_earliest(one, other),
        wasted_tool_calls=one.wasted_tool_calls,
        explained_calls=calls,
    )


def earliest_step(draft: Draft) -> str | None:
    """Return the event with which a failure began, in the first of the drafts that were merged."""
    return draft.earliest or draft.first_bad_step


def _earliest(*drafts: Draft) -> str | None:
    return min((step for draft in drafts if (step := earliest_step(draft)) is not None), default=None)


class Explained:
    """The tool calls that drafts explain, by type and severity of the draft: all that is kept of past ones."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, Severity], Orders] = {}

    def add(self, draft: Draft) -> None:
        """Add the events that a draft explains, so that drafts about them are merged into it."""
        if draft.explained_calls:
            self.calls.setdefault((draft.type, draft.severity), Orders()).update(draft.explained_calls)


class JudgedDrafts:
    """Drafts of claims and hazards. Of many, those with the same cause in a session are joined."""

    def __init__(self) -> None:
        self.all: list[Draft] = []
        self.explained = Explained()
        """The tool calls that they explain."""
        self._last: dict[Hashable, int] = {}
        """Index of the last draft of each cause."""

    def add(self, draft: Draft) -> None:
        """Add a draft, into which later ones of the same cause are merged."""
        self.explained.add(draft)
        key = (draft.scope.session_key, draft.type, draft.about)
        known = self._last.get(key)
        if known is None or len(self.all) < MAX_JUDGED:
            self._last[key] = len(self.all)
            self.all.append(draft)
            return
        before = self.all[known]
        scopes = dict.fromkeys((*(before.merged or (before.scope,)), draft.scope))
        self.all[known] = replace(_joined(before, draft), merged=list(scopes))


class _JoinedDraft:
    """Drafts of several agent runs of a session with the same cause."""

    def __init__(self, first: Draft) -> None:
        self._worst = first
        self._evidence: list[str] = []
        self._occurrences = 0
        self._earliest: str | None = None
        self._scopes: dict[Scope, None] = {}
        self._waste = Waste()
        self._resent_tokens = 0

    def add(self, draft: Draft) -> None:
        """Add a draft of an agent run that is over."""
        if _is_worse(draft, self._worst):
            self._worst = draft
        self._evidence = cite_events((*self._evidence, *draft.evidence))
        self._occurrences += draft.occurrences
        step = earliest_step(draft)
        if step is not None and (self._earliest is None or step < self._earliest):
            self._earliest = step
        self._scopes[draft.scope] = None
        self._waste.add_all(draft.wasted_tool_calls, draft.wasted_model_calls)
        if isinstance(draft.wasted_tool_calls, Waste):
            self._waste.add_sums(draft.wasted_tool_calls)
        self._resent_tokens += draft.resent_tokens
        # The worst one is kept for its words.
        draft.wasted_tool_calls, draft.wasted_model_calls, draft.explained_calls = [], [], None

    @property
    def draft(self) -> Draft:
        """All of them as one draft."""
        return replace(
            self._worst,
            evidence=self._evidence,
            occurrences=self._occurrences,
            earliest=self._earliest,
            merged=list(self._scopes),
            wasted_tool_calls=self._waste,
            resent_tokens=self._resent_tokens,
        )


class JoinedDrafts:
    """The drafts of agent runs and sessions that are over, joined by session and cause."""

    def __init__(self) -> None:
        self._joined: dict[Hashable, _JoinedDraft] = {}
        self.waste = Waste()
        """Waste of all of them; each call counts once."""

    def add(self, draft: Draft) -> None:
        """Add a draft that no longer changes."""
        self.waste.add_all(draft.wasted_tool_calls, draft.wasted_model_calls)
        key = (draft.scope.session_key, draft.scope.agent_run_id is None, draft.type, draft.about)
        joined = self._joined.get(key)
        if joined is None:
            joined = self._joined[key] = _JoinedDraft(draft)
        joined.add(draft)

    @property
    def all(self) -> list[Draft]:
        """The joined drafts."""
        return [joined.draft for joined in self._joined.values()]
